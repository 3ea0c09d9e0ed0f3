//! Not counted yet.

use super::Counts;

pub(crate) fn cline(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn swe_agent(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn mini_swe_agent(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn openhands(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn llm_log(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn atif(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn forge(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn moatless(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn tau_bench(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}
