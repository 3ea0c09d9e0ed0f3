use super::*;
use crate::conversation::testing::{compacted, sent};
use crate::error::Fault;
use foldback_core::{Blob, EstimatingCounter, File, Json, Opaque, ToolInput};
use std::sync::Arc;

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}"#;

fn user(id: &str, parent: &str, text: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:00:01.000Z","message":{{"role":"user","content":"{text}"}}}}"#
    )
}

fn read(lines: &[&str]) -> SessionFile {
    SessionFile::read_as(Format::Pi, lines.join("\n").into_bytes()).unwrap()
}

fn texts<'a>(items: impl Iterator<Item = &'a Arc<Item>>) -> Vec<String> {
    let parts = items.flat_map(|item| &item.parts);
    parts
        .map(|part| if let Part::Text(text) = part { text.to_string() } else { format!("{part:?}") })
        .collect()
}

fn view(session: &SessionFile) -> Vec<String> {
    let main = &session.conversations()[0];
    let transcript = main.transcript(Arc::new(EstimatingCounter), None);
    texts(main.view_of(&transcript).items())
}

fn history(session: &SessionFile) -> Vec<String> {
    texts(session.conversations()[0].history().map(|recorded| &recorded.item))
}

#[test]
fn the_last_entry_decides_which_branch_is_active() {
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "a", "left"), &user("c", "a", "taken")]);
    assert_eq!(view(&session), ["one", "taken"]);
    let [branch] = session.branches() else { panic!("one branch was left") };
    assert_eq!(branch.name(), Some("b"));
    assert_eq!(texts(branch.history().map(|recorded| &recorded.item)), ["one", "left"]);
}

#[test]
fn a_compaction_shows_its_summary_then_what_it_keeps_then_what_follows() {
    let compaction = r#"{"type":"compaction","id":"d","parentId":"c","timestamp":"2026-01-01T00:00:02.000Z","summary":"so far","firstKeptEntryId":"c","tokensBefore":900}"#;
    let (one, two, three, four) =
        (user("a", "", "one"), user("b", "a", "two"), user("c", "b", "three"), user("e", "d", "four"));
    let session = read(&[HEADER, &one, &two, &three, compaction, &four]);
    assert_eq!(view(&session), ["so far", "three", "four"]);
    assert_eq!(history(&session), ["one", "two", "three", "four"]);
    let made = &session.conversations()[0].steps()[0];
    let by = &*made.blocks[0].strategy;
    assert_eq!((by, made.tokens_before, made.place.line), ("pi", Some(Tokens(900)), 5));
}

#[test]
fn a_missing_parent_is_the_entry_before_and_no_entry_is_its_own_ancestor() {
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "gone", "two"), &user("c", "c", "three")]);
    assert_eq!(view(&session), ["one", "two", "three"]);
    let session = read(&[HEADER, &user("a", "b", "one"), &user("b", "a", "two")]);
    assert_eq!(view(&session), ["one", "two"]);
}

#[test]
fn what_cannot_be_read_is_a_problem_on_its_line() {
    let session = read(&[
        HEADER,
        &user("a", "", "one"),
        "{\"type\":\"message\",",
        "{\"type\":7}",
        &user("b", "x", "two"),
    ]);
    let problems: Vec<_> = session.problems().iter().map(|problem| (problem.line, &problem.fault)).collect();
    assert!(matches!(problems[..], [(3, Fault::CutOff), (4, Fault::NotUnderstood { .. })]), "{problems:?}");
    assert_eq!(view(&session), ["one", "two"]);
    let error = SessionFile::read_as(Format::Pi, b"{\"type\":".to_vec()).unwrap_err();
    assert_eq!(error.problem().map(|problem| problem.line), Some(1));
}

