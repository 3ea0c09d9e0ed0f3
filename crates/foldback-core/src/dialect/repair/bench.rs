//! The items under repair, with a record of what was done to them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::check::{Waiting, inspect};
use super::super::demands::{Demands, Lowered};
use super::super::pairing::Pairing;
use super::super::{Repair, RepairAction, Repaired, Rule, Violation};
use crate::ids::CallId;
use crate::item::{Item, ItemKind};
use crate::part::Part;

/// One item on the bench. The key stays with it wherever it moves.
#[derive(Clone, Debug)]
struct Slot {
    key: usize,
    item: Arc<Item>,
}

#[derive(Debug)]
struct Done {
    key: usize,
    rule: Rule,
    action: RepairAction,
    detail: String,
}

/// Items under repair. Insertions and moves are collected and take effect on [`Bench::settle`]:
/// indices hold for a whole stage, and a stage costs one rebuild however much it does.
#[derive(Debug)]
pub(super) struct Bench {
    demands: &'static Demands,
    slots: Vec<Slot>,
    insertions: Vec<(usize, Slot)>,
    moved_from: HashSet<usize>,
    key_next: usize,
    item_ids: Names,
    call_ids: Names,
    done: Vec<Done>,
}

impl Bench {
    pub(super) fn new(items: impl Iterator<Item = Arc<Item>>, demands: &'static Demands) -> Self {
        let slots: Vec<Slot> = items.enumerate().map(|(key, item)| Slot { key, item }).collect();
        Self {
            demands,
            insertions: Vec::new(),
            moved_from: HashSet::new(),
            key_next: slots.len(),
            slots,
            item_ids: Names::default(),
            call_ids: Names::default(),
            done: Vec::new(),
        }
    }

