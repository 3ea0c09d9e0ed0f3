//! `foldback recall`: what a handle hides.

use foldback_core::{Handle, SessionId};
use foldback_engine::session::{Secrets, recollect};

use crate::args::Shared;
use crate::args::sessions::Recall;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::store;

pub(crate) fn run(shared: &Shared, arguments: &Recall) -> Result<Exit, Failure> {
    let Some(handle) = Handle::parse(&arguments.handle) else {
        return Err(Failure::usage(
            format!("{} is no handle", arguments.handle),
            "a handle is @ and ten letters or digits, as placeholders and summaries print it",
        ));
    };
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Replaced };
    let recalled = store::block_on(async {
        let store = store::open(&arguments.at).await?;
        let session = arguments.session.as_deref().map(SessionId::from);
        Ok(recollect(&store, session.as_ref(), &handle).await?)
    })?;
    match shared.json {
        true => output::print_json(&recalled.json(secrets))?,
        false => output::print(&(recalled.text(secrets).trim_end().to_owned() + "\n"))?,
    }
    Ok(Exit::Success)
}
