//! What replay, eval, explain and probe share: the policies by name, and sessions made ready to be
//! measured.

pub(crate) mod cuts;
pub(crate) mod page;
pub(crate) mod policies;
pub(crate) mod pricing;
pub(crate) mod probe;
pub(crate) mod runs;

use std::sync::Arc;

use foldback_core::{Dialect, Item, Room, TokenCounter, Tokens, Transcript};
use foldback_engine::replay::History;
use foldback_formats::Conversation;

use crate::args::Shared;
use crate::counting;
use crate::failure::Failure;
use crate::input::Opened;
use crate::model::ChosenModel;

/// The history of one conversation, counted and read.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) format: &'static str,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) history: Transcript,
    pub(crate) reading: History,
}

/// The conversations of a session that have a window of their own.
pub(crate) fn recordings<'a>(
    opened: &'a Opened,
    counter: &'a Arc<dyn TokenCounter>,
) -> impl Iterator<Item = Recording> + 'a {
    let session = &opened.session;
    session.own_conversations().iter().map(move |conversation| {
        let items: Vec<Arc<Item>> =
            conversation.history().map(|recorded| Arc::clone(&recorded.item)).collect();
        let file = opened.path.display();
        Recording {
            file: Conversation::name(conversation)
                .map_or_else(|| file.to_string(), |name| format!("{file} ({name})")),
            format: session.format().as_str(),
            dialect: session.dialect(),
            history: counting::transcript(counter, session.dialect(), &items),
            reading: History::of(&items),
        }
    })
}

/// The window to replay at: the one that was given, or the model's.
pub(crate) fn window(shared: &Shared, given: Option<Tokens>, opened: &Opened) -> Result<Tokens, Failure> {
    let model = model(shared, opened);
    let window = model.window(given, Tokens::ZERO)?;
    if !shared.quiet {
        model.tell(opened.session.dialect().or(model.dialect()), Some(&window));
    }
    Ok(window.tokens)
}

/// What a window leaves for a transcript: some policies keep room for the model's longest answer.
pub(crate) fn room(shared: &Shared, window: Tokens, opened: &Opened) -> Room {
    let model = model(shared, opened).model();
    Room::new(window).output_max(model.map_or(Tokens::ZERO, |model| model.output_max))
}

pub(crate) fn model(shared: &Shared, opened: &Opened) -> ChosenModel {
    ChosenModel::of(shared, opened.session.model()).with_window(opened.session.context_window())
}
