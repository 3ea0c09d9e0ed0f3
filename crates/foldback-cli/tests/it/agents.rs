//! Real coding agents, started without a screen in a home of their own, against a scripted model that refuses
//! what its provider would refuse. Every test in here needs agents: `cargo xtask agents` installs and runs them.

mod claude_code;
mod home;
mod long_life;
mod opencode;
mod pi;

use std::path::PathBuf;

use foldback_testkit::server::{Kind, Model, Round, Script, Verdict};

use home::Home;

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
    /// As `foldback install` calls it.
    fn name(&self) -> &'static str;

    fn home(&self) -> &Home;

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

    /// Compacts a session at a person's command, and waits until that is done.
    ///
    /// # Panics
    /// Like [`run`](Self::run).
    fn compact(&self, session: &str);

    /// Where the session is, as foldback reads it.
    fn session_file(&self, session: &str) -> PathBuf;

    /// Takes in a file of [`session_file`](Self::session_file) that was changed. Most agents read it itself.
    fn take_in(&self, _file: &str) {}
}

/// A few rounds, in a window that they do not fill; and that window.
fn short() -> (Script, usize) {
    let script = Script::default();
    let window_tokens = script.window_tokens;
    (script, window_tokens)
}

/// Rounds that fill a window of the given size twice.
fn long() -> (Script, usize) {
    const WINDOW_TOKENS: usize = 60_000;
    // The agent is told of a smaller window than there is: Claude Code asks for its summary on top of all else.
    let script = Script { rounds: 30, lines: 400, window_tokens: 2 * WINDOW_TOKENS, ..Script::default() };
    (script, WINDOW_TOKENS)
}

/// The agent asks for a summary, goes on from it, and comes to the end of the rounds.
fn compacts_by_itself(agent: &impl Agent, model: &Model) {
    let told = agent.run(FIRST_PROMPT);
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!(told.text, model.final_text(), "{told:?}");
    assert_eq!(model.rounds().len(), long().0.rounds);
    let asked = model.asked();
    assert!(asked.iter().all(|asked| asked.verdict == Verdict::Accepted));
    let summarized = asked.iter().position(|asked| asked.kind == Kind::Compaction);
    let after = &asked[summarized.expect("it asks for a summary") + 1..];
    let next = after.iter().find(|asked| asked.kind == Kind::Turn).expect("it goes on");
    assert!(next.holds(&long().0.summary), "the summary is in the next request");
    let first = model.rounds()[0].output();
    assert!(!next.holds(&first), "what was summarized is gone");
}

/// A script whose outputs are longer than foldback leaves them, and shorter than agents do.
fn long_outputs() -> (Script, usize) {
    let window_tokens = 200_000;
    (Script { rounds: 2, lines: 800, window_tokens, ..Script::default() }, window_tokens)
}

/// With foldback, a long output is short in every request, the same each time.
fn shortens_long_outputs(agent: &impl Agent, model: &Model) {
    let program = [std::path::PathBuf::from(env!("CARGO_BIN_EXE_foldback"))];
    agent.home().run(&program, &["install", agent.name(), "--yes"]).well();
    let told = agent.run(FIRST_PROMPT);
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!(told.text, model.final_text(), "{told:?}");
    let requests = model.asked_for(Kind::Turn);
    let last = requests.last().expect("there were turns").results();
    assert_eq!(last.len(), 2, "{last:?}");
    for (result, round) in last.iter().zip(model.rounds()) {
        assert!(result.contains("[foldback left out "), "{result}");
        assert!(result.contains(&format!("{} 000001", round.marker())) && !result.contains(" 000400 "));
    }
    let first = &requests[1].results()[0];
    assert_eq!(first, &last[0], "the prompt cache stays warm");
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
    let is_shown = |round: &Round| shown.contains(&round.marker());
    assert!(model.rounds().iter().all(is_shown), "{shown}");
}
