use std::borrow::Cow;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

/// Every way in which the readers ask for values.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(rename = "type", default)]
    kind: Kind,
    #[serde(borrow)]
    name: Option<Name<'a>>,
    text: Option<String>,
    is_set: Option<bool>,
    count: Option<u64>,
    change: Option<i64>,
    list: Option<Vec<String>>,
    inner: Option<Box<Record<'a>>>,
    any: Option<Value>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    User,
    #[default]
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    text: &'a serde_json::value::RawValue,
}

/// What is read in the usual way is what `serde_json` reads.
fn agrees<'a, T: Deserialize<'a> + PartialEq + fmt::Debug>(json: &'a str) -> bool {
    let read = plain::<T>(json);
    if let Some(read) = &read {
        assert_eq!(Some(read), serde_json::from_str::<T>(json).ok().as_ref(), "{json}");
    }
    read.is_some()
}

fn all_agree(json: &str) {
    agrees::<Value>(json);
    agrees::<Record<'_>>(json);
    agrees::<Vec<Record<'_>>>(json);
    agrees::<Option<String>>(json);
    assert!(
        plain::<IgnoredAny>(json).is_none() || serde_json::from_str::<IgnoredAny>(json).is_ok(),
        "{json}"
    );
    if let Some(read) = plain::<Raw<'_>>(json) {
        assert_eq!(serde_json::from_str::<Raw<'_>>(json).unwrap().text.get(), read.text.get(), "{json}");
    }
}

#[test]
fn what_records_hold_is_read_in_the_usual_way() {
    let record = r#" {"type":"user","name":"plain \u00e9","text":"a\n\"b\"\\\ud83d\ude00\/","isSet":true,"count":18446744073709551615,
        "change":-3,"list":["a","bcdefghijklmnopqrstuvwxyz, and so on: 0123456789"],"inner":{"type":"else","name":"b","any":[]},
        "any":{"a":[1,{"b":null}],"c":{}}, "more" : {"x":[1.5e-3,-0,true,false,null,"\u0041\\",[],{}]} } "#
        .replace('\n', "");
    assert!(agrees::<Record<'_>>(&record));
    assert!(plain::<IgnoredAny>(&record).is_some());
    let record = plain::<Record<'_>>(&record).unwrap();
    assert_eq!(record.text.as_deref(), Some("a\n\"b\"\\😀/"));
    assert!(matches!(record.inner.unwrap().name.unwrap().0, Cow::Borrowed("b")));
}

#[test]
fn the_text_of_a_value_is_what_stands_there() {
    let read = plain::<Raw<'_>>(r#"{"text": {"n": 1.50, "s":"\u0041"} , "x":1}"#).unwrap();
    assert_eq!(read.text.get(), r#"{"n": 1.50, "s":"\u0041"}"#);
}

#[test]
fn what_is_no_json_is_left_to_serde_json() {
    let broken = [
        "",
        "{",
        "}",
        "[",
        "[1,]",
        "[1 2]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":}",
        "[,1]",
        "[1}",
        "{\"a\":1]",
        "01",
        "-",
        "-a",
        "1.",
        "1e",
        "1e+",
        ".5",
        "+1",
        "tru",
        "nulls",
        "1 2",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\t\"",
        "[\"\\ud800\"]x",
        "{\"a\":\"\\u1\"}",
        "{\"\\x\":1}",
    ];
    for json in broken {
        assert!(plain::<IgnoredAny>(json).is_none(), "{json}");
        assert!(plain::<Value>(json).is_none(), "{json}");
        let (told, expected) =
            (from_str::<Value>(json).unwrap_err(), serde_json::from_str::<Value>(json).unwrap_err());
        assert_eq!(told.to_string(), expected.to_string());
    }
    assert!(plain::<String>("\"\\ud800\"").is_none(), "half of a pair is no text");
    assert!(plain::<IgnoredAny>("\"\\ud800\"").is_some(), "but it is JSON");
    assert!(plain::<Record<'_>>(r#"{"count":1,"count":2}"#).is_none(), "a field stands once");
    for depth in [DEPTH_MAX + 2, 100_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(plain::<IgnoredAny>(&deep).is_none() && plain::<Value>(&deep).is_none());
    }
}

/// JSON, often not quite.
fn jsonish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just(" "),
        Just("\t"),
        Just("\""),
        Just("\\"),
        Just("\"a\""),
        Just("\"type\":"),
        Just("\"user\""),
        Just("\"name\":"),
        Just("\"text\":"),
        Just("\"any\":"),
        Just("\"count\":"),
        Just("\"inner\":{"),
        Just("\"list\":["),
        Just("null"),
        Just("true"),
        Just("-"),
        Just("0"),
        Just("12"),
        Just("1.5"),
        Just("1e9"),
        Just("\"\\n\""),
        Just("\"\\u0041\""),
        Just("\"\\ud83d\\ude00\""),
        Just("\"\\ud83d\""),
        Just("\"é中 and more than sixteen bytes\""),
        Just("\u{1}"),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

/// Values of any shape.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,40}|[a\\\\\"\n\t/\u{1}é😀]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map("type|name|text|any|inner|list|\\PC{0,20}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    #[test]
    fn nothing_is_read_that_serde_json_reads_differently(json in jsonish()) {
        all_agree(&json);
        all_agree(&format!("{{{json}}}"));
        all_agree(&format!("{{\"text\":{json}}}"));
    }

    #[test]
    fn every_value_is_skipped_or_read_as_it_was_written(value in value(), at in any::<prop::sample::Index>(), byte in "[\"\\\\{}\\[\\],:0a ]") {
        let json = value.to_string();
        prop_assert!(plain::<IgnoredAny>(&json).is_some());
        all_agree(&json);
        let at = (0..=at.index(json.len() + 1)).rev().find(|&at| json.is_char_boundary(at)).unwrap_or(0);
        all_agree(&format!("{}{byte}{}", &json[..at], &json[at..]));
        all_agree(&json[..at]);
    }

    #[test]
    fn every_quote_and_backslash_is_found_and_nothing_else(text in "([a-zé]{0,70}[\"\\\\]{0,3}){0,6}[a-z]{0,70}") {
        let expected: Vec<usize> =
            text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'"' | b'\\')).map(|(at, _)| at).collect();
        let mut marks = marks::Marks::of(text.as_bytes());
        let mut found = Vec::new();
        while let Some(at) = marks.next(found.last().map_or(0, |last| last + 1)) {
            found.push(at);
        }
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(marks.next(0), expected.first().copied(), "also back from the end");
    }
}
