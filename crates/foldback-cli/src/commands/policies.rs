//! `foldback policies`: the ways to compact, and when to choose which.

use std::fmt::Write;

use foldback_core::{Checked, Policy, Strategy, StrategyConfig};
use serde::Serialize;

use crate::args::Shared;
use crate::config::Origin;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::policy::{aims, chosen, to_toml};
use crate::terminal::{FAINT, STRONG, styled, width};

/// Columns for the names.
const NAME_COLUMNS: usize = 16;

/// How a policy is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// In words.
    Explained,
    /// As a file that `--policy` reads.
    File,
}

pub(crate) fn run(shared: &Shared, asked: Option<&str>, shape: Shape) -> Result<Exit, Failure> {
    match asked {
        None => {
            let policies: Vec<Policy> = Policy::all().collect();
            match shared.json {
                true => output::print_json(&policies.iter().map(Told::new).collect::<Vec<_>>())?,
                false => output::print(&listed(&policies))?,
            }
        }
        Some(asked) => {
            let policy = chosen(Some(asked), &Origin::CommandLine)?;
            match shape {
                Shape::File => output::to_stdout(&[to_toml(&policy).as_bytes()])?,
                Shape::Explained if shared.json => output::print_json(&Told::new(&policy))?,
                Shape::Explained => output::print(&explained(&policy))?,
            }
        }
    }
    Ok(Exit::Success)
}

/// A policy, for scripts.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    policy: &'a Policy,
    compacts_when: Vec<String>,
    pipeline: String,
    aims_at_a_size: bool,
}

impl<'a> Told<'a> {
    fn new(policy: &'a Policy) -> Self {
        let compacts_when = policy.triggers().iter().map(ToString::to_string).collect();
        Self { policy, compacts_when, pipeline: policy.describe(), aims_at_a_size: aims(policy) }
    }
}

fn listed(policies: &[Policy]) -> String {
    let mut text = String::new();
    for policy in policies {
        let name = format!("{:<NAME_COLUMNS$}", policy.name());
        // Writing into a string cannot fail.
        let about = wrapped(policy.about(), NAME_COLUMNS);
        let _ = writeln!(text, "{}{}", styled(STRONG, name), about.trim_start());
        let _ = writeln!(text, "{}\n", styled(FAINT, wrapped(policy.choose_when(), NAME_COLUMNS)));
    }
    text.push_str("`foldback policies NAME` explains one, `--toml` prints it as a file to start from;\n");
    text.push_str("`foldback compact --policy NAME` uses it, `--policy FILE.toml` one of your own.\n");
    text
}

fn explained(policy: &Policy) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}\n", styled(STRONG, policy.name()), policy.about());
    if !policy.choose_when().is_empty() {
        let _ = writeln!(text, "{}\n", wrapped(policy.choose_when(), 0));
    }
    let rules: Vec<String> = policy.triggers().iter().map(ToString::to_string).collect();
    let often = match policy.checked() {
        Checked::EveryCall => "before every call of the model",
        Checked::OncePerTurn => "once for each turn, not inside a tool loop",
    };
    let _ = writeln!(text, "{} {}; asked {often}", styled(STRONG, "compacts when"), rules.join(", or "));
    if let Some(economy) = policy.economy() {
        let _ = writeln!(
            text,
            "{} earlier and to {}, where carrying costs more than rewriting (replay knows prices)",
            styled(STRONG, "by cost"),
            economy.target
        );
    }
    push_steps(&mut text, "when recorded", policy.when_recorded());
    push_steps(&mut text, "then", policy.steps());
    let size = match aims(policy) {
        true => "what is left is at or under its target, or the compaction is refused",
        false => "it aims at no size: what is left depends on what it keeps",
    };
    let _ = writeln!(text, "{} {size}\n", styled(STRONG, "size"));
    let _ = writeln!(
        text,
        "`foldback policies {} --toml > mine.toml` writes it as a file to start your own from",
        policy.name()
    );
    text
}

fn push_steps(text: &mut String, heading: &str, steps: &[StrategyConfig]) {
    if !steps.is_empty() {
        let steps: Vec<String> = steps.iter().map(Strategy::describe).collect();
        let _ = writeln!(text, "{} {}", styled(STRONG, heading), steps.join(" → "));
    }
}

/// The text in lines of the terminal's width, indented.
fn wrapped(text: &str, indent: usize) -> String {
    let columns = width().saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let margin = " ".repeat(indent);
    lines.iter().map(|line| format!("{margin}{line}")).collect::<Vec<_>>().join("\n")
}
