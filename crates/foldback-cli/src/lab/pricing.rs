//! Which prices a session is replayed at, and why.

use foldback_core::Prices;
use serde::Serialize;

use crate::args::Shared;
use crate::input::Opened;
use crate::lab::runs::ReplayedSession;

/// The prices of a session whose model has none that are known.
const DEFAULT: &str = "claude-sonnet-4.5";

/// The prices of one session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pricing {
    pub(crate) prices: &'static Prices,
    pub(crate) from: PricesFrom,
}

/// Where the prices come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PricesFrom {
    /// `--prices` names them.
    Flag,
    /// They are those of the session's model, or of `--model`.
    Model,
    /// Nothing is known: they are an example.
    Assumed,
}

impl Pricing {
    /// The prices that were named, those of the model, or an example.
    pub(crate) fn of(named: Option<&'static Prices>, shared: &Shared, opened: &Opened) -> Self {
        let model = || shared.model.as_deref().or(opened.session.model()).and_then(Prices::of_model);
        match (named, model) {
            (Some(prices), _) => Self { prices, from: PricesFrom::Flag },
            (None, model) => match model() {
                Some(prices) => Self { prices, from: PricesFrom::Model },
                None => {
                    let prices = Prices::named(DEFAULT).expect("the default is in the table");
                    Self { prices, from: PricesFrom::Assumed }
                }
            },
        }
    }

    /// The prices in words: `claude-opus-5 (2026-11)`, and that they are only assumed.
    fn told(&self) -> String {
        let Prices { name, dated, .. } = self.prices;
        match self.from {
            PricesFrom::Flag | PricesFrom::Model => format!("{name} ({dated})"),
            PricesFrom::Assumed => format!("{name} ({dated}), assumed where the model's are not known"),
        }
    }
}

impl Serialize for Pricing {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Told {
            name: &'static str,
            dated: &'static str,
            source: &'static str,
            from: PricesFrom,
        }
        let Prices { name, dated, source, .. } = self.prices;
        Told { name, dated, source, from: self.from }.serialize(serializer)
    }
}

/// Every price list that sessions were replayed at, once.
pub(crate) fn used(sessions: &[ReplayedSession]) -> Vec<Pricing> {
    let mut used: Vec<Pricing> = Vec::new();
    for session in sessions {
        if !used.contains(&session.prices) {
            used.push(session.prices);
        }
    }
    used
}

/// The price lists in words.
pub(crate) fn told(sessions: &[ReplayedSession]) -> String {
    used(sessions).iter().map(Pricing::told).collect::<Vec<_>>().join("; ")
}