#[test]
fn odd_values_do_not_lose_the_message() {
    let odd = r#"{"type":"message","id":"a","parentId":null,"timestamp":5,"message":{"role":"assistant","usage":{"input":1e400},"stopReason":"new","content":[{"type":"text"},{"type":"toolCall","id":"c"},7,{"type":"video","n":1.0}]}}"#;
    let session = read(&[HEADER, odd]);
    let item = &session.conversations()[0].recorded()[0].item;
    assert_eq!(item.parts.len(), 4);
    assert_eq!(item.usage, None);
    assert!(matches!(&item.parts[3], Part::Opaque(opaque) if &*opaque.source == "pi/video"));
}

/// Items with everything that pi's blocks have no room for.
fn odd_items() -> Vec<Arc<Item>> {
    let json = Json::parse("{\"a\": 1.0}").unwrap();
    let call = foldback_core::ToolCall {
        id: "c1".into(),
        name: "exec".into(),
        input: ToolInput::Text("not JSON".into()),
        signature: None,
    };
    let result = ToolResult {
        call_id: "c1".into(),
        content: vec![
            foldback_core::ResultPart::Structured(json.clone()),
            foldback_core::ResultPart::Text("done".into()),
        ],
        is_error: true,
    };
    let file = File { name: None, media_type: "application/pdf".into(), data: Blob::Base64("AAAA".into()) };
    let opaque = Opaque { source: "other/thing".into(), json: json.clone() };
    let two = ToolResult::text("c2", "two");
    let summary = found_summary(Item::text("s", ItemKind::Context, "folded"), "floor", 3, Tokens(9));
    vec![
        summary.clone().into(),
        Item::text("sys", ItemKind::System, "be brief").into(),
        Item::new("u", ItemKind::User, vec![Part::text("hi"), Part::File(file), Part::Structured(json)])
            .into(),
        Item::assistant("a", vec![Part::reasoning("hm"), Part::ToolCall(call), Part::Opaque(opaque)]).into(),
        Item::new("t", ItemKind::Tool, vec![Part::ToolResult(result), Part::ToolResult(two)]).into(),
        summary.into(),
        Item::text("n", ItemKind::Notification, "a file changed").into(),
    ]
}

fn shown(session: &SessionFile) -> Vec<(ItemKind, Part)> {
    let main = &session.conversations()[0];
    let transcript = main.transcript(Arc::new(EstimatingCounter), None);
    flat(main.view_of(&transcript).items())
}

fn flat<'a>(items: impl Iterator<Item = &'a Arc<Item>>) -> Vec<(ItemKind, Part)> {
    items.flat_map(|item| item.parts.iter().map(|part| (item.kind, part.clone()))).collect()
}

#[test]
fn every_kind_and_part_comes_back_from_a_compaction() {
    let older = r#"{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"one"}}"#;
    for line in [&*user("a", "", "one"), older] {
        let session = read(&[HEADER, line]);
        let items = odd_items();
        let written = compacted(&session, &session.conversations()[0], &items);
        assert!(written.to_bytes().starts_with(session.bytes()));
        let again = SessionFile::read(written.to_bytes()).unwrap();
        assert_eq!(shown(&again), flat(items.iter()));
        assert_eq!(history(&again), ["one"]);
        // Once more, from what foldback wrote.
        let twice = compacted(&again, &again.conversations()[0], &items[1..]);
        let twice = SessionFile::read(twice.to_bytes()).unwrap();
        assert_eq!(shown(&twice), flat(items[1..].iter()));
        assert_eq!(history(&twice), ["one"]);
    }
}

#[test]
fn a_fresh_file_reads_as_what_was_written_and_says_what_pi_does_not_show() {
    let items = odd_items();
    let written = crate::write(Format::Pi, &sent(&items, None), None).unwrap();
    assert!(written.losses.iter().any(|loss| &*loss.item_id == "sys"));
    assert!(written.losses.iter().any(|loss| &*loss.item_id == "a"));
    let session = SessionFile::read(written.to_bytes()).unwrap();
    assert_eq!((session.format(), session.problems().len()), (Format::Pi, 0));
    assert_eq!(shown(&session), flat(items.iter()));
}

