//! Keeps the newest items and drops the rest.

use serde::{Deserialize, Serialize};

use super::{Kinds, Strategy, newest_start, preserved};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::item::ItemKind;

const ID: &str = "keep-recent";

/// Keeps the newest `keep_last` items. Preserved kinds stay whatever their age and do not count.
///
/// Units stay whole, so a few more than that may remain; the newest user item always does, also
/// with 0. Where an assistant item would come first, the user item before it stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepRecentStrategy {
    #[serde(alias = "n")]
    keep_last: usize,
    #[serde(default)]
    preserve_kinds: Kinds,
}

impl KeepRecentStrategy {
    /// Keeps the newest `keep_last` items of any kind.
    pub fn new(keep_last: usize) -> Self {
        Self { keep_last, preserve_kinds: Kinds::new() }
    }

    /// Keeps every item of `kind` as well.
    #[must_use]
    pub fn preserve_kind(mut self, kind: ItemKind) -> Self {
        self.preserve_kinds.insert(kind);
        self
    }
}

impl Strategy for KeepRecentStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let start = newest_start(draft, self.keep_last, &self.preserve_kinds);
        let reason = Reason::new(ID, format!("older than the newest {} items", self.keep_last));
        let is_preserved = preserved(&self.preserve_kinds);
        draft.drop_units(0..start, |_, kind| is_preserved(kind), reason);
    }

    fn describe(&self) -> String {
        format!("{ID}({})", self.keep_last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::part::{Part, ToolResult};
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    fn round(number: usize) -> [Item; 2] {
        let call = format!("c{number}");
        [
            Item::assistant(
                format!("a{number}"),
                vec![Part::call(call.clone(), "run", &json!({"n": number}))],
            ),
            Item::tool(format!("t{number}"), ToolResult::text(call, "ok")),
        ]
    }

    fn kept(items: impl IntoIterator<Item = Item>, strategy: &KeepRecentStrategy) -> Vec<String> {
        let transcript: Transcript = items.into_iter().collect();
        let compacted = plan(&View::of(&transcript), strategy, None).unwrap().apply_floor();
        compacted.view.items().map(|item| item.id.to_string()).collect()
    }

    #[test]
    fn keeping_nothing_still_keeps_the_new_prompt() {
        let items = [
            Item::user("u1", "one"),
            Item::assistant("a", vec![Part::text("two")]),
            Item::user("u2", "three"),
        ];
        assert_eq!(kept(items, &KeepRecentStrategy::new(0)), ["u2"]);
    }

    #[test]
    fn a_unit_on_the_border_stays_whole() {
        let mut items = vec![Item::user("u1", "go")];
        items.extend(round(1));
        items.extend(round(2));
        items.push(Item::assistant("end", vec![Part::text("done")]));
        assert_eq!(kept(items, &KeepRecentStrategy::new(2)), ["u1", "a2", "t2", "end"]);
    }

    #[test]
    fn an_assistant_item_is_never_left_first() {
        let items = [
            Item::user("u1", "one"),
            Item::assistant("a1", vec![Part::text("1")]),
            Item::user("u2", "two"),
            Item::assistant("a2", vec![Part::text("2")]),
            Item::assistant("a3", vec![Part::text("3")]),
            Item::user("u3", "three"),
        ];
        assert_eq!(kept(items, &KeepRecentStrategy::new(2)), ["u2", "a3", "u3"]);
    }

    #[test]
    fn preserved_kinds_do_not_count() {
        let mut items = vec![Item::text("s", ItemKind::System, "be kind"), Item::user("u1", "go")];
        items.extend(round(1));
        items.push(Item::text("n", ItemKind::Notification, "job done"));
        items.push(Item::assistant("end", vec![Part::text("done")]));
        let strategy =
            KeepRecentStrategy::new(1).preserve_kind(ItemKind::System).preserve_kind(ItemKind::Notification);
        assert_eq!(kept(items, &strategy), ["s", "u1", "n", "end"]);
    }
}
