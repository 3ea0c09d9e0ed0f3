//! Compactions against a server that fails in every way a server can: seeded, over real HTTP on
//! loopback. `cargo xtask faults --runs N --seed S` runs more of them.
//!
//! Whatever the server does, a compaction ends, with a view that is valid and at or under its budget,
//! or with the view that it began with; what went wrong is in the events, and the key is nowhere.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]
#![allow(clippy::print_stderr, reason = "the figures are part of the result")]

mod figures;
#[path = "../listening/mod.rs"]
mod listening;
mod logged;
mod run;
mod script;

use std::sync::Arc;
use std::time::Duration;

use foldback_testkit::server::{Server, refused_url};
use futures_util::stream::{self, StreamExt};

use self::figures::Figures;
use self::run::{Ended, Run};
use self::script::Scripts;

/// Runs of the normal test run.
const RUNS_DEFAULT: u64 = 300;

/// Runs that are under way at the same time, each on a thread of its own: most of its time is waiting,
/// and planning must not keep others from it.
const PARALLEL_MAX: usize = 16;

/// Long past every limit that a run has, also on a machine that does other things: what takes longer
/// hangs.
const HANG: Duration = Duration::from_secs(60);

fn number(variable: &str) -> Option<u64> {
    let asked = std::env::var(variable).ok()?;
    Some(asked.parse().unwrap_or_else(|_| panic!("{variable} is {asked}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn whatever_a_server_does_a_compaction_ends_well_and_tells_no_key() {
    logged::listen();
    let count = number("FOLDBACK_FAULT_RUNS").unwrap_or(RUNS_DEFAULT);
    let seed = number("FOLDBACK_FAULT_SEED").unwrap_or(0);
    let first = number("FOLDBACK_FAULT_FIRST").unwrap_or(0);
    // Planning, the digest and waiting for a processor come on top of a deadline; how long that takes
    // is asked for where a machine has nothing else to do.
    let grace = number("FOLDBACK_FAULT_GRACE_SECONDS").map(Duration::from_secs);
    let scripts = Arc::new(Scripts::default());
    let of_server = Arc::clone(&scripts);
    let url = Server::apart(move |request| of_server.answer(request));
    let refused = refused_url().await;

    let runs = (first..first + count).map(|index| {
        let (scripts, url, refused) = (Arc::clone(&scripts), url.clone(), refused.clone());
        async move {
            let run = Run::new(seed, index, grace);
            let told = run.to_string();
            let task = tokio::spawn(async move { run.play(&scripts, &url, &refused).await });
            let ended = tokio::time::timeout(HANG, task).await;
            ended.unwrap_or_else(|_| panic!("{told} hangs")).unwrap_or_else(|_| panic!("{told} failed"))
        }
    });
    let ended: Vec<Ended> = stream::iter(runs).buffer_unordered(PARALLEL_MAX).collect().await;

    assert_eq!(logged::leaks(), Vec::<String>::new(), "a key was logged");
    let figures = Figures::of(&ended, scripts.served());
    eprintln!("{count} runs from seed {seed}: {figures}");
    eprintln!("{} log lines searched", logged::count());
    if count < RUNS_DEFAULT {
        return; // Too few to have met everything.
    }
    figures.judge();
    assert!(logged::log_count() > 0, "the HTTP client was not listened to");
    assert!(logged::count() > logged::log_count(), "nothing of foldback's own was searched");
}
