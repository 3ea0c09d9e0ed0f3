//! Three processes on one PostgreSQL: they append to the same sessions, compact them in the
//! background, and are ended and started again at random.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foldback_core::{
    CompactionBlock, CompactionReason, Item, LoopId, Overlay, Part, SessionId, SummarizeOlderStrategy,
    Transcript, View, plan,
};
use foldback_engine::store::{At, Job, JobOutcome, Lease, NewSession, Repairs};
use foldback_engine::{Store, StoreError};
use foldback_testkit::effort;

use super::Failure;
use super::target::{connect, open_postgres};
use super::writer::say;

const PROCESSES: usize = 3;
const SESSIONS: usize = 200;

/// How long a worker may be silent before somebody else takes its job.
const LEASE: Duration = Duration::from_secs(3);

/// How long a process lives before it may be ended, at most.
const LIFE_MAX: Duration = Duration::from_secs(4);

/// How long the last worker may take to finish what is left.
const DRAIN_MAX: Duration = Duration::from_secs(120);

/// Conflicts that one change may meet before something is wrong.
const CONFLICTS_MAX: u32 = 1_000;

fn main_loop() -> LoopId {
    "main".into()
}

fn session(number: usize) -> SessionId {
    format!("session-{number}").into()
}

/// One of the processes: appends, asks for compactions, and does them.
pub(crate) async fn work(schema: &str, name: &str, seed: u64) -> Result<(), Failure> {
    let store = open_postgres(schema).await?;
    let locks = connect(schema).await?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut number = 0_u64;
    loop {
        let session = session(random.usize(0..SESSIONS));
        for _ in 0..random.usize(1..4) {
            number += 1;
            append(&store, &session, &format!("{name}-{number}")).await?;
        }
        if random.u32(0..3) == 0 {
            let job = Job { session, loop_id: main_loop(), reason: CompactionReason::Manual };
            store.enqueue(&job).await.map_err(|error| error.to_string())?;
        }
        if random.u32(0..3) == 0 {
            do_job(&store, &locks, name).await?;
        }
    }
}

async fn append(store: &dyn Store, session: &SessionId, id: &str) -> Result<(), Failure> {
    let item = [Arc::new(Item::user(id, format!("said by {id} ").repeat(20)))];
    let mut version = store.session(session).await.map_err(|error| error.to_string())?.version;
    for _ in 0..CONFLICTS_MAX {
        match store.append(&At { session, loop_id: &main_loop(), version }, &item).await {
            Ok(_) => {
                say(&format!("item {session} {id}"));
                return Ok(());
            }
            Err(StoreError::Conflict { actual, .. }) => version = actual,
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("{id} met {CONFLICTS_MAX} conflicts"))
}

/// Takes a job, if there is one. The lock on the server is what a second compaction of the same
/// session, at the same time, would run into.
async fn do_job(store: &dyn Store, locks: &tokio_postgres::Client, name: &str) -> Result<bool, Failure> {
    let Some(lease) = store.claim(name, LEASE).await.map_err(|error| error.to_string())? else {
        return Ok(false);
    };
    let key = lease.job.session.to_string();
    let locked = locks.query_one("SELECT pg_try_advisory_lock(1, hashtext($1))", &[&key]).await;
    if !locked.map_err(|error| error.to_string())?.get::<_, bool>(0) {
        say(&format!("twice {key}"));
        return Err(format!("two compactions of {key} at the same time"));
    }
    let compacted = compact(store, &lease).await;
    let unlocked = locks.execute("SELECT pg_advisory_unlock(1, hashtext($1))", &[&key]).await;
    unlocked.map_err(|error| error.to_string())?;
    compacted?;
    match store.finish(&lease, &JobOutcome::Done).await {
        Ok(()) => say(&format!("done {key}")),
        // It took longer than its lease; whoever has the job now does it again.
        Err(StoreError::LeaseLost { .. }) => say(&format!("late {key}")),
        Err(error) => return Err(error.to_string()),
    }
    Ok(true)
}

async fn compact(store: &dyn Store, lease: &Lease) -> Result<(), Failure> {
    let (session, loop_id) = (&lease.job.session, &lease.job.loop_id);
    let told = |error: StoreError| error.to_string();
    for _ in 0..CONFLICTS_MAX {
        let version = store.session(session).await.map_err(told)?.version;
        let items = store.items(session, loop_id, 0..usize::MAX).await.map_err(told)?;
        let blocks = store.blocks(session, loop_id).await.map_err(told)?;
        let in_force = blocks.iter().filter(|block| block.is_in_force);
        let overlay: Overlay = in_force.map(|block| CompactionBlock::clone(&block.block)).collect();
        let transcript: Transcript = items.into_iter().collect();
        let view = View::through(&transcript, &overlay).map_err(|error| error.to_string())?;
        let Ok(planned) = plan(&view, &SummarizeOlderStrategy::new(4), None) else { return Ok(()) };
        if planned.is_empty() {
            return Ok(());
        }
        match store.commit(&At { session, loop_id, version }, &[planned.apply_floor().block]).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => store.renew(lease, LEASE).await.map_err(told)?,
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("{session} met {CONFLICTS_MAX} conflicts"))
}

/// What all processes said, whatever became of them.
type Heard = Arc<Mutex<Vec<String>>>;

/// Starts the processes, ends them at random for a while, and looks at what they left.
pub(crate) async fn run(seconds: u32) -> Result<(), Failure> {
    let schema = format!("workers_{}", std::process::id());
    let store = open_postgres(&schema).await?;
    for number in 0..SESSIONS {
        let begun = store.create(&NewSession::new(session(number), main_loop())).await;
        begun.map_err(|error| error.to_string())?;
    }
    let heard = Heard::default();
    let mut random = fastrand::Rng::with_seed(effort::seed());
    let mut readers = Vec::new();
    let until = Instant::now() + Duration::from_secs(u64::from(seconds));
    let mut processes: Vec<(Child, Instant)> = Vec::new();
    let (mut started, mut ended) = (0_u32, 0_u32);
    while Instant::now() < until {
        while processes.len() < PROCESSES {
            started += 1;
            let (child, reader) = start(&schema, started, random.u64(..), &heard)?;
            readers.push(reader);
            processes.push((child, Instant::now() + LIFE_MAX.mul_f64(random.f64())));
        }
        std::thread::sleep(Duration::from_millis(20));
        for (child, dies_at) in &mut processes {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("a worker ended by itself: {status}"));
            }
            if *dies_at < Instant::now() {
                end(child)?;
                ended += 1;
            }
        }
        processes.retain_mut(|(child, _)| matches!(child.try_wait(), Ok(None)));
    }
    for (child, _) in &mut processes {
        end(child)?;
    }
    for reader in readers {
        reader.join().map_err(|_| "a reader panicked")?;
    }
    drain(&store, &schema).await?;
    let heard = heard.lock().map_err(|_| "a reader panicked")?.clone();
    let items = look(&store, &heard).await?;
    let done = heard.iter().filter(|line| line.starts_with("done")).count();
    println!(
        "{PROCESSES} processes, {SESSIONS} sessions, {seconds} s: {ended} ended, {items} items, {done} compactions; \
         nothing lost, nothing twice, no job left"
    );
    Ok(())
}

