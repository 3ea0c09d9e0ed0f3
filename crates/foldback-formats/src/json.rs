//! JSON of single records, read at the speed of memory where nothing about it is unusual.
//!
//! Session files are mostly long strings, half of them in fields that nobody reads. `serde_json` looks
//! at eight bytes of a string at a time; this deserializer finds the end of a string with vector
//! instructions and decodes only what is asked for. It takes a subset: whatever it does not take
//! (control characters, deep nesting, anything that is not JSON or not what the type wants) is left to
//! `serde_json`, whose word is final and whose errors are the ones told. What it does take, it reads as
//! `serde_json` would.

mod marks;
mod skip;

use std::cell::Cell;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use skip::Cursor;

/// Containers within each other that are followed; `serde_json` follows a few more.
const DEPTH_MAX: usize = 100;

/// The name under which `serde_json` asks for the text of a value instead of its meaning. It is no part of
/// what that crate promises, so it is asked for once; with any other, records are read by `serde_json`.
static RAW_VALUE: LazyLock<&str> = LazyLock::new(|| {
    <&serde_json::value::RawValue>::deserialize(AskedFor("")).map_or_else(|name| name.0, |_| "")
});

/// Answers with the name of the type that is read.
#[derive(Debug)]
struct AskedFor(&'static str);

impl<'de> Deserializer<'de> for AskedFor {
    type Error = Self;

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, _: V) -> Result<V::Value, Self> {
        Err(Self(name))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self> {
        Err(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl fmt::Display for AskedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for AskedFor {}

impl Error for AskedFor {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self("")
    }
}

/// Reads a value; the answer is that of `serde_json`.
pub(crate) fn from_str<'de, T: Deserialize<'de>>(json: &'de str) -> Result<T, serde_json::Error> {
    plain(json).map_or_else(|| serde_json::from_str(json), Ok)
}

/// Reads a value that is written in the usual way; nothing where it is not, or is something else.
pub(crate) fn plain<'de, T: Deserialize<'de>>(json: &'de str) -> Option<T> {
    if has_control_character(json.as_bytes()) {
        return None;
    }
    let mut reader = Reader { json, cursor: Cursor::new(json.as_bytes()), depth: 0, decoded: DECODED.take() };
    let value = T::deserialize(&mut reader).ok();
    reader.skip_spaces();
    let is_all = reader.cursor.at == json.len();
    if reader.decoded.capacity() <= DECODED_BYTES_MAX {
        DECODED.set(reader.decoded);
    }
    value.filter(|_| is_all)
}

thread_local! {
    /// Where strings are decoded, from one record to the next: memory that is asked for anew is far away.
    static DECODED: Cell<String> = const { Cell::new(String::new()) };
}

/// What is kept for the next record.
const DECODED_BYTES_MAX: usize = 1024 * 1024;

/// Such characters are spaces or mistakes, depending on where they stand. Folded block by block, which
/// compiles to vector instructions.
fn has_control_character(bytes: &[u8]) -> bool {
    bytes.chunks(256).any(|block| block.iter().fold(false, |any, &byte| any | (byte < b' ')))
}

/// Says that `serde_json` has to look at it.
#[derive(Debug)]
struct Unusual;

impl fmt::Display for Unusual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not read in the usual way")
    }
}

impl std::error::Error for Unusual {}

impl Error for Unusual {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }

    // The defaults format a message first, and nobody reads it.
    fn invalid_type(_: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        Self
    }
    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        Self
    }
}

type Read<T> = Result<T, Unusual>;

/// What the byte behind a backslash stands for, in ASCII; nothing where it is no such escape. Escapes
/// follow each other in no order, so that a processor would guess wrong where a branch told them apart.
const ESCAPED: [u8; 256] = {
    let mut escaped = [0; 256];
    escaped[b'n' as usize] = b'\n';
    escaped[b'"' as usize] = b'"';
    escaped[b'\\' as usize] = b'\\';
    escaped[b't' as usize] = b'\t';
    escaped[b'/' as usize] = b'/';
    escaped[b'r' as usize] = b'\r';
    escaped[b'b' as usize] = 0x08;
    escaped[b'f' as usize] = 0x0C;
    escaped
};

struct Reader<'de> {
    json: &'de str,
    /// Where it is; always at the border of a character.
    cursor: Cursor<'de>,
    depth: usize,
    /// The last string that had escapes.
    decoded: String,
}

impl<'de> Reader<'de> {
    fn skip(&mut self) -> Read<()> {
        self.cursor.skip_value().ok_or(Unusual)
    }

    /// Control characters are not here, so that a space is the only space.
    fn skip_spaces(&mut self) {
        while self.json.as_bytes().get(self.cursor.at) == Some(&b' ') {
            self.cursor.at += 1;
        }
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Read<u8> {
        self.skip_spaces();
        self.json.as_bytes().get(self.cursor.at).copied().ok_or(Unusual)
    }

    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.peek()? != byte {
            return Err(Unusual);
        }
        self.cursor.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Read<()> {
        if !self.json.as_bytes()[self.cursor.at..].starts_with(word.as_bytes()) {
            return Err(Unusual);
        }
        self.cursor.at += word.len();
        Ok(())
    }

    /// The string whose opening quote is next: as it stands, where it has no escapes, or decoded.
    fn string(&mut self) -> Read<Option<&'de str>> {
        self.expect(b'"')?;
        let (json, start) = (self.json, self.cursor.at);
        let mut mark = self.cursor.go_to_mark().ok_or(Unusual)?;
        let first = &json[start..self.cursor.at];
        if mark == b'"' {
            self.cursor.at += 1;
            return Ok(Some(first));
        }
        self.decoded.clear();
        self.decoded.push_str(first);
        while mark != b'"' {
            self.escape()?;
            let start = self.cursor.at;
            mark = self.cursor.go_to_mark().ok_or(Unusual)?;
            self.decoded.push_str(&json[start..self.cursor.at]);
        }
        self.cursor.at += 1;
        Ok(None)
    }

