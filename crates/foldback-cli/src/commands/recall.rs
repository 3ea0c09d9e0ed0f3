//! `foldback recall`: what a handle hides.

use foldback_core::Handle;
use foldback_engine::StoreError;
use foldback_engine::session::{Recollection, Secrets};
use foldback_engine::store::Page;

use crate::args::Shared;
use crate::args::sessions::Recall;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::store;

/// Sessions that are looked into where none is named.
const SESSIONS_MAX: usize = 10_000;

pub(crate) fn run(shared: &Shared, arguments: &Recall) -> Result<Exit, Failure> {
    let Some(handle) = Handle::parse(&arguments.handle) else {
        return Err(Failure::usage(
            format!("{} is no handle", arguments.handle),
            "a handle is @ and ten letters or digits, as placeholders and summaries print it",
        ));
    };
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Replaced };
    let recalled = store::block_on(find(arguments, &handle))?;
    match shared.json {
        true => output::print_json(&recalled.json(secrets))?,
        false => output::print(&(recalled.text(secrets).trim_end().to_owned() + "\n"))?,
    }
    Ok(Exit::Success)
}

async fn find(arguments: &Recall, handle: &Handle) -> Result<Recollection, Failure> {
    let store = store::open(&arguments.at).await?;
    if let Some(id) = &arguments.session {
        return Ok(store::session(&store, id).await?.recall(handle).await?);
    }
    for info in store.sessions(&Page::first(SESSIONS_MAX)).await? {
        match store::session(&store, &info.id).await?.recall(handle).await {
            Err(StoreError::NotFound { .. }) => {}
            found => return Ok(found?),
        }
    }
    Err(StoreError::NotFound { what: "content behind", id: handle.to_string() }.into())
}
