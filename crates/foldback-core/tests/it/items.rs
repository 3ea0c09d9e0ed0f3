//! Items as JSON: what was written comes back (T5).

use foldback_core::{
    Blob, File, FinishReason, Handle, Item, ItemKind, Json, Media, Metadata, Opaque, Part, Pin, Reasoning,
    ResultPart, SummaryOrigin, Text, Timestamp, Tokens, ToolCall, ToolInput, ToolResult, Usage,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

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

proptest! {
    #![proptest_config(foldback_testkit::config())]

    /// T5.
    #[test]
    fn items_come_back_as_they_were_written(item in item()) {
        let written = serde_json::to_string(&item).unwrap();
        let read: Item = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read, &item);
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), written);
    }
}
