//! Not counted yet.

use super::Counts;

pub(crate) fn anthropic(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn openai_chat(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn openai_responses(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn gemini(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}
