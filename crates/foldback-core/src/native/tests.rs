//! Bytes in, the same bytes out; errors that point at the line.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::handle::Handle;
use crate::ids::{Text, Timestamp, Tokens};
use crate::item::{FinishReason, ItemKind, Metadata, Pin, SummaryOrigin, Usage};
use crate::part::{
    Blob, File, Json, Media, Opaque, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult,
};

const HELLO: &str = r#"{"id":"u1","kind":"user","parts":[{"text":"hello"}]}"#;

fn error_in(text: &str) -> NativeError {
    NativeDocument::parse(text.as_bytes()).expect_err("the text is not native JSONL")
}

fn assert_comes_back(text: &str, item_count: usize) {
    let document = NativeDocument::parse(text.as_bytes()).unwrap();
    assert_eq!(document.to_string(), text);
    assert_eq!(document.items().count(), item_count);
}

#[test]
fn line_endings_blank_lines_and_a_missing_newline_come_back() {
    assert_comes_back("", 0);
    assert_comes_back("\n", 0);
    assert_comes_back(" \t", 0);
    assert_comes_back(HELLO, 1);
    assert_comes_back(&format!("{HELLO}\n"), 1);
    assert_comes_back(&format!("\r\n{HELLO}\r\n \n\n{HELLO}\n{HELLO}"), 3);
    assert_comes_back(&format!("\u{feff}{HELLO}\n{HELLO}\n"), 2);
    assert_comes_back("\u{feff}", 0);
}

#[test]
fn formatting_that_foldback_would_not_write_comes_back() {
    for line in [
        r#" {"kind" : "user","parts":[ ] , "id":"u1"}"#,
        r#"{"id":"\u0075\/1","kind":"user","parts":[{"text":"\u00e9\ud83d\ude00"}]}"#,
        r#"{"id":"u1","kind":"user","parts":[],"metadata":{"n":1.0e5,"big":123456789012345678901234567890}}"#,
        r#"{"id":"u1","kind":"user","parts":[],"metadata":{"twice":1,"twice":2}}"#,
        r#"{"id":"u1","kind":"user","parts":[],"turn_id":null,"pin":"free","cache_marker":false}"#,
        r#"{"id":"a1","kind":"assistant","parts":[{"structured":{ "b" : 1.50, "a":[ ] }}]}"#,
        "{\"id\":\"u1\",\"kind\":\"user\",\r\"parts\":[{\"structured\":[1,\r2]}]}",
    ] {
        assert_comes_back(&format!("{line}\n{line}\r\n{HELLO}\n{line}"), 4);
    }
}

#[test]
fn a_canonical_line_is_not_kept_a_second_time() {
    let text = format!("{HELLO}\r\n {HELLO}\n");
    let document = NativeDocument::parse(text.as_bytes()).unwrap();
    assert!(matches!(document.lines[0].content, Content::Item(_)));
    assert!(matches!(document.lines[1].content, Content::Verbatim { .. }));
}

#[test]
fn a_pushed_item_starts_a_line_of_its_own() {
    let mut document = NativeDocument::parse(HELLO.as_bytes()).unwrap();
    document.push(Item::user("u1", "hello"));
    assert_eq!(document.to_string(), format!("{HELLO}\n{HELLO}\n"));

    let mut document = NativeDocument::parse(format!("{HELLO}\r\n{HELLO}").as_bytes()).unwrap();
    document.push(Item::user("u1", "hello"));
    assert_eq!(document.to_string(), format!("{HELLO}\r\n{HELLO}\r\n{HELLO}\r\n"));

    let mut document = NativeDocument::default();
    document.push(Item::user("u1", "hello"));
    assert_eq!(document.to_string(), format!("{HELLO}\n"));
}

#[test]
fn an_error_in_the_third_of_five_lines_returns_nothing_else() {
    let error = error_in(&format!("{HELLO}\n\n{{\"id\":7}}\n{HELLO}\n{HELLO}\n"));
    assert_eq!((error.line(), error.column()), (3, Some(7)));
    assert!(matches!(error.fault(), NativeFault::NotAnItem { .. }));
}

