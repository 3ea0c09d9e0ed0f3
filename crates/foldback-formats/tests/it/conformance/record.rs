//! The record of a compaction in a file: written in every format, read again, undone, redone, and put on
//! top of another.

use std::sync::Arc;

use foldback_core::{Budget, Item, LadderStrategy, Tokens, View, plan, repair};
use foldback_formats::{Format, Sent, SessionFile, WrittenAs, write};
use foldback_testkit::recipe;
use proptest::prelude::*;

use super::{assert_same_record, view_of};

/// Formats of sessions that foldback writes and adds to.
const FORMATS: [Format; 7] = [
    Format::Native,
    Format::ClaudeCode,
    Format::Codex,
    Format::GeminiCli,
    Format::Opencode,
    Format::Pi,
    Format::CopilotCli,
];

/// The view compacted to a part of its tokens; none where that is not possible.
fn compacted(view: &View, percent: u64) -> Option<View> {
    let budget = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(1))).ok()?;
    let plan = plan(view, &LadderStrategy::new(), Some(&budget)).ok()?;
    (!plan.is_empty()).then(|| plan.apply_digest().view)
}

/// The session with a view committed to it, read again. None where it was written anew.
fn written(session: &SessionFile, view: &View, keeps: usize) -> Option<SessionFile> {
    let main = &session.conversations()[0];
    let written = session.compacted(&session.committed(main, view, keeps));
    matches!(written.written_as, WrittenAs::Appended(_) | WrittenAs::Fresh(Format::GeminiCli)).then(|| {
        SessionFile::read_as(session.format(), written.to_bytes()).expect("what was written is read")
    })
}

fn seen(session: &SessionFile) -> View {
    view_of(session, &session.conversations()[0])
}

fn ids(view: &View) -> Vec<String> {
    view.items().map(|item| item.id.to_string()).collect()
}

proptest! {
    #![proptest_config(foldback_testkit::costly(10))]

    /// T5, T9: whatever was said, in whatever format: a compaction comes back from the file as it was
    /// committed, a second one on top of it too, and undoing both leads back step by step.
    #[test]
    fn a_compaction_comes_back_from_a_file_as_it_was_committed(
        recipe in recipe::orderly(),
        format in prop::sample::select(FORMATS.to_vec()),
        percent in 30u64..80,
    ) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let valid = repair(&items, None).items;
        let file = write(format, &Sent::new(valid), None).unwrap().to_bytes();
        let Ok(session) = SessionFile::read_as(format, file) else { return Ok(()) };
        if session.conversations().is_empty() {
            return Ok(());
        }
        let before = seen(&session);
        let Some(once) = compacted(&before, percent) else { return Ok(()) };
        let Some(first) = written(&session, &once, 0) else { return Ok(()) };
        assert_same_record(format.as_str(), &seen(&first), &once);

        let Some(twice) = compacted(&seen(&first), percent) else { return Ok(()) };
        let Some(second) = written(&first, &twice, 1) else { return Ok(()) };
        assert_same_record(format.as_str(), &seen(&second), &twice);

        let (undone, _) = seen(&second).undo().unwrap();
        let third = written(&second, &undone, 1).unwrap();
        prop_assert_eq!(ids(&seen(&third)), ids(&once));
        let (undone, _) = seen(&third).undo().unwrap();
        let fourth = written(&third, &undone, 0).unwrap();
        prop_assert_eq!(ids(&seen(&fourth)), ids(&before));

        let main = &fourth.conversations()[0];
        let redone = View::through(seen(&fourth).transcript(), &main.redo().unwrap()).unwrap();
        let fifth = written(&fourth, &redone, 0).unwrap();
        prop_assert_eq!(ids(&seen(&fifth)), ids(&once));
        let main = &fifth.conversations()[0];
        prop_assert_eq!(main.steps().len(), 5);
        prop_assert_eq!(main.history().count(), before.transcript().len());
    }
}
