//! JSON objects of which one field changes: all others stay as they were written, in their order.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of an object as they were written.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// The fields of a piece, if it is an object.
    pub(crate) fn of(piece: &'a RawValue) -> Option<Self> {
        serde_json::from_str(piece.get()).ok()
    }

    /// A field by name.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The object with other values for some of its fields. Fields that it does not have are not
    /// added.
    pub(crate) fn with(&self, changes: &[(&str, &str)]) -> Object {
        let mut object = Object::new();
        for (name, value) in &self.0 {
            let changed = changes.iter().find(|(changed, _)| changed == name);
            object.json(name, changed.map_or(value.get(), |(_, value)| value));
        }
        object
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    fields.push((Cow::Owned(name), value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// Writes an object, field by field, around JSON that is taken as it is.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    /// An object whose first field says what it is.
    pub(crate) fn typed(kind: &str) -> Self {
        let mut object = Self::new();
        object.text("type", kind);
        object
    }

    /// Adds a field whose value is this JSON.
    pub(crate) fn json(&mut self, name: &str, json: &str) -> &mut Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    /// Adds a field whose value is this text.
    pub(crate) fn text(&mut self, name: &str, text: &str) -> &mut Self {
        self.json(name, &quoted(text))
    }

    /// The object as it would be without further fields.
    pub(crate) fn so_far(&self) -> String {
        format!("{}}}", self.0)
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Values as an array.
pub(crate) fn array(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<String> = values.into_iter().collect();
    format!("[{}]", values.join(","))
}

/// Text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_field_leaves_the_others_as_they_were_written() {
        let text = r#"{"b": 1.50, "a" : {"x":[ 1 ]}, "c":"\u0041"}"#;
        let fields: Fields<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(fields.with(&[("a", "7"), ("d", "8")]).finish(), r#"{"b":1.50,"a":7,"c":"\u0041"}"#);
        assert_eq!(fields.get("c").unwrap().get(), r#""\u0041""#);
    }
}