    pub(super) fn demands(&self) -> &'static Demands {
        self.demands
    }

    pub(super) fn items(&self) -> Vec<&Item> {
        self.slots.iter().map(|slot| &*slot.item).collect()
    }

    pub(super) fn item(&self, item_index: usize) -> &Arc<Item> {
        &self.slots[item_index].item
    }

    pub(super) fn inspect(&self) -> Vec<Violation> {
        inspect(&self.items(), self.demands, Waiting::Accepted)
    }

    /// What `read` finds out about the calls and results as they are now.
    pub(super) fn with_pairing<T>(&self, read: impl FnOnce(&Pairing<'_>) -> T) -> T {
        read(&Pairing::of(self.demands, &self.items()))
    }

    /// An item to be changed.
    pub(super) fn rewrite(&mut self, item_index: usize, rule: Rule, detail: String) -> &mut Item {
        let slot = &mut self.slots[item_index];
        self.done.push(Done { key: slot.key, rule, action: RepairAction::Rewritten, detail });
        Arc::make_mut(&mut slot.item)
    }

    /// Puts a new item, named after `source`, before the item at `position`.
    pub(super) fn insert(
        &mut self,
        position: usize,
        source: &Item,
        kind: ItemKind,
        parts: Vec<Part>,
        rule: Rule,
        detail: String,
    ) {
        let slots = &self.slots;
        self.item_ids.learn(|| slots.iter().map(|slot| slot.item.id.to_string()).collect());
        let mut item = Item::new(self.item_ids.fresh(&format!("{}.repair", source.id), 1), kind, parts);
        item.turn_id = source.turn_id.clone();
        item.created_at = source.created_at;
        let key = self.key_next;
        self.key_next += 1;
        self.insertions.push((position, Slot { key, item: Arc::new(item) }));
        self.done.push(Done { key, rule, action: RepairAction::Inserted, detail });
    }

    /// Moves an item before the item at `position`.
    pub(super) fn move_item(&mut self, item_index: usize, position: usize, rule: Rule, detail: String) {
        let slot = self.slots[item_index].clone();
        self.done.push(Done { key: slot.key, rule, action: RepairAction::Moved, detail });
        self.moved_from.insert(item_index);
        self.insertions.push((position, slot));
    }

    /// A call id that no call and no result has: `call_id` with a number behind it.
    pub(super) fn fresh_call_id(&mut self, call_id: &CallId) -> CallId {
        let slots = &self.slots;
        self.call_ids.learn(|| {
            let of_item = |slot: &Slot| {
                let calls = slot.item.calls().map(|(_, call)| call.id.to_string());
                let results = slot.item.results().map(|(_, result)| result.call_id.to_string());
                calls.chain(results).collect::<Vec<_>>()
            };
            slots.iter().flat_map(of_item).collect()
        });
        self.call_ids.fresh(call_id, 2).into()
    }

    /// For each item, the first position behind it where a new user-authority item splits neither
    /// an assistant message nor a message from its results.
    pub(super) fn quote_positions(&self) -> Vec<usize> {
        let is_message = |lowered: Lowered| !matches!(lowered, Lowered::Nothing | Lowered::Apart);
        let lowered: Vec<Lowered> = self.slots.iter().map(|slot| self.demands.lower(&slot.item)).collect();
        let mut newest = None;
        let within = lowered.iter().map(|&lowered| {
            newest = Some(lowered).filter(|&lowered| is_message(lowered)).or(newest);
            newest
        });
        let within: Vec<Option<Lowered>> = within.collect();
        let mut positions: Vec<usize> = (1..=lowered.len()).collect();
        let mut next = None;
        for index in (0..lowered.len()).rev() {
            if let Some(next) = next {
                let belongs = match lowered[next] {
                    Lowered::Results => true,
                    Lowered::Assistant => within[index] == Some(Lowered::Assistant),
                    Lowered::Nothing
                    | Lowered::Apart
                    | Lowered::Instruction
                    | Lowered::User
                    | Lowered::Aside => false,
                };
                if belongs {
                    positions[index] = positions[next];
                }
            }
            if is_message(lowered[index]) {
                next = Some(index);
            }
        }
        positions
    }

    /// Carries out the collected insertions and moves.
    pub(super) fn settle(&mut self) {
        if self.insertions.is_empty() {
            return;
        }
        self.insertions.sort_by_key(|(position, _)| *position);
        let mut insertions = std::mem::take(&mut self.insertions).into_iter().peekable();
        let moved_from = std::mem::take(&mut self.moved_from);
        let mut slots = Vec::with_capacity(self.slots.len() + insertions.len());
        for (index, slot) in std::mem::take(&mut self.slots).into_iter().enumerate() {
            while let Some((_, inserted)) = insertions.next_if(|(position, _)| *position <= index) {
                slots.push(inserted);
            }
            if !moved_from.contains(&index) {
                slots.push(slot);
            }
        }
        slots.extend(insertions.map(|(_, inserted)| inserted));
        self.slots = slots;
    }

    pub(super) fn finish(self) -> Repaired {
        let places: HashMap<usize, usize> = if self.done.is_empty() {
            HashMap::new()
        } else {
            self.slots.iter().enumerate().map(|(index, slot)| (slot.key, index)).collect()
        };
        let repairs = self.done.into_iter().filter_map(|Done { key, rule, action, detail }| {
            let item_index = *places.get(&key)?;
            let item_id = self.slots[item_index].item.id.clone();
            Some(Repair { item_index, item_id, rule, action, detail })
        });
        let repairs = repairs.collect();
        Repaired { items: self.slots.into_iter().map(|slot| slot.item).collect(), repairs }
    }
}

/// Names in use, and the next number to try behind each.
#[derive(Debug, Default)]
struct Names {
    used: Option<HashSet<String>>,
    number_next: HashMap<String, u64>,
}

impl Names {
    /// Learns what is in use, the first time a new name is needed.
    fn learn(&mut self, used: impl FnOnce() -> HashSet<String>) {
        if self.used.is_none() {
            self.used = Some(used());
        }
    }

    /// `stem` with the first number from `number_first` on that makes it unused.
    fn fresh(&mut self, stem: &str, number_first: u64) -> String {
        let used = self.used.get_or_insert_default();
        let number = self.number_next.entry(stem.to_owned()).or_insert(number_first);
        loop {
            let name = format!("{stem}-{number}");
            *number += 1;
            if used.insert(name.clone()) {
                return name;
            }
        }
    }
}
