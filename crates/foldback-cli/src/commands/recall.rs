//! `foldback recall`: what a handle hides, in session files or in the store.

use std::path::PathBuf;

use foldback_core::{Handle, Recalled};
use foldback_engine::recall::passages;
use foldback_engine::session::{Recollection, Secrets, recollect};

use crate::args::sessions::Recall;
use crate::args::{Inputs, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output;
use crate::scene::Scene;
use crate::{agents, store, terminal};

/// About so many bytes of passages answer a query: a few screens.
const PASSAGES_BYTES_MAX: usize = 8 * 1024;

/// Compactions of a file that are looked through, the newest first; a session has a few.
const STEPS_MAX: usize = 1_000;

pub(crate) fn run(shared: &Shared, arguments: &Recall) -> Result<Exit, Failure> {
    let Some(handle) = Handle::parse(&arguments.handle) else {
        return Err(Failure::usage(
            format!("{} is no handle", arguments.handle),
            "a handle is @ and ten letters or digits, as placeholders and summaries print it",
        ));
    };
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Replaced };
    let recalled = match arguments.files.is_empty() {
        true => match in_newest(shared, arguments, &handle)? {
            Some(recalled) => recalled,
            None => in_store(arguments, &handle)?,
        },
        false => in_files(shared, arguments.files.clone(), &handle)?,
    };
    if let Some(query) = &arguments.query {
        let Some(found) = passages(&recalled.text(secrets), query, PASSAGES_BYTES_MAX) else {
            terminal::note(&format!("nothing behind {handle} mentions {query}"));
            return Ok(Exit::Negative);
        };
        output::print(&found)?;
        return Ok(Exit::Success);
    }
    match shared.json {
        true => output::print_json(&recalled.json(secrets))?,
        false => output::to_stdout(&[recalled.text(secrets).trim_end().as_bytes(), b"\n"])?,
    }
    Ok(Exit::Success)
}

/// What the store has behind the handle.
fn in_store(arguments: &Recall, handle: &Handle) -> Result<Recollection, Failure> {
    store::block_on(async {
        let store = store::open_existing(&arguments.at).await?;
        let session = match &arguments.session {
            Some(id) => Some(store::find(&store, id).await?),
            None => None,
        };
        Ok(recollect(&store, session.as_ref(), handle).await?)
    })
}

/// What the newest session of this folder has behind the handle, unless the store was asked for.
fn in_newest(shared: &Shared, arguments: &Recall, handle: &Handle) -> Result<Option<Recollection>, Failure> {
    if arguments.session.is_some() || arguments.at.store.is_some() {
        return Ok(None);
    }
    let Some(newest) = agents::of_this_folder().next() else { return Ok(None) };
    let opened = input::one(shared, &newest.path)?;
    let content = [in_file, by_place].into_iter().find_map(|find| find(&opened, handle));
    let loop_id = opened.path.display().to_string().into();
    Ok(content.map(|content| Recollection { handle: handle.clone(), loop_id, content }))
}

/// The first of the files that has something behind the handle.
fn in_files(shared: &Shared, files: Vec<PathBuf>, handle: &Handle) -> Result<Recollection, Failure> {
    let inputs = Inputs { paths: files };
    let opened: Vec<Opened> =
        input::paths(&inputs)?.iter().map(|path| input::one(shared, path)).collect::<Result<_, _>>()?;
    // A file without the record of the compaction still has what the handle names.
    for find in [in_file, by_place] {
        if let Some((opened, content)) = opened.iter().find_map(|one| Some((one, find(one, handle)?))) {
            let (handle, loop_id) = (handle.clone(), opened.path.display().to_string().into());
            return Ok(Recollection { handle, loop_id, content });
        }
    }
    Err(Failure::usage(
        format!("nothing in these files is behind {handle}"),
        "a request holds only what the model sees; name the file that it was made from, too",
    ))
}

/// What a file has behind a handle: through what is in force, else through earlier compactions.
fn in_file(opened: &Opened, handle: &Handle) -> Option<Recalled> {
    opened.session.conversations().iter().find_map(|conversation| {
        let scene = Scene::estimated(conversation, opened.session.dialect());
        let newest_first = (0..=conversation.steps().len()).rev().take(STEPS_MAX);
        let mut views = newest_first.map(|step_count| conversation.view_after(step_count, &scene.transcript));
        views.find_map(|view| view.recall(handle))
    })
}

fn by_place(opened: &Opened, handle: &Handle) -> Option<Recalled> {
    opened.session.conversations().iter().find_map(|conversation| {
        let scene = Scene::estimated(conversation, opened.session.dialect());
        conversation.view_after(0, &scene.transcript).recall_by_place(handle)
    })
}