#[test]
fn a_left_branch_is_compacted_from_its_own_leaf() {
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "a", "left"), &user("c", "a", "taken")]);
    let items = vec![Arc::new(Item::user("x", "only this"))];
    let again = SessionFile::read(compacted(&session, &session.branches()[0], &items).to_bytes()).unwrap();
    assert_eq!(view(&again), ["only this"]);
    assert_eq!(history(&again), ["one", "left"]);
}

#[test]
fn a_circle_of_parents_is_walked_once() {
    let session = read(&[HEADER, &user("a", "c", "one"), &user("b", "b", "two"), &user("c", "b", "three")]);
    assert_eq!(view(&session), ["one", "two", "three"]);
}

#[test]
fn copies_behind_a_compaction_without_a_summary_are_found_again() {
    let compaction = |id: &str, parent: &str, kept: &str| {
        format!(
            r#"{{"type":"compaction","id":"{id}","parentId":"{parent}","timestamp":"2026-01-01T00:00:02.000Z","summary":"","firstKeptEntryId":"{kept}","tokensBefore":9}}"#
        )
    };
    let copy = user("d", "c", "two").replacen('{', r#"{"foldback":{"copy":true},"#, 1);
    let session = read(&[
        HEADER,
        &user("a", "", "one"),
        &user("b", "a", "two"),
        &compaction("c", "b", "a"),
        &copy,
        &user("e", "d", "three"),
        &compaction("f", "e", "d"),
    ]);
    assert_eq!(view(&session), ["two", "three"]);
}

#[test]
fn a_system_prompt_in_sections_is_one_and_stays_as_it_was_written() {
    let system = r#"{"type":"message","id":"s","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"system","content":"","timestamp":1,"sections":{"tone":"Be brief.","about":"You keep bees."},"toolsAdded":[{"name":"smoke"}]}}"#;
    let tools = system.replace(r#""id":"s","parentId":null"#, r#""id":"t","parentId":"s""#);
    let tools = tools.replace(r#""tone":"Be brief.","about":"You keep bees.""#, "");
    let session = read(&[HEADER, system, &tools, &user("a", "t", "one"), &user("b", "a", "two")]);
    assert_eq!(view(&session), ["Be brief.\n\nYou keep bees.", "one", "two"]);
    let main = &session.conversations()[0];
    let items: Vec<Arc<Item>> = main.history().map(|recorded| Arc::clone(&recorded.item)).collect();
    assert_eq!(items[0].kind, ItemKind::System);
    let written = compacted(&session, main, &[Arc::clone(&items[0]), Arc::clone(&items[2])]).to_bytes();
    let added = String::from_utf8(written[session.bytes().len()..].to_vec()).unwrap();
    assert!(added.contains(
        r#""sections":{"tone":"Be brief.","about":"You keep bees."},"toolsAdded":[{"name":"smoke"}]"#
    ));
    assert_eq!(view(&SessionFile::read(written).unwrap()), ["Be brief.\n\nYou keep bees.", "two"]);
}

#[test]
fn a_compaction_without_a_summary_gives_pi_words_for_one_and_shows_none() {
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "a", "two")]);
    let main = &session.conversations()[0];
    let items: Vec<Arc<Item>> = main.history().skip(1).map(|recorded| Arc::clone(&recorded.item)).collect();
    let written = compacted(&session, main, &items).to_bytes();
    let added = String::from_utf8(written[session.bytes().len()..].to_vec()).unwrap();
    let compaction: serde_json::Value =
        serde_json::from_str(added.trim_start().lines().next().unwrap()).unwrap();
    assert_ne!(compaction["summary"], "", "pi puts even an empty one before the model");
    assert_eq!(view(&SessionFile::read(written).unwrap()), ["two"]);
}

