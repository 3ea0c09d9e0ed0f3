//! Bytes within JSON. Most dialects hold documents in base64 only, so text goes through it and is
//! text again when it is read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use foldback_core::{Blob, Text};

/// Types other than `text/…` whose documents are text.
const TEXT_TYPES: [&str; 5] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-yaml",
    "application/toml",
];

/// Whether documents of this type are text.
pub(crate) fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim_ascii();
    essence.starts_with("text/") || TEXT_TYPES.contains(&essence)
}

/// Text in base64.
pub(crate) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// A document's bytes, as text where they are.
///
/// Decoding is strict: exactly one base64 text stands for these bytes, so that writing the text
/// gives the same base64 again.
pub(crate) fn document(media_type: &str, base64: Text) -> Blob {
    let bytes = if is_text(media_type) { STANDARD.decode(&*base64).ok() } else { None };
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map_or(Blob::Base64(base64), |text| Blob::Text(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_from_base64_as_it_was_written() {
        for text in ["", "a", "caf\u{e9}\n", "\0"] {
            assert_eq!(document("text/plain", encoded(text).into()), Blob::Text(text.into()));
        }
    }

    #[test]
    fn what_would_be_written_differently_stays_base64() {
        for data in ["YQ", "YR==", "Y Q==", "/w==", "not base64"] {
            assert_eq!(document("text/markdown; charset=utf-8", data.into()), Blob::Base64(data.into()));
        }
        assert_eq!(document("application/pdf", "YQ==".into()), Blob::Base64("YQ==".into()));
    }
}
