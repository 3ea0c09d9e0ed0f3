//! Real coding agents, started without a screen in a home of their own, against a scripted model that refuses
//! what its provider would refuse. Every test in here needs agents: `cargo xtask agents` installs and runs them.

mod claude_code;
mod home;
mod opencode;
mod pi;

use std::path::PathBuf;

use foldback_testkit::server::{Kind, Model, Script};

/// What a person asks first, and when the session is taken up again.
const FIRST_PROMPT: &str = "Run the rounds.";
const SECOND_PROMPT: &str = "Run one round more.";

/// What an agent said when it came to an end by itself.
#[derive(Debug)]
struct Told {
    /// Names the session, for [`Agent::resume`].
    session: String,
    /// Its last words.
    text: String,
}

/// A coding agent, installed and configured in a home of its own.
trait Agent {
    /// Starts a session with a prompt and waits for its end.
    ///
    /// # Panics
    /// Where the agent fails, or does not end in time.
    fn run(&self, prompt: &str) -> Told;

    /// Goes on with a session.
    ///
    /// # Panics
    /// Like [`run`](Self::run).
    fn resume(&self, session: &str, prompt: &str) -> Told;

    /// Where the session is, as foldback reads it.
    fn session_file(&self, session: &str) -> PathBuf;
}

/// The agent runs every command, shows the model every output, and can go on later.
fn works_and_resumes(agent: &impl Agent, model: &Model) {
    let told = agent.run(FIRST_PROMPT);
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!(told.text, model.final_text(), "{told:?}");
    assert_eq!(model.rounds().len(), Script::default().rounds);

    model.add_rounds(1);
    let resumed = agent.resume(&told.session, SECOND_PROMPT);
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!((&resumed.session, &resumed.text), (&told.session, &model.final_text()), "{resumed:?}");
    let turns = model.asked_for(Kind::Turn);
    let last = turns.last().expect("there were turns");
    for round in model.rounds() {
        assert!(last.holds(&round.output()), "round {} is not in the last request", round.number);
    }
    assert!(last.holds(FIRST_PROMPT) && last.holds(SECOND_PROMPT));

    let file = agent.session_file(&told.session);
    let file = file.to_str().expect("folders of tests have plain names");
    let stats = super::json(&super::run(&["stats", file, "--json"]));
    assert!(stats["tokens_view"].as_u64().is_some_and(|tokens| tokens > 0), "{stats}");
    let shown = super::text(&super::run(&["show", file, "--plain"]).stdout);
    let is_shown = |round: &foldback_testkit::server::Round| shown.contains(&round.marker());
    assert!(model.rounds().iter().all(is_shown), "{shown}");
}
