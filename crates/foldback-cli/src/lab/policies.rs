//! The policies that are replayed: which ones, and each at a window.

use std::sync::Arc;

use foldback_core::{BudgetError, Policy, Room, StrategyConfig};
use foldback_engine::replay::{ReplayPolicy, Sizing, Writer};

use crate::config::Origin;
use crate::failure::Failure;
use crate::policy;

/// Stands for every preset.
pub(crate) const ALL: &str = "all";

/// The policies that were asked for, each once.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    policies: Vec<Policy>,
    /// Those that were named stay, or it is said why they cannot.
    named: Vec<String>,
}

impl Chosen {
    /// Presets and TOML files by name, as `origin` has them; [`ALL`] for every preset.
    pub(crate) fn of(names: &[String], origin: &Origin) -> Result<Self, Failure> {
        let mut chosen = Self { policies: Vec::new(), named: Vec::new() };
        for name in names {
            if name == ALL {
                Policy::all().try_for_each(|policy| chosen.add(policy))?;
                continue;
            }
            let policy = policy::chosen(Some(name), origin)?;
            chosen.named.push(policy.name().to_owned());
            chosen.add(policy)?;
        }
        Ok(chosen)
    }

    fn add(&mut self, policy: Policy) -> Result<(), Failure> {
        match self.policies.iter().find(|earlier| earlier.name() == policy.name()) {
            None => self.policies.push(policy),
            Some(same) if *same == policy => {}
            Some(_) => {
                let what = format!("--policy: two different policies are called {}", policy.name());
                return Err(Failure::usage(what, "give the one in the file another name"));
            }
        }
        Ok(())
    }

    /// The one that `asked` names, or the default.
    pub(crate) fn one(asked: Option<&str>, origin: &Origin) -> Result<Self, Failure> {
        let policy = policy::chosen(asked, origin)?;
        Ok(Self { named: vec![policy.name().to_owned()], policies: vec![policy] })
    }

    /// Each with the trigger and the budget that it has in this room. Of all presets, those that it
    /// is enough for.
    pub(crate) fn at(&self, room: Room) -> Result<Vec<ReplayPolicy>, Failure> {
        let mut made = Vec::with_capacity(self.policies.len());
        for policy in &self.policies {
            match at(policy, room) {
                Ok(policy) => made.push(policy),
                Err(error) if self.named.iter().any(|name| name == policy.name()) => {
                    let what = format!("{}: {error}", policy.name());
                    return Err(Failure::usage(what, "give a larger --window"));
                }
                Err(_) => {}
            }
        }
        Ok(made)
    }
}

fn at(policy: &Policy, room: Room) -> Result<ReplayPolicy, BudgetError> {
    let budget = policy.budget(room)?;
    let sizing = match policy.steps().last() {
        // The only one that goes on until it is there, also in what is in flight.
        Some(StrategyConfig::Ladder(_)) => Sizing::Target,
        _ => Sizing::EqualTokens,
    };
    // The systems that presets are named after ask a model; foldback's own way needs none, and
    // neither does what is written in a file for foldback.
    let is_of_another_system = sizing == Sizing::EqualTokens && Policy::named(policy.name()).is_some();
    let writer = if is_of_another_system { Writer::Model } else { Writer::Digest };
    Ok(ReplayPolicy {
        name: policy.name().to_owned(),
        trigger: Arc::from(policy.trigger_in(room, &budget)),
        recording: policy.recording_strategy(),
        strategy: policy.strategy(),
        budget,
        sizing,
        writer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::Tokens;

    fn chosen(names: &[&str]) -> Result<Chosen, Failure> {
        Chosen::of(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), &Origin::CommandLine)
    }

    fn told(failure: Option<Failure>) -> String {
        let Some(Failure::Usage { what, .. }) = failure else { panic!("{failure:?}") };
        what
    }

    #[test]
    fn every_preset_is_replayed_once_where_there_is_room_and_a_named_one_says_why_not() {
        let room = |window| Room::new(Tokens(window)).output_max(Tokens(64_000));
        let all = chosen(&["ladder", ALL]).unwrap_or_else(|failure| panic!("{failure:?}"));
        let names = |window| -> Vec<String> {
            let made = all.at(room(window)).unwrap_or_else(|failure| panic!("{failure:?}"));
            made.into_iter().map(|policy| policy.name).collect()
        };
        assert_eq!(names(200_000), Policy::names().collect::<Vec<_>>());
        assert!(!names(8_000).contains(&"opencode".to_owned()), "it leaves more than that for an answer");
        assert_eq!(names(8_000).len(), Policy::names().count() - 1);
        let named = chosen(&["opencode"]).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(told(named.at(room(8_000)).err()).starts_with("opencode: "));
    }

    #[test]
    fn a_file_must_not_borrow_the_name_of_another_policy() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let path = folder.path().join("own.toml");
        let own = "name = \"codex\"\n[[steps]]\nstrategy = \"keep-recent\"\nn = 4\n";
        std::fs::write(&path, own).unwrap_or_else(|error| panic!("{error}"));
        let path = path.display().to_string();
        assert!(chosen(&[&path]).is_ok());
        assert!(told(chosen(&["codex", &path]).err()).contains("two different policies are called codex"));
    }
}
