//! `cargo xtask soak`: everything that takes long, with new random cases each round. A failure says how
//! to repeat it.

use std::time::{Duration, Instant};

use crate::cargo::{cargo, run as run_command};
use crate::fuzz::{self, Effort};
use crate::runner::{self, Search, Servers};
use crate::{Failure, agents, retention, tools};

/// How long a soak takes unless told otherwise.
pub(crate) const HOURS_DEFAULT: f64 = 1.0;

/// Cases of a cheap property in one round; killed writers, failing servers and workers follow it.
const CASES: u32 = 4_000;

/// Seconds for each fuzz target in one round.
const FUZZ_SECONDS: u32 = 120;

/// What a filter has to hold for agents to be installed.
const AGENTS_FILTER: &str = "agents";

/// Runs rounds until the time is over; the last one is finished. With a filter, only the tests whose
/// names contain it, and neither the fuzzer nor the comparison of what is kept.
pub(crate) fn run(hours: f64, filter: Option<&str>) -> Result<(), Failure> {
    tools::ensure_basics()?;
    runner::build()?;
    // Nothing else builds them before somebody measures.
    run_command(&mut cargo(&["check", "--quiet", "--locked", "--manifest-path", "benches/Cargo.toml"]))?;
    let until = Instant::now() + Duration::from_secs_f64(hours * 60.0 * 60.0);
    let wants_agents = filter.is_none_or(|filter| filter.contains(AGENTS_FILTER));
    let agents = if wants_agents { Some(agents::install(&[])?) } else { None };
    let servers = Servers::start()?;
    for round in 1.. {
        let search = Search::fresh(CASES);
        eprintln!("\n=== round {round}, {search} ===");
        let (count, left_out) = runner::run_all(&servers, agents.as_deref(), search, "soak", filter)?;
        left_out.iter().for_each(|told| eprintln!("left out: {told}"));
        if filter.is_none() {
            fuzz::run(Effort::Seconds(FUZZ_SECONDS), None)?;
            retention::run(search.seed)?;
        }
        eprintln!("round {round}: {count} tests passed");
        if Instant::now() >= until {
            break;
        }
    }
    Ok(())
}
