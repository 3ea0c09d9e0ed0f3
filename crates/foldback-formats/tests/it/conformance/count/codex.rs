//! Codex rollouts: what `response_item` records hold.

use serde_json::Value;

use super::dialects::responses_items;
use super::{Counts, records};

pub(crate) fn count(bytes: &[u8]) -> Vec<Counts> {
    let items = records(bytes).into_iter().filter(|record| record["type"] == "response_item");
    let items = items.map(|mut record| record["payload"].take());
    let sent: Vec<Value> = items.filter(|item| item["type"] != "ghost_snapshot").collect();
    vec![responses_items(&sent)]
}