#[test]
fn errors_say_where_what_and_what_to_do() {
    let messages: Vec<String> = [
        r#"{"id":"u1","kind":"user","parts":[],"colour":1}"#,
        r#"{"id":"u1","kind":"user","parts":[{"txt":"hello"}]}"#,
        r#"{"id":"u1","kind":"robot","parts":[]}"#,
        r#"{"id":"u1","kind":"user"}"#,
        r#"{"id":"u1","id":"u2","kind":"user","parts":[]}"#,
        r#"{"id":"u1","kind":"user","parts":[{"te"#,
        r#"{"id":"u1","kind":"user","parts":[]} {}"#,
        "hello",
        "\u{feff}x",
    ]
    .map(|line| error_in(line).to_string())
    .into();
    let expected = [
        "line 1, column 44: not an item: unknown field `colour`, expected one of",
        "line 1, column 40: not an item: unknown variant `txt`, expected one of `text`, `reasoning`",
        "line 1, column 25: not an item: unknown variant `robot`, expected one of `system`",
        "line 1, column 25: not an item: missing field `parts`; correct the line",
        "line 1, column 15: not an item: duplicate field `id`",
        "line 1, column 38: the line ends in the middle of an item; complete the line, or remove it",
        "line 1, column 38: not JSON: trailing characters; write each item as JSON on a line",
        "line 1, column 1: not JSON: expected value",
        "line 1, column 4: not JSON: expected value",
    ];
    for (message, start) in messages.iter().zip(expected) {
        assert!(message.starts_with(start), "{message}\nshould start with\n{start}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_an_error_with_their_line() {
    let mut bytes = format!("{HELLO}\n\n").into_bytes();
    bytes.extend_from_slice(b"ab\xff\n");
    let error = NativeDocument::parse(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "line 3, column 3: not UTF-8; save the file as UTF-8");
}

#[test]
fn metadata_nested_too_deep_is_an_error_and_not_a_crash() {
    let depth = 500_000;
    let line =
        |value: &str| format!(r#"{{"id":"u1","kind":"user","parts":[],"metadata":{{"deep":{value}}}}}"#);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let value = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let error = error_in(&format!("{HELLO}\n{}\n", line(&value)));
        assert_eq!(error.line(), 2);
        assert!(error.to_string().contains("recursion limit exceeded"), "{error}");
    }
    let error = error_in(&line(&"[".repeat(depth)));
    assert!(error.to_string().contains("recursion limit exceeded"), "{error}");
}

#[test]
fn json_inside_a_part_is_carried_at_any_depth() {
    let depth = 1_000_000;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_comes_back(&format!(r#"{{"id":"a","kind":"user","parts":[{{"structured":{deep}}}]}}"#), 1);
    let cut_off =
        error_in(&format!(r#"{{"id":"a","kind":"user","parts":[{{"structured":{}"#, &deep[..depth]));
    assert_eq!(cut_off.fault(), &NativeFault::CutOff);
}

#[test]
fn a_line_of_two_megabytes_comes_back() {
    let text = "long \u{e9} \"line\"\n".repeat(150_000);
    let document = NativeDocument::from_items([Item::user("u1", text.as_str())]);
    let written = document.to_string();
    assert!(written.len() > 2_000_000);
    assert_comes_back(&written, 1);
}

#[test]
fn a_line_break_between_json_tokens_does_not_break_the_line() {
    let json = Json::parse("{\r\n  \"a\": \"x\\ny\"\n}").unwrap();
    let document = NativeDocument::from_items([Item::assistant("a1", vec![Part::Structured(json)])]);
    let written = document.to_string();
    assert_eq!(written.lines().count(), 1);
    let read = NativeDocument::parse(written.as_bytes()).unwrap();
    let item = read.items().next().unwrap();
    assert_eq!(item.parts, [Part::Structured(Json::parse("{    \"a\": \"x\\ny\" }").unwrap())]);
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![any::<String>().prop_map(Text::from), "[a-z \\n\\r\"\\\\]{0,12}".prop_map(Text::from)]
}

fn raw_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("-0.0".to_owned()),
        Just("1E+05".to_owned()),
        Just(r#""\u00e9\/""#.to_owned()),
        any::<String>().prop_map(|text| json!(text).to_string()),
    ];
    let nested = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|values| format!("[ {}]", values.join(" ,"))),
            vec((any::<String>(), inner), 0..3).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{}\t:{value}", json!(name))).collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    });
    nested.prop_map(|text| Json::parse(text).unwrap())
}

fn blob() -> impl Strategy<Value = Blob> {
    prop_oneof![text().prop_map(Blob::Base64), text().prop_map(Blob::Url), text().prop_map(Blob::Text)]
}

fn media() -> impl Strategy<Value = Media> {
    (text(), blob(), option::of(any::<(u32, u32)>())).prop_map(|(media_type, data, pixels)| Media {
        media_type,
        data,
        pixels,
    })
}

fn file() -> impl Strategy<Value = File> {
    (option::of(text()), text(), blob()).prop_map(|(name, media_type, data)| File { name, media_type, data })
}

fn opaque() -> impl Strategy<Value = Opaque> {
    (text(), raw_json()).prop_map(|(source, json)| Opaque { source, json })
}

fn reasoning() -> impl Strategy<Value = Reasoning> {
    (text(), option::of(text()), option::of(text()), option::of(text()))
        .prop_map(|(text, id, signature, encrypted)| Reasoning { text, id, signature, encrypted })
}

fn tool_call() -> impl Strategy<Value = ToolCall> {
    let input = prop_oneof![raw_json().prop_map(ToolInput::Json), text().prop_map(ToolInput::Text)];
    (text(), text(), input, option::of(text())).prop_map(|(id, name, input, signature)| ToolCall {
        id: id.as_str().into(),
        name,
        input,
        signature,
    })
}

fn tool_result() -> impl Strategy<Value = ToolResult> {
    let part = prop_oneof![
        text().prop_map(ResultPart::Text),
        media().prop_map(ResultPart::Media),
        file().prop_map(ResultPart::File),
        raw_json().prop_map(ResultPart::Structured),
        opaque().prop_map(ResultPart::Opaque),
    ];
    (text(), vec(part, 0..3), any::<bool>()).prop_map(|(call_id, content, is_error)| ToolResult {
        call_id: call_id.as_str().into(),
        content,
        is_error,
    })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        text().prop_map(Part::Text),
        reasoning().prop_map(Part::Reasoning),
        tool_call().prop_map(Part::ToolCall),
        tool_result().prop_map(Part::ToolResult),
        media().prop_map(Part::Media),
        file().prop_map(Part::File),
        raw_json().prop_map(Part::Structured),
        opaque().prop_map(Part::Opaque),
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    any::<[u64; 5]>().prop_map(|[input, cached, cache_write, output, reasoning]| Usage {
        input_tokens: Tokens(input),
        cached_tokens: Tokens(cached % 2),
        cache_write_tokens: Tokens(cache_write % 2),
        output_tokens: Tokens(output),
        reasoning_tokens: Tokens(reasoning % 2),
    })
}

fn summary() -> impl Strategy<Value = SummaryOrigin> {
    (any::<usize>(), any::<u32>(), any::<u64>(), text()).prop_map(
        |(part_index, item_count, tokens, written_by)| SummaryOrigin {
            handle: Handle::of_part(0, &"i1".into(), part_index),
            item_count,
            tokens_before: Tokens(tokens),
            written_by,
        },
    )
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let value = prop_oneof![
        any::<i64>().prop_map(Value::from),
        (-1.0e300..1.0e300_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        vec(any::<bool>(), 0..3).prop_map(Value::from),
    ];
    vec((any::<String>(), value), 0..3).prop_map(|fields| fields.into_iter().collect())
}

fn item() -> impl Strategy<Value = Item> {
    let finish_reason = prop::sample::select(vec![
        FinishReason::Stop,
        FinishReason::ToolCalls,
        FinishReason::Length,
        FinishReason::ContentFilter,
        FinishReason::Interrupted,
        FinishReason::Error,
    ]);
    let said = (text(), prop::sample::select(ItemKind::ALL.to_vec()), vec(part(), 0..4));
    let recorded =
        (option::of(text()), option::of(any::<i64>()), option::of(usage()), option::of(finish_reason));
    let marked = (any::<bool>(), any::<bool>(), option::of(summary()), metadata());
    (said, recorded, marked).prop_map(
        |((id, kind, parts), recorded, (is_pinned, cache_marker, summary, metadata))| {
            let (turn_id, created_at, usage, finish_reason) = recorded;
            Item {
                turn_id: turn_id.map(|turn_id| turn_id.as_str().into()),
                created_at: created_at.map(Timestamp),
                usage,
                finish_reason,
                pin: if is_pinned { Pin::Pinned } else { Pin::Free },
                cache_marker,
                summary,
                metadata,
                ..Item::new(id.as_str(), kind, parts)
            }
        },
    )
}

/// Writes `value` as nobody would: `choices` decides on white space and escapes.
fn write_oddly(value: &Value, choices: &mut impl Iterator<Item = u8>, written: &mut String) {
    let mut space = |written: &mut String| {
        written.push_str(["", " ", "\t", "\r", "  "][usize::from(choices.next().unwrap_or(0)) % 5]);
    };
    space(written);
    match value {
        Value::Array(values) => {
            written.push('[');
            for (index, value) in values.iter().enumerate() {
                written.push_str(if index > 0 { "," } else { "" });
                write_oddly(value, choices, written);
            }
            written.push(']');
        }
        Value::Object(fields) => {
            written.push('{');
            for (index, (name, value)) in fields.iter().rev().enumerate() {
                written.push_str(if index > 0 { "," } else { "" });
                write_escaped(name, written);
                written.push(':');
                write_oddly(value, choices, written);
            }
            written.push('}');
        }
        Value::String(text) => write_escaped(text, written),
        Value::Null | Value::Bool(_) | Value::Number(_) => written.push_str(&value.to_string()),
    }
    written.push_str(if choices.next().unwrap_or(0).is_multiple_of(2) { "" } else { " " });
}

fn write_escaped(text: &str, written: &mut String) {
    let escape = |unit: u16| format!("\\u{unit:04X}");
    written.extend(std::iter::once("\"".to_owned()).chain(text.encode_utf16().map(escape)));
    written.push('"');
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    /// T5.
    #[test]
    fn items_come_back_as_they_were_written(items in vec(item(), 0..6)) {
        let written = NativeDocument::from_items(items.clone()).to_string();
        let read = NativeDocument::parse(written.as_bytes()).unwrap();
        prop_assert_eq!(read.to_string(), written);
        prop_assert!(read.items().map(|item| &**item).eq(&items));
        prop_assert!(read.lines.iter().all(|line| matches!(line.content, Content::Item(_))));
    }

    /// T5.
    #[test]
    fn oddly_written_items_come_back_byte_for_byte(
        items in vec((item(), vec(any::<u8>(), 0..64), "(\r?\n){1,3}"), 0..6),
    ) {
        let mut written = String::new();
        for (item, choices, ending) in &items {
            let value = serde_json::to_value(item).unwrap();
            write_oddly(&value, &mut choices.iter().copied(), &mut written);
            written.push_str(ending);
        }
        let read = NativeDocument::parse(written.as_bytes()).unwrap();
        prop_assert_eq!(read.to_string(), written);
        prop_assert!(read.items().map(|item| &item.id).eq(items.iter().map(|(item, ..)| &item.id)));
    }

    #[test]
    fn any_bytes_are_read_whole_or_not_at_all(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok(document) = NativeDocument::parse(&bytes) {
            prop_assert_eq!(document.to_string().into_bytes(), bytes);
        }
    }
}
