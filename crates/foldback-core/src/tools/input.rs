//! The input of a tool call, field by field, without decoding what nobody asks for: inputs hold
//! whole files, and what a call does stands in its short fields.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::part::{ToolCall, ToolInput};

/// Fields of one object that are looked at; what has more is a table.
const FIELDS_MAX: usize = 64;

/// Elements of one list that are looked at.
const ELEMENTS_MAX: usize = 512;

/// An object of an input; empty where the input is no object.
#[derive(Debug, Default)]
pub(super) struct Input<'c> {
    fields: SmallVec<[(Cow<'c, str>, &'c RawValue); 6]>,
}

#[derive(serde::Deserialize)]
struct Words<'c>(#[serde(borrow)] Cow<'c, str>);

impl<'c> Input<'c> {
    pub(super) fn of(call: &'c ToolCall) -> Self {
        match &call.input {
            ToolInput::Json(json) => Self::parse(json.as_str()),
            // Arguments that were cut off or never were an object.
            ToolInput::Text(_) => Self::default(),
        }
    }

    fn parse(json: &'c str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// The value under the first of these keys that has one. Keys are given in lower case without
    /// joints: `filepath` finds `file_path` and `filePath`.
    fn raw(&self, keys: &[&str]) -> Option<&'c str> {
        let under = |key: &&str| self.fields.iter().find(|(name, _)| is_key(name, key));
        let values = keys.iter().filter_map(under).map(|(_, value)| value.get());
        values.into_iter().find(|value| *value != "null")
    }

    /// The string under the first of these keys that holds one which is not blank.
    pub(super) fn text(&self, keys: &[&str]) -> Option<Cow<'c, str>> {
        keys.iter().find_map(|key| {
            let text = text(self.raw(&[key])?)?;
            (!text.trim().is_empty()).then_some(text)
        })
    }

    /// The string or number under the first of these keys, or the first of a list of them.
    pub(super) fn name(&self, keys: &[&str]) -> Option<String> {
        self.text(keys).map(Cow::into_owned).or_else(|| {
            let raw = self.raw(keys)?;
            let first = if raw.starts_with('[') { *elements(raw).first()? } else { raw };
            Some(text(first).map_or_else(|| first.to_owned(), Cow::into_owned))
        })
    }

    pub(super) fn number(&self, keys: &[&str]) -> Option<i64> {
        number(self.raw(keys)?)
    }

    /// The strings under the first of these keys: one, or those of a list.
    pub(super) fn texts(&self, keys: &[&str]) -> Vec<Cow<'c, str>> {
        let Some(raw) = self.raw(keys) else { return Vec::new() };
        match text(raw) {
            Some(text) => vec![text],
            None => elements(raw).into_iter().filter_map(text).collect(),
        }
    }

    /// The numbers of a list.
    pub(super) fn numbers(&self, keys: &[&str]) -> Vec<i64> {
        self.raw(keys).map_or_else(Vec::new, |raw| elements(raw).into_iter().filter_map(number).collect())
    }

    /// The objects of a list.
    pub(super) fn objects(&self, keys: &[&str]) -> Vec<Input<'c>> {
        let Some(raw) = self.raw(keys).filter(|raw| raw.starts_with('[')) else { return Vec::new() };
        elements(raw).into_iter().filter(|raw| raw.starts_with('{')).map(Self::parse).collect()
    }

    /// Whether there is no field but these.
    pub(super) fn holds_only(&self, known: &[&[&str]]) -> bool {
        let is_known = |name: &str| known.iter().any(|keys| keys.iter().any(|key| is_key(name, key)));
        self.fields.iter().all(|(name, _)| is_known(name))
    }
}

impl<'de> Deserialize<'de> for Input<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Input<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Input<'de>, A::Error> {
                let mut fields = SmallVec::new();
                while let Some((Words(key), value)) = map.next_entry::<Words<'de>, &'de RawValue>()? {
                    if fields.len() < FIELDS_MAX {
                        fields.push((key, value));
                    }
                }
                Ok(Input { fields })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

fn text(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.starts_with('"') {
        return None;
    }
    serde_json::from_str::<Words<'_>>(raw).ok().map(|Words(text)| text)
}

/// Models write numbers as strings too.
fn number(raw: &str) -> Option<i64> {
    raw.trim_matches('"').parse().ok()
}

fn elements(raw: &str) -> Vec<&str> {
    let values: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
    values.into_iter().take(ELEMENTS_MAX).map(RawValue::get).collect()
}

/// Whether a field is called `key` in any spelling. The first letter tells nearly always; a call is
/// asked for dozens of keys.
fn is_key(name: &str, key: &str) -> bool {
    let first = |text: &str| text.as_bytes().first().map(u8::to_ascii_lowercase);
    let letters = || name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    first(name) == first(key) && name.len() >= key.len() && letters().eq(key.bytes())
}
