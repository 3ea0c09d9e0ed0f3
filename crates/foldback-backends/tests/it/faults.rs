//! Compactions against a server that fails in every way a server can: seeded, over real HTTP on
//! loopback. `FOLDBACK_FAULT_RUN=9` runs number 9 of a seed alone.
//!
//! Whatever the server does, a compaction ends, with a view that is valid and at or under its budget,
//! or with the view that it began with; what went wrong is in the events, and the key is nowhere.

mod figures;
mod logged;
mod run;
mod script;

use std::sync::Arc;
use std::time::Duration;

use foldback_testkit::effort;
use foldback_testkit::server::{Server, refused_url};
use futures_util::stream::{self, StreamExt};

use self::figures::Figures;
use self::run::{Ended, Run};
use self::script::Scripts;

/// The fewest runs that must have met everything.
const RUNS_JUDGED_MIN: u64 = 2_000;

/// Names the one run that is to be repeated.
const RUN_VARIABLE: &str = "FOLDBACK_FAULT_RUN";

/// Runs that are under way at the same time, each on a thread of its own: most of its time is waiting,
/// and planning must not keep others from it.
const PARALLEL_MAX: usize = 16;

/// Long past every limit that a run has, also on a machine that does other things: what takes longer
/// hangs.
const HANG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn whatever_a_server_does_a_compaction_ends_well_and_tells_no_key() {
    logged::listen();
    effort::tell();
    let seed = effort::seed();
    let runs = match effort::asked(RUN_VARIABLE) {
        Some(only) => only..only + 1,
        None => 0..u64::from(effort::cases(1)),
    };
    let count = runs.end - runs.start;
    let scripts = Arc::new(Scripts::default());
    let of_server = Arc::clone(&scripts);
    let url = Server::apart(move |request| of_server.answer(request));
    let refused = refused_url().await;

    let runs = runs.map(|index| {
        let (scripts, url, refused) = (Arc::clone(&scripts), url.clone(), refused.clone());
        async move {
            let run = Run::new(seed, index);
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
    if count >= RUNS_JUDGED_MIN {
        figures.judge();
    }
    assert!(logged::log_count() > 0, "the HTTP client was not listened to");
    assert!(logged::count() > logged::log_count(), "nothing of foldback's own was searched");
}
