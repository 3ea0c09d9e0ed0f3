//! Any bytes, through every reader: no panic, the same bytes back, views that can be made, and a
//! compaction that is read again as it was written.
#![no_main]

use std::sync::Arc;

use foldback_core::{EstimatingCounter, Item, ItemKind, Part, TokenCounter, Transcript, View};
use foldback_formats::{Conversation, Format, Sent, SessionFile, WrittenAs, detect, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = detect(bytes) {
        assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    }
    for &format in Format::ALL {
        match SessionFile::read_as(format, bytes.to_vec()) {
            Ok(session) => look_at(&session, bytes),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});

fn look_at(session: &SessionFile, bytes: &[u8]) {
    assert_eq!(session.bytes(), bytes);
    for problem in session.problems() {
        assert!(problem.line > 0 && !problem.to_string().is_empty());
    }
    for conversation in session.conversations().iter().chain(session.branches()) {
        let transcript = transcript(conversation);
        let view = conversation.view_of(&transcript);
        let history = conversation.history_of(&transcript);
        assert_eq!(history.len(), conversation.history().count());
        let items = Sent::of(&view, conversation);
        for &format in Format::ALL.iter().filter(|format| format.is_writable()) {
            write(format, &items, Some(session)).expect("a format that can be written is");
        }
    }
    if let Some(conversation) = session.conversations().first() {
        write_back(session, conversation);
    }
}

/// Keeps every second item, which is enough of a compaction for a writer. What was said is all
/// there when the file is read again, and the model sees what was kept.
fn write_back(session: &SessionFile, conversation: &Conversation) {
    let view = conversation.view_of(&transcript(conversation));
    let hidden: Vec<_> = view.iter().skip(1).step_by(2).map(|entry| entry.span()).collect();
    let kept = view.hiding(&hidden).expect("what is seen is there");
    let written = session.compacted(&session.committed(conversation, &kept, conversation.block_count()));
    if let WrittenAs::Appended(format) = written.written_as {
        let again = SessionFile::read_as(format, written.to_bytes()).expect("what foldback writes, it reads");
        let main = again.conversations().first().expect("what was compacted is there");
        let (said, seen) = (history(main), main.view_of(&transcript(main)));
        assert_eq!(parts(said.items()), parts(history(conversation).items()), "what was said");
        assert_eq!(parts(seen.items()), parts(kept.items()), "what the model sees");
    }
}

fn history(conversation: &Conversation) -> View {
    conversation.history_of(&transcript(conversation))
}

fn parts<'a>(items: impl Iterator<Item = &'a Arc<Item>>) -> Vec<(ItemKind, &'a Part)> {
    items.flat_map(|item| item.parts.iter().map(|part| (item.kind, part))).collect()
}

fn transcript(conversation: &Conversation) -> Transcript {
    let counter: Arc<dyn TokenCounter> = Arc::new(EstimatingCounter);
    conversation.transcript(counter, None)
}
