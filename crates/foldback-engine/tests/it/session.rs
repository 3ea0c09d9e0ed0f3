//! Sessions: what holds for every one of them, and the defects that none of them has.

/// What must stay is larger than there is room for.
macro_rules! infeasible {
    ($error:pat) => {
        SessionError::Compaction(CompactionError::Refused(Refusal::BudgetInfeasible($error)))
    };
}

mod driven;
mod hooks;
mod phi;
mod properties;
mod tree;

use std::sync::Arc;

use foldback_core::{Item, ItemKind, LoopId, Part, Tokens, ToolResult};
use foldback_engine::session::{
    CompactionConfig, Session, SessionCompaction, SessionContext, SessionError, build_context_from_session,
    compact_session_loops,
};
use foldback_engine::{CompactionError, Refusal};
use serde_json::json;

const WINDOW: Tokens = Tokens(20_000);

fn words(count: usize) -> String {
    "something was read and something was understood; ".repeat(count)
}

/// A turn: a prompt, a round with a long result, an answer.
fn push_turn(session: &mut Session, number: usize, lines: usize) {
    let call = format!("c{number}");
    let output = format!("line of output {number}\n").repeat(lines);
    let items = [
        Item::user(format!("u{number}"), format!("request {number}: {}", words(2))),
        Item::assistant(format!("a{number}"), vec![Part::call(call.as_str(), "read", &json!({"n": number}))]),
        Item::tool(format!("t{number}"), ToolResult::text(call, output)),
        Item::assistant(format!("e{number}"), vec![Part::text(words(3))]),
    ];
    items.into_iter().for_each(|item| session.push(item).unwrap());
}

/// A session with one loop of so many turns.
fn session(turns: usize, lines: usize) -> (Session, LoopId) {
    let mut session = Session::new("s");
    let current = session.begin_loop();
    session.push(Item::text("system", ItemKind::System, "You are careful.")).unwrap();
    (0..turns).for_each(|number| push_turn(&mut session, number, lines));
    (session, current)
}

fn compact_for(
    session: &mut Session,
    current: &LoopId,
    config: &CompactionConfig,
    window: Tokens,
) -> Result<SessionCompaction, SessionError> {
    let strategy = Arc::clone(&config.block_strategy);
    now(compact_session_loops(session, current, &*strategy, config, window))
}

fn now<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn compact(session: &mut Session, current: &LoopId) -> SessionCompaction {
    compact_for(session, current, &CompactionConfig::default(), WINDOW).unwrap()
}

fn context(session: &Session, current: &LoopId) -> SessionContext {
    build_context_from_session(session, current, &CompactionConfig::default(), WINDOW).unwrap()
}

fn ids(context: &SessionContext) -> Vec<&str> {
    context.items.iter().map(|item| item.id.as_str()).collect()
}
