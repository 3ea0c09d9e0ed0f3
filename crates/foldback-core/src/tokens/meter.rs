//! What counts whole items: [`Meter`].

use std::sync::Arc;

use super::{ItemTokens, TokenCounter, count_item, count_part};
use crate::dialect::Dialect;
use crate::item::Item;
use crate::part::Part;

/// A counter together with the dialect whose media rules apply.
#[derive(Clone, Debug)]
pub struct Meter {
    counter: Arc<dyn TokenCounter>,
    dialect: Option<Dialect>,
}

impl Meter {
    /// Counts with `counter`; media and files by the rules of `dialect`, or by the dearest of all.
    pub fn new(counter: Arc<dyn TokenCounter>, dialect: Option<Dialect>) -> Self {
        Self { counter, dialect }
    }

    /// What an item costs.
    pub fn item(&self, item: &Item) -> ItemTokens {
        count_item(&*self.counter, self.dialect, item)
    }

    /// What a part costs.
    pub fn part(&self, part: &Part) -> u32 {
        count_part(&*self.counter, self.dialect, part)
    }

    /// What plain text costs.
    pub fn text(&self, text: &str) -> u64 {
        self.counter.count(text).0
    }

    /// The counter.
    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        &self.counter
    }

    /// The dialect whose media rules apply, if one was chosen.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }
}