#[test]
fn a_compaction_leaves_the_history_of_entries_without_ids_or_with_the_same() {
    let nameless = r#"{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"one"}}"#;
    let odd = user("a", "", "odd").replace(r#""role":"user""#, r#""role":"unheard-of""#);
    let answer = user("a", "a", "two").replace(r#""role":"user""#, r#""role":"assistant""#);
    let state = r#"{"type":"label","id":"l","timestamp":"2026-01-01T00:00:02.000Z"}"#;
    let cases = [&[nameless][..], &[HEADER, nameless], &[nameless, state], &[HEADER, &odd, &answer]];
    for lines in cases {
        let session = read(lines);
        let main = &session.conversations()[0];
        let items: Vec<Arc<Item>> = main.history().map(|recorded| Arc::clone(&recorded.item)).collect();
        let again = SessionFile::read_as(Format::Pi, compacted(&session, main, &items).to_bytes()).unwrap();
        assert_eq!((view(&again), history(&again)), (view(&session), history(&session)));
        let kinds: Vec<ItemKind> =
            again.conversations()[0].recorded().iter().map(|one| one.item.kind).collect();
        assert_eq!(kinds, kinds_of(&items), "copies are not recorded");
    }
}

fn kinds_of(items: &[Arc<Item>]) -> Vec<ItemKind> {
    items.iter().map(|item| item.kind).collect()
}

#[test]
fn a_compaction_goes_on_from_what_was_read_last_and_not_from_a_broken_record() {
    let broken = r#"{"type":"message","id":"a","parentId":"b","message":{"role":7}}"#;
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "a", "two"), broken]);
    assert_eq!(session.problems().len(), 1);
    let main = &session.conversations()[0];
    let again = SessionFile::read(compacted(&session, main, &[]).to_bytes()).unwrap();
    assert_eq!(history(&again), ["one", "two"]);
}

/// A result of a tool called by `call`.
fn result(id: &str, parent: &str, call: &str, text: &str) -> String {
    format!(
        r#"{{"type":"message","id":"{id}","parentId":"{parent}","timestamp":"2026-01-01T00:00:01.000Z","message":{{"role":"toolResult","toolCallId":"{call}","toolName":"bash","content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
    )
}

fn edit(id: &str, parent: &str, target: &str, replacement: &str) -> String {
    format!(
        r#"{{"type":"context_edit","id":"{id}","parentId":"{parent}","timestamp":"2026-01-01T00:00:02.000Z","targetId":"{target}","replacement":{replacement}}}"#
    )
}

fn blocks(session: &SessionFile) -> Vec<(foldback_core::BlockKind, Text)> {
    let steps = session.conversations()[0].steps().iter();
    steps.flat_map(|step| &step.blocks).map(|block| (block.kind, block.strategy.clone())).collect()
}

