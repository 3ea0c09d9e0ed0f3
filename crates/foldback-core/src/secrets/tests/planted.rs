//! A secret of any kind, anywhere in any part of any item: nothing that is written about the item shows
//! twelve characters of it.

use proptest::prelude::*;
use serde_json::json;

use super::kinds::{FORMS, NAMED, made};
use crate::digest::digest_of;
use crate::handle::Handle;
use crate::ids::Tokens;
use crate::item::{Item, ItemKind, SummaryOrigin};
use crate::part::{Blob, File, Json, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult};
use crate::secrets::redact_item;
use crate::strategy::{ClearToolResultsStrategy, Strategy, SummarizeOlderStrategy, SupersedeStrategy, plan};
use crate::transcript::Transcript;
use crate::view::View;

/// As many characters of a secret tell too much.
const SHOWN_MIN: usize = 12;

/// Places that a secret is planted at.
const PLACES: usize = 13;

/// A secret and the words around it; for a private key as many lines as it has.
fn planted(kind: usize, seed: u64) -> (String, String) {
    if kind == 0 {
        let lines: Vec<String> = (0..24).map(|line| made("{l64}", seed + line)).collect();
        let body = lines.join("\n");
        let label = ["PRIVATE", " KEY-----"].concat();
        return (body.clone(), format!("-----BEGIN RSA {label}\n{body}\n-----END RSA {label}"));
    }
    match FORMS.get(kind - 1) {
        Some((_, recipe)) => {
            let secret = made(recipe, seed);
            (secret.clone(), secret)
        }
        None => {
            let (_, recipe, text) = NAMED[kind - 1 - FORMS.len()];
            let secret = made(recipe, seed);
            (secret.clone(), text.replace('§', &secret))
        }
    }
}

/// A session with a text at one of the places, in the middle of other words.
fn session(place: usize, text: &str, before: usize, after: usize) -> Vec<Item> {
    let around =
        format!("{}\n{text}\n{}", "error: it failed again. ".repeat(before), "Never do that. ".repeat(after));
    let at =
        |wanted: usize, otherwise: &str| if place == wanted { around.clone() } else { otherwise.to_owned() };
    let call = |id: &str, name: &str, input: ToolInput| {
        Part::ToolCall(ToolCall { id: id.into(), name: name.into(), input, signature: None })
    };
    let json = |value: serde_json::Value| ToolInput::Json(Json::from_value(&value));
    let file = |name: String, data: String| {
        Part::File(File {
            name: Some(name.into()),
            media_type: "text/plain".into(),
            data: Blob::Text(data.into()),
        })
    };
    let mut summary = Item::text("old", ItemKind::Context, at(0, "An earlier summary: work on the parser."));
    summary.summary = Some(SummaryOrigin {
        handle: Handle::of_item(0, &"old".into()),
        item_count: 3,
        tokens_before: Tokens(900),
        written_by: "an agent".into(),
    });
    let result = |content: Vec<ResultPart>| ToolResult { call_id: "c4".into(), content, is_error: false };
    vec![
        summary,
        Item::user("u", at(1, "Make the parser faster.")),
        Item::new("f", ItemKind::User, vec![file(at(2, "notes.txt"), at(3, "a note"))]),
        Item::assistant(
            "a1",
            vec![
                Part::Reasoning(Reasoning { text: at(4, "so").into(), ..Reasoning::default() }),
                Part::text(at(5, "I decided to look because it is slow.")),
                call("c1", "Bash", json(json!({"command": at(6, "ls"), "description": "look"}))),
            ],
        ),
        Item::tool("t1", ToolResult::text("c1", at(7, "src"))),
        Item::assistant(
            "a2",
            vec![
                call("c2", "Write", json(json!({"file_path": "plan.md", "content": at(8, "do it")}))),
                call("c3", "apply_patch", ToolInput::Text(at(9, "*** Begin Patch").into())),
            ],
        ),
        Item::tool("t2", ToolResult::error("c2", at(10, "no such folder"))),
        Item::tool("t3", ToolResult::text("c3", "done")),
        Item::assistant("a3", vec![call("c4", &at(11, "query"), json(json!({"sql": "select 1"})))]),
        Item::tool(
            "t4",
            result(vec![ResultPart::Structured(Json::from_value(&json!({"rows": [at(12, "1")]})))]),
        ),
        Item::assistant("end", vec![Part::text("It is done.")]),
        Item::user("more", "Thanks. And now the rest of it, please."),
    ]
}

