//! Keeping a conversation in a file, as foldback's own JSONL: everything that was said, and what the
//! model sees of it.

use std::path::Path;

use foldback_core::View;
use foldback_formats::native_file;

use crate::failure::Failure;
use crate::output::{self, Readers};

/// Writes the conversation, in one step: the file is the old one or the new one.
pub(super) fn save(path: &Path, view: &View) -> Result<(), Failure> {
    output::to_file(path, &native_file(view), Readers::Owner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use foldback_core::{Budget, Item, LadderStrategy, Tokens, Transcript};
    use foldback_engine::{Execution, compact};
    use foldback_formats::SessionFile;

    #[test]
    fn a_saved_conversation_holds_everything_and_says_what_the_model_sees() {
        let text = "The parser reads one token too many. ".repeat(40);
        let items = (0..40).map(|index| match index % 2 {
            0 => Item::user(format!("u{index}"), text.as_str()),
            _ => Item::assistant(format!("a{index}"), vec![foldback_core::Part::text(text.as_str())]),
        });
        let transcript: Transcript = items.collect();
        let before = View::of(&transcript);
        let budget = Budget::for_target(Tokens(before.tokens().0 / 3)).unwrap();
        let execution = Execution::new(before.clone(), LadderStrategy::new()).with_budget(budget);
        let after = compact(execution).unwrap().view;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat.jsonl");
        for view in [&before, &after] {
            save(&path, view).unwrap();
            let session = SessionFile::read(std::fs::read(&path).unwrap()).unwrap();
            let conversation = &session.conversations()[0];
            let of_file = crate::scene::recorded(conversation);
            let counted = of_file.iter().map(Arc::clone).collect::<Transcript>();
            let history = crate::scene::seen(conversation, &counted, crate::args::Extent::History);
            let parts = |item: &Arc<Item>| item.parts.clone();
            assert!(history.items().map(parts).eq(transcript.items().map(parts)));
            let seen = crate::scene::seen(conversation, &counted, crate::args::Extent::View);
            assert!(seen.items().map(parts).eq(view.items().map(parts)));
        }
    }
}