#[test]
fn a_context_edit_shortens_a_result_and_the_newest_of_an_entry_counts() {
    let first = edit("c", "b", "b", r#"{"content":[{"type":"text","text":"once"}]}"#);
    let second = edit("d", "c", "b", r#"{"content":"twice"}"#);
    let lines = [HEADER, &user("a", "", "one"), &result("b", "a", "x", "long"), &first, &second];
    let session = read(&lines);
    let shown = |session: &SessionFile| {
        let main = &session.conversations()[0];
        let transcript = main.transcript(Arc::new(EstimatingCounter), None);
        let view = main.view_of(&transcript);
        let results: Vec<_> =
            view.items().flat_map(|item| item.results().map(|(_, one)| one.clone())).collect();
        results
    };
    assert_eq!(shown(&session), [ToolResult::text("x", "twice")]);
    assert_eq!(blocks(&session), [(foldback_core::BlockKind::Imported, "pi".into())]);
    let behind = user("e", "d", "two");
    let third = edit("f", "e", "b", r#"{"content":"thrice"}"#);
    let session = read(&[&lines[..], &[&behind, &third]].concat());
    assert_eq!(shown(&session), [ToolResult::text("x", "thrice")]);
    let original = &session.conversations()[0].recorded()[1].item;
    assert_eq!(
        original.results().next().map(|(_, one)| one.clone()),
        Some(ToolResult::text("x", "long")),
        "T1"
    );
}

#[test]
fn a_context_edit_leaves_out_what_it_replaces_by_nothing_until_another_shows_it() {
    let (one, two, three) = (user("a", "", "one"), user("b", "a", "two"), user("d", "c", "three"));
    let out = edit("c", "b", "b", "null");
    let session = read(&[HEADER, &one, &two, &out, &three]);
    assert_eq!(view(&session), ["one", "three"]);
    assert_eq!(history(&session), ["one", "two", "three"]);
    // Kept by a compaction, it is still left out.
    let compaction = r#"{"type":"compaction","id":"e","parentId":"d","timestamp":"2026-01-01T00:00:02.000Z","summary":"so far","firstKeptEntryId":"b","tokensBefore":9}"#;
    let compacted = read(&[HEADER, &one, &two, &out, &three, compaction]);
    assert_eq!(view(&compacted), ["so far", "three"]);
    let back = edit("e", "d", "b", r#"{"content":"deux"}"#);
    let session = read(&[HEADER, &one, &two, &out, &three, &back, &user("f", "e", "four")]);
    assert_eq!(view(&session), ["one", "deux", "three", "four"]);
}

#[test]
fn a_context_edit_can_put_in_more_parts_and_speak_of_what_is_not_there() {
    let more = edit("b", "a", "a", r#"{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}"#);
    let none = edit("c", "b", "gone", "null");
    let session = read(&[HEADER, &user("a", "", "one"), &more, &none, &user("d", "c", "two")]);
    assert_eq!(view(&session), ["1", "2", "two"]);
    let again = edit("e", "d", "a", r#"{"content":"3"}"#);
    let session = read(&[HEADER, &user("a", "", "one"), &more, &none, &user("d", "c", "two"), &again]);
    assert_eq!(view(&session), ["3", "two"]);
}

fn system(id: &str, parent: &str, text: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"system","content":"","sections":{{"preamble":"{text}"}}}}}}"#
    )
}

fn checkpoint(id: &str, parent: &str, kept: &str, system: &str) -> String {
    format!(
        r#"{{"type":"compaction","id":"{id}","parentId":"{parent}","timestamp":"2026-01-01T00:00:02.000Z","summary":"so far","firstKeptEntryId":"{kept}","tokensBefore":9,"systemMessage":{{"role":"system","content":"","sections":{{"preamble":"{system}"}}}}}}"#
    )
}

#[test]
fn a_compaction_of_pi_keeps_the_system_prompt_and_not_those_among_what_it_keeps() {
    let (prompt, one, two) = (system("s", "", "Be brief."), user("a", "s", "one"), user("b", "a", "two"));
    let session = read(&[HEADER, &prompt, &one, &two, &checkpoint("c", "b", "b", "Be brief.")]);
    assert_eq!(view(&session), ["Be brief.", "so far", "two"]);
    assert!(session.conversations()[0].copies().is_empty());
    // A later prompt changed it: the checkpoint is both.
    let later = system("c", "b", "Be kind.");
    let last = checkpoint("d", "c", "b", "Be brief and kind.");
    let session = read(&[HEADER, &prompt, &one, &two, &later, &last, &user("e", "d", "three")]);
    assert_eq!(view(&session), ["Be brief and kind.", "so far", "two", "three"]);
    assert_eq!(history(&session), ["Be brief.", "one", "two", "Be kind.", "three"]);
}

/// The same file with a compaction by pi that takes foldback's summary and record, and keeps from `kept` on.
fn hooked(lines: &[&str], kept: usize, kept_id: &str, system: &str) -> SessionFile {
    let session = read(lines);
    let main = &session.conversations()[0];
    let summary = found_summary(Item::text("sum", ItemKind::Context, "so far"), "floor", 1, Tokens(9));
    let recorded = main.recorded().iter().map(|one| Arc::clone(&one.item));
    let mut items: Vec<Arc<Item>> = recorded.collect();
    items.splice(1..kept, [Arc::new(summary)]);
    let view = crate::conversation::testing::view_of(main, &items);
    let record = session.committed(main, &view, main.block_count()).record();
    let entry = checkpoint("y", "x", kept_id, system).replacen(
        '{',
        &format!(r#"{{"details":{{"foldback":{record}}},"fromHook":true,"#),
        1,
    );
    let leaf = main.recorded().last().unwrap().item.id.to_string();
    read(&[lines, &[&entry.replace(r#""parentId":"x""#, &format!(r#""parentId":"{leaf}""#))]].concat())
}

#[test]
fn a_compaction_that_pi_took_from_foldback_shows_pis_checkpoint_and_is_undone_with_it() {
    let (prompt, one, two) = (system("s", "", "Be brief."), user("a", "s", "one"), user("b", "a", "two"));
    let session = hooked(&[HEADER, &prompt, &one, &two], 2, "b", "Be brief.");
    assert_eq!(view(&session), ["Be brief.", "so far", "two"]);
    let later = system("c", "b", "Be kind.");
    let three = user("d", "c", "three");
    let session = hooked(&[HEADER, &prompt, &one, &two, &later, &three], 2, "b", "Be brief and kind.");
    assert_eq!(view(&session), ["Be brief and kind.", "so far", "two", "three"]);
    let main = &session.conversations()[0];
    assert_eq!(main.steps().len(), 1);
    let transcript = main.transcript(Arc::new(EstimatingCounter), None);
    let (undone, _) = main.view_of(&transcript).undo().unwrap();
    assert_eq!(texts(undone.items()), ["Be brief.", "one", "two", "Be kind.", "three"]);
}

#[test]
fn a_compaction_without_a_summary_is_one_that_pi_leaves_out() {
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "a", "two")]);
    let main = &session.conversations()[0];
    let items: Vec<Arc<Item>> = main.history().map(|recorded| Arc::clone(&recorded.item)).collect();
    let written = compacted(&session, main, &items).to_bytes();
    let added: Vec<serde_json::Value> = String::from_utf8(written[session.bytes().len()..].to_vec())
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let (compaction, edit) = (&added[0], added.last().unwrap());
    assert_eq!((&edit["type"], &edit["targetId"]), (&"context_edit".into(), &compaction["id"]));
    assert_eq!((&edit["replacement"], &edit["parentId"]), (&serde_json::Value::Null, &added[2]["id"]));
    let again = SessionFile::read(written).unwrap();
    assert_eq!(
        (view(&again), history(&again)),
        (vec!["one".into(), "two".into()], vec!["one".into(), "two".into()])
    );
    // What pi says next follows the edit.
    let last = edit["id"].as_str().unwrap();
    let text = String::from_utf8(again.bytes().to_vec()).unwrap() + &user("z", last, "three");
    assert_eq!(view(&SessionFile::read(text.into_bytes()).unwrap()), ["one", "two", "three"]);
}

#[test]
fn an_item_goes_by_the_name_of_its_newest_copy() {
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "a", "two")]);
    let main = &session.conversations()[0];
    assert_eq!(main.record_of(1), Some("b"));
    let items: Vec<Arc<Item>> = main.history().map(|recorded| Arc::clone(&recorded.item)).collect();
    let again = SessionFile::read(compacted(&session, main, &items).to_bytes()).unwrap();
    let added = String::from_utf8(again.bytes()[session.bytes().len()..].to_vec()).unwrap();
    let copy: serde_json::Value = serde_json::from_str(added.trim_start().lines().nth(2).unwrap()).unwrap();
    assert_eq!(copy["message"]["content"], "two");
    assert_eq!(again.conversations()[0].record_of(1), copy["id"].as_str());
}

#[test]
fn a_conversation_can_be_read_as_it_stood_at_any_entry() {
    let session = read(&[HEADER, &user("a", "", "one"), &user("b", "a", "left"), &user("c", "a", "taken")]);
    let at = |id: &str| session.conversation_at(id).map(|one| texts(one.history().map(|said| &said.item)));
    assert_eq!(at("b"), Some(vec!["one".to_owned(), "left".to_owned()]));
    assert_eq!(at("a"), Some(vec!["one".to_owned()]));
    assert_eq!(at("gone"), None);
}