fn start(
    schema: &str,
    number: u32,
    seed: u64,
    heard: &Heard,
) -> Result<(Child, std::thread::JoinHandle<()>), Failure> {
    let mut child = super::start(&format!("worker\n{schema}\nworker{number}\n{seed}"))?;
    let output = child.stderr.take().ok_or("the worker has no output")?;
    let heard = Arc::clone(heard);
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            heard.lock().expect("no reader panics").push(line);
        }
    });
    Ok((child, reader))
}

fn end(child: &mut Child) -> Result<(), Failure> {
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map(|_| ()).map_err(|error| error.to_string())
}

/// Does what is left: jobs that wait, and those of ended workers once their leases have run out.
async fn drain(store: &dyn Store, schema: &str) -> Result<(), Failure> {
    let locks = connect(schema).await?;
    let until = Instant::now() + DRAIN_MAX;
    while Instant::now() < until {
        if do_job(store, &locks, "last").await? {
            continue;
        }
        if store.jobs().await.map_err(|error| error.to_string())?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = store.jobs().await.map_err(|error| error.to_string())?;
    Err(format!("jobs are left: {left:?}"))
}

/// Every acknowledged item once, no item twice, and `verify` is clean.
async fn look(store: &dyn Store, heard: &[String]) -> Result<usize, Failure> {
    if let Some(line) = heard.iter().find(|line| line.starts_with("twice")) {
        return Err(format!("two compactions at the same time: {line}"));
    }
    let report = store.verify(Repairs::None).await.map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("verify found {:?}", report.problems));
    }
    let mut counts: HashMap<(String, String), u32> = HashMap::new();
    for number in 0..SESSIONS {
        let session = session(number);
        let items =
            store.items(&session, &main_loop(), 0..usize::MAX).await.map_err(|error| error.to_string())?;
        for item in items {
            let is_whole =
                matches!(item.parts.as_slice(), [Part::Text(text)] if text.contains(item.id.as_str()));
            let count = counts.entry((session.to_string(), item.id.to_string())).or_default();
            *count += 1;
            if *count > 1 || !is_whole {
                return Err(format!(
                    "item {} of {session} is there {count} times, or not as it was",
                    item.id
                ));
            }
        }
    }
    let said =
        heard.iter().filter_map(|line| line.strip_prefix("item ")).filter_map(|line| line.split_once(' '));
    let mut acknowledged = 0;
    for (session, id) in said {
        acknowledged += 1;
        if !counts.contains_key(&(session.to_owned(), id.to_owned())) {
            return Err(format!("item {id} of {session} is lost"));
        }
    }
    if acknowledged == 0 { Err("no worker was told anything".to_owned()) } else { Ok(counts.len()) }
}
