//! The agent loop over Anthropic Messages and OpenAI Responses: rounds of parallel calls with thinking
//! between them, compactions in their midst, judged by what a strict server was sent.
//!
//! The server counts with OpenAI's own vocabulary and checks requests itself; nothing of foldback's
//! counting or checking is used on its side.

mod anthropic;
mod responses;
mod server;

use std::sync::{Arc, Mutex, OnceLock};

use foldback_backends::{Endpoint, Key, ModelClient, Protocol};
use foldback_core::{MutationPoint, Policy, Room, SessionId, Tokens};
use foldback_engine::StrategyCompactor;
use foldback_loop::{Agent, AgentBuilderCompactorExt, AgentEvent, AgentLimits, AgentSession};
use foldback_testkit::server::Server;

use crate::shell::Shell;

use self::server::{PERSON, ROUNDS_PER_TURN, Strict, WINDOW, Wire};

const ANSWER_TOKENS_MAX: u64 = 512;
const TURNS: usize = 3;

/// The round in which the person says something while a tool runs.
const INTERRUPTED_ROUND: u64 = 41;

const CONSTRAINT: &str = "Never edit anything under generated/, not even to fix a typo.";

/// Its outputs differ: some are long, some fail. During one of its calls the person speaks.
fn shell(speaking: Arc<OnceLock<AgentSession>>) -> Shell {
    Shell::of_input(move |input| {
        let round = input["round"].as_u64().unwrap_or_default();
        if round == INTERRUPTED_ROUND {
            speaking.get().unwrap().say(format!("{PERSON} the port is 48213.")).unwrap();
        }
        if round % 17 == 3 {
            return Err(format!("error[E0308]: mismatched types in round {round}"));
        }
        let lines = if round % 29 == 7 { 250 } else { 8 + round % 24 };
        let line = |n: u64| format!("{n:04} test parser::tests::case_{round}_{n} ... ok");
        Ok((0..lines).map(line).collect::<Vec<_>>().join("\n"))
    })
}

/// What the loop did, beside what the server saw.
#[derive(Clone, Debug, Default)]
struct Did {
    compactions: Vec<MutationPoint>,
    failures: Vec<String>,
}

async fn run(protocol: Protocol, wire: Wire, is_streamed: bool) -> (Strict, Did, AgentSession) {
    let strict = Arc::new(Mutex::new(Strict::new(wire)));
    let of_server = Arc::clone(&strict);
    let server = Server::unrecorded(move |request| of_server.lock().unwrap().answer(request)).await;
    let endpoint = Endpoint::new(&server.url()).unwrap().key(Key::new("key"));
    let client = ModelClient::new(endpoint, protocol, "strict").unwrap();
    let client = if is_streamed { client } else { client.whole_answers() };
    let policy = Policy::default();
    let room = Room::new(Tokens(WINDOW)).output_max(Tokens(ANSWER_TOKENS_MAX));
    let did: Arc<Mutex<Did>> = Arc::default();
    let log = Arc::clone(&did);
    let speaking = Arc::new(OnceLock::new());
    let agent = Agent::builder()
        .model(client)
        .tool(shell(Arc::clone(&speaking)))
        .system("You migrate a code base, one module after the other.")
        .compactor(StrategyCompactor::builder().policy(&policy, room).build().unwrap())
        .budget(policy.budget(room).unwrap())
        .limits(AgentLimits {
            rounds_max: ROUNDS_PER_TURN + 1,
            answer_tokens_max: Some(Tokens(ANSWER_TOKENS_MAX)),
            ..AgentLimits::default()
        })
        .observer(move |_: &SessionId, event: &AgentEvent| {
            if let AgentEvent::MutationFinished { dirty, failure, point, .. } = event {
                let mut log = log.lock().unwrap();
                log.compactions.extend(dirty.then_some(*point));
                log.failures.extend(failure.clone());
            }
        })
        .build()
        .unwrap();
    let session = agent.session("rounds");
    speaking.set(session.clone()).unwrap();
    for turn in 0..TURNS {
        let task = format!("{PERSON} go on with part {turn} of the migration. {CONSTRAINT}");
        let sent = session.send(task).await;
        let faults = strict.lock().unwrap().faults.clone();
        let result = sent.unwrap_or_else(|error| panic!("{protocol}: {error}; {faults:?}"));
        assert_eq!(result.text, format!("Done up to round {}.", (turn + 1) * ROUNDS_PER_TURN));
    }
    let did = did.lock().unwrap().clone();
    let strict = std::mem::replace(&mut *strict.lock().unwrap(), Strict::new(wire));
    (strict, did, session)
}

fn assert_well_done(name: &str, strict: &Strict, did: &Did) {
    assert_eq!(strict.faults, Vec::<String>::new(), "{name}");
    assert_eq!(did.failures, Vec::<String>::new(), "{name}");
    assert_eq!(strict.round_count, TURNS * ROUNDS_PER_TURN, "{name}");
    assert_eq!((strict.overflow_count, strict.rejection_count), (0, 1), "{name}: never over the window");
    assert_eq!(strict.parallel_most, 3, "{name}");
    let at = |point| did.compactions.iter().filter(|at| **at == point).count();
    assert!(at(MutationPoint::AfterToolResult) >= 3, "{name}: {did:?}");
    assert_eq!(at(MutationPoint::AfterRequestRejected), 1, "{name}: {did:?}");
    assert!(strict.reset_count <= did.compactions.len(), "{name}: only a compaction rewrites the prefix");
    assert!(strict.thoughtful_count * 2 > strict.request_count, "{name}: thinking comes back");
}

#[tokio::test]
async fn rounds_over_anthropic_messages_stay_valid_through_compactions_and_keep_their_thinking() {
    for is_streamed in [true, false] {
        let (strict, did, _) = run(Protocol::Anthropic, Wire::Anthropic, is_streamed).await;
        assert_well_done(&format!("streamed: {is_streamed}"), &strict, &did);
    }
}

#[tokio::test]
async fn rounds_over_openai_responses_stay_valid_through_compactions_and_keep_their_reasoning() {
    for is_streamed in [true, false] {
        let (strict, did, _) = run(Protocol::OpenAiResponses, Wire::Responses, is_streamed).await;
        assert_well_done(&format!("streamed: {is_streamed}"), &strict, &did);
    }
}
