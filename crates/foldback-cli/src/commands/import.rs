//! `foldback import`: session files into the store, and `--watch` to follow them.

use crate::args::Shared;
use crate::args::sessions::ImportArgs;
use crate::commands::session::import;
use crate::failure::{Exit, Failure};
use crate::store;

pub(crate) fn run(shared: &Shared, arguments: &ImportArgs) -> Result<Exit, Failure> {
    store::block_on(async {
        let store = store::open(&arguments.at).await?;
        import::run(shared, &store, &arguments.import).await
    })
}