    fn escape(&mut self) -> Read<()> {
        let escaped = self.json.as_bytes().get(self.cursor.at + 1).ok_or(Unusual)?;
        match ESCAPED[usize::from(*escaped)] {
            0 if *escaped == b'u' => self.escape_unicode(),
            0 => Err(Unusual),
            decoded => {
                self.decoded.push(char::from(decoded & 0x7F));
                self.cursor.at += 2;
                Ok(())
            }
        }
    }

    fn escape_unicode(&mut self) -> Read<()> {
        let bytes = self.json.as_bytes();
        let unit = |at: usize| {
            let escape = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
            skip::hex(&escape[2..])
        };
        let first = unit(self.cursor.at).ok_or(Unusual)?;
        let (code, len) = match first {
            0xD800..=0xDBFF => match unit(self.cursor.at + 6) {
                Some(second @ 0xDC00..=0xDFFF) => {
                    (0x1_0000 + ((first - 0xD800) << 10 | (second - 0xDC00)), 12)
                }
                _ => return Err(Unusual),
            },
            _ => (first, 6),
        };
        self.decoded.push(char::from_u32(code).ok_or(Unusual)?);
        self.cursor.at += len;
        Ok(())
    }

    fn number<V: Visitor<'de>>(&mut self, visitor: V) -> Read<V::Value> {
        let start = self.cursor.at;
        self.skip()?;
        let number = &self.json[start..self.cursor.at];
        if let Ok(number) = number.parse::<u64>() {
            return visitor.visit_u64(number);
        }
        match number.parse::<i64>() {
            Ok(number) if number != 0 => visitor.visit_i64(number),
            // Fractions are rare in records, and how they are rounded is not decided here.
            _ => Err(Unusual),
        }
    }

    fn visit_string<V: Visitor<'de>>(&mut self, visitor: V) -> Read<V::Value> {
        match self.string()? {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_str(&self.decoded),
        }
    }

    /// Reads a container, whose first byte is next.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>, close: u8) -> Read<T> {
        self.cursor.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Unusual);
        }
        let value = read(self)?;
        self.depth -= 1;
        self.expect(close)?;
        Ok(value)
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Unusual;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.peek()? {
            b'"' => self.visit_string(visitor),
            b'{' => self.within(|reader| visitor.visit_map(Entries { reader, is_first: true }), b'}'),
            b'[' => self.within(|reader| visitor.visit_seq(Entries { reader, is_first: true }), b']'),
            b'n' => self.literal("null").and_then(|()| visitor.visit_unit()),
            b't' => self.literal("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.literal("false").and_then(|()| visitor.visit_bool(false)),
            _ => self.number(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.peek()? {
            b'n' => self.literal("null").and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Read<V::Value> {
        if name != *RAW_VALUE {
            return visitor.visit_newtype_struct(self);
        }
        self.skip_spaces();
        let start = self.cursor.at;
        self.skip()?;
        visitor.visit_map(RawValue { text: Some(&self.json[start..self.cursor.at]) })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        match self.string()? {
            Some(text) => visitor.visit_enum(UnitVariant(text)),
            None => visitor.visit_enum(UnitVariant(&self.decoded)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, _visitor: V) -> Read<V::Value> {
        Err(Unusual)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, _visitor: V) -> Read<V::Value> {
        Err(Unusual)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

/// What stands in a container.
struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,
}

impl Entries<'_, '_> {
    /// Goes to the next entry, if there is one before `close`.
    fn next(&mut self, close: u8) -> Read<bool> {
        if self.reader.peek()? == close {
            return Ok(false);
        }
        if !std::mem::take(&mut self.is_first) {
            self.reader.expect(b',')?;
            // A comma in front of the end is none.
            if self.reader.peek()? == close {
                return Err(Unusual);
            }
        }
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Unusual;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        match self.next(b']')? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Unusual;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        match self.next(b'}')? {
            true if self.reader.peek()? == b'"' => seed.deserialize(Key(self.reader)).map(Some),
            true => Err(Unusual),
            false => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        self.reader.expect(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}

/// The name of a field: always a string, whatever the type makes of it.
struct Key<'r, 'de>(&'r mut Reader<'de>);

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Unusual;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.0.visit_string(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Read<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A string that names a variant without content.
struct UnitVariant<'a>(&'a str);

impl<'de> EnumAccess<'de> for UnitVariant<'_> {
    type Error = Unusual;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, Self)> {
        let name: serde::de::value::StrDeserializer<'_, Unusual> = self.0.into_deserializer();
        seed.deserialize(name).map(|variant| (variant, self))
    }
}

impl<'de> VariantAccess<'de> for UnitVariant<'_> {
    type Error = Unusual;

    fn unit_variant(self) -> Read<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Read<T::Value> {
        Err(Unusual)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Read<V::Value> {
        Err(Unusual)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Read<V::Value> {
        Err(Unusual)
    }
}

/// The text of a value in the form in which `serde_json` takes it: one field of a name it knows.
struct RawValue<'de> {
    text: Option<&'de str>,
}

impl<'de> MapAccess<'de> for RawValue<'de> {
    type Error = Unusual;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        match self.text {
            Some(_) => seed.deserialize(BorrowedStrDeserializer::new(*RAW_VALUE)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        seed.deserialize(BorrowedStrDeserializer::new(self.text.take().ok_or(Unusual)?))
    }
}

#[cfg(test)]
mod tests;