/// The first twelve characters of a secret that a text shows.
fn shown<'s>(secret: &'s str, text: &str) -> Option<&'s str> {
    let characters: Vec<(usize, char)> = secret.char_indices().collect();
    let windows = characters.windows(SHOWN_MIN.min(characters.len()));
    let pieces = windows.map(|window| &secret[window[0].0..window[window.len() - 1].0 + 1]);
    pieces.filter(|piece| !piece.contains('\n')).find(|piece| text.contains(piece))
}

/// What is written of an item, as one text.
fn written(items: impl Iterator<Item = Item>) -> String {
    items.map(|item| format!("{:?}\n", item.parts)).collect()
}

proptest! {
    #![proptest_config(foldback_testkit::costly(4))]

    #[test]
    fn nothing_that_is_written_of_a_session_shows_a_secret_of_it(
        kind in 0..1 + FORMS.len() + NAMED.len(),
        place in 0..PLACES,
        (before, after) in (0..300_usize, 0..300_usize),
        seed in 1..10_000_u64,
        tokens_max in 24..3_000_u64,
    ) {
        let (secret, text) = planted(kind, seed);
        let transcript: Transcript = session(place, &text, before, after).into_iter().collect();
        let items: Vec<_> = transcript.items().cloned().collect();
        if let Some(digest) = digest_of(&items, Tokens(tokens_max), transcript.meter()) {
            prop_assert_eq!(shown(&secret, &digest), None, "{}", digest);
        }
        let view = View::of(&transcript);
        let summarize = SummarizeOlderStrategy::new(1);
        let clear = ClearToolResultsStrategy::new(0).clear_inputs();
        let supersede = SupersedeStrategy::default();
        for strategy in [&summarize as &dyn Strategy, &clear, &supersede] {
            let planned = plan(&view, strategy, None).expect("there is no budget to miss");
            for compacted in [planned.apply_digest(), planned.apply_floor()] {
                let made = compacted.view.items().filter(|item| !items.iter().any(|recorded| recorded == *item));
                // Parts of an item that stay are the conversation's own.
                let made = made.map(|item| {
                    let is_new = |part: &Part| !items.iter().any(|recorded| recorded.parts.contains(part));
                    Item { parts: item.parts.iter().filter(|part| is_new(part)).cloned().collect(), ..Item::clone(item) }
                });
                let made = written(made);
                prop_assert_eq!(shown(&secret, &made), None, "{}", made);
            }
        }
        let redacted = written(items.iter().map(|item| redact_item(item).into_owned()));
        prop_assert_eq!(shown(&secret, &redacted), None, "{}", redacted);
    }
}

#[test]
fn a_field_is_a_secret_by_its_name_wherever_it_stands_in_an_input() {
    let password = "correct horse battery";
    for (input, left) in [
        (
            json!({"user": "ann", "password": password}),
            json!({"user": "ann", "password": "[secret: password]"}),
        ),
        (
            json!({"login": {"passwords": "no", "db_password": password}}),
            json!({"login": {"passwords": "no", "db_password": "[secret: password]"}}),
        ),
        (
            json!({"args": ["login", "--password", password]}),
            json!({"args": ["login", "--password", "[secret: password]"]}),
        ),
        (
            json!({"env": [{"name": "DB_PASSWORD", "value": password}]}),
            json!({"env": [{"name": "DB_PASSWORD", "value": "[secret: password]"}]}),
        ),
        (
            json!({"text": "{\"password\": \"correct-horse-battery\"}"}),
            json!({"text": "{\"password\": \"[secret: password]\"}"}),
        ),
    ] {
        let item = Item::assistant("a", vec![Part::call("c", "login", &input)]);
        let expected = vec![Part::call("c", "login", &left)];
        assert_eq!(redact_item(&item).parts, expected);
    }
}

#[test]
fn what_holds_no_secret_is_not_copied() {
    for item in session(0, "nothing to see", 3, 3) {
        assert!(matches!(redact_item(&item), std::borrow::Cow::Borrowed(_)), "{item:?}");
    }
}
