//! What the store costs: appends beside bare inserts, opening a long session beside a short one,
//! searching, bytes on disk.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin store -- [--items N] [--only PART]
//! [--keep FOLDER] [--postgres URL] [SESSIONS]`
//!
//! The parts are sizes, appends and long. SESSIONS is a folder of session files; without it, stored size is
//! not measured. Everything is written to a temporary folder and durable, as in use; TMPDIR names another
//! one, such as one in memory. With --keep, the long stores stay in that folder and are used again. With
//! --postgres, the long store is made on that server too.
#![allow(clippy::print_stdout, reason = "it reports by printing")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldback_core::{
    CompactionBlock, Edit, FactKind, Handle, Item, LoopId, Metadata, Part, Reason, SessionId, Timestamp,
    Tokens,
};
use foldback_engine::store::{At, NewLoop, NewSession, Origin, Retention, SearchQuery, Version};
use foldback_engine::{Store, StoreError};
use foldback_formats::SessionFile;
use foldback_store::{PostgresOptions, PostgresStore, SqliteStore};

/// Rounds of each comparison; the sides take turns.
const ROUNDS: usize = 7;

/// Items of a batch, and how many batches and single items are timed.
const BATCH: usize = 100;
const BATCHES: usize = 40;

/// Batches that are more than a tail holds: settling it goes on beside them.
const BATCHES_MANY: usize = 120;
const SINGLES: usize = 150;

/// Items that stay visible: about 100K tokens of them.
const VISIBLE: usize = 400;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// An item of about a kilobyte, unlike every other.
fn item(number: usize) -> Arc<Item> {
    let mut words = String::new();
    for step in 0..24_usize {
        let mixed = number.wrapping_mul(31).wrapping_add(step).wrapping_mul(0x9e37_79b9) >> 7;
        words.push_str(&format!(
            "step {step} of {number} took {} ms in module_{}; ",
            mixed % 977,
            mixed % 53
        ));
    }
    words.push_str(&format!("see src/part_{}.rs", number % 5_003));
    let mut item = match number % 2 {
        0 => Item::user(format!("u{number}"), words),
        _ => Item::assistant(format!("a{number}"), vec![Part::text(words)]),
    };
    item.created_at = Some(Timestamp(number as i64));
    Arc::new(item)
}

fn names() -> (SessionId, LoopId) {
    ("bench".into(), "main".into())
}

async fn begin(path: &Path) -> Outcome<(SqliteStore, Version)> {
    let store = SqliteStore::open(path).await?;
    let (session, loop_id) = names();
    let version = store.create(&NewSession::new(session, loop_id)).await?;
    Ok((store, version))
}

async fn append(store: &dyn Store, version: Version, items: &[Arc<Item>]) -> Outcome<Version> {
    let (session, loop_id) = names();
    Ok(store.append(&At { session: &session, loop_id: &loop_id, version }, items).await?)
}

/// Bare inserts of the same JSON with the same pragmas: the least that a durable list can do.
fn bare(path: &Path) -> Outcome<rusqlite::Connection> {
    let db = rusqlite::Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -32768;
         CREATE TABLE items (position INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    )?;
    Ok(db)
}

fn insert(db: &mut rusqlite::Connection, items: &[Arc<Item>]) -> Outcome<()> {
    let change = db.transaction()?;
    {
        let mut statement = change.prepare_cached("INSERT INTO items (body) VALUES (?1)")?;
        for item in items {
            statement.execute([serde_json::to_vec(&**item)?])?;
        }
    }
    change.commit()?;
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn compare_appends(folder: &Path, batch: usize, batches: usize) -> Outcome<()> {
    let (mut ours, mut theirs, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let items: Vec<Arc<Item>> =
            (0..batch * batches).map(|number| item(round * 100_000 + number)).collect();
        let (store, mut version) = begin(&folder.join(format!("ours-{batch}-{batches}-{round}.db"))).await?;
        let mut db = bare(&folder.join(format!("bare-{batch}-{batches}-{round}.db")))?;
        let (mut our_time, mut bare_time) = (Duration::ZERO, Duration::ZERO);
        for items in items.chunks(batch) {
            let started = Instant::now();
            version = append(&store, version, items).await?;
            our_time += started.elapsed();
            let started = Instant::now();
            insert(&mut db, items)?;
            bare_time += started.elapsed();
        }
        ours.push(items.len() as f64 / our_time.as_secs_f64());
        theirs.push(items.len() as f64 / bare_time.as_secs_f64());
        shares.push(100.0 * bare_time.as_secs_f64() / our_time.as_secs_f64());
    }
    shares.sort_by(f64::total_cmp);
    println!(
        "append-{batch} batches={batches} foldback={:.0}/s bare={:.0}/s share={:.0}% ({:.0} to {:.0})",
        median(ours),
        median(theirs),
        shares[ROUNDS / 2],
        shares[0],
        shares[ROUNDS - 1]
    );
    Ok(())
}

/// Hides everything before an index.
fn hide(range: std::ops::Range<usize>) -> CompactionBlock {
    let reason = Reason::new("bench", "older");
    CompactionBlock {
        edits: vec![Edit::Drop(foldback_core::edit::Drop { range, reason })],
        strategy: "bench".into(),
        tokens_before: Tokens(1),
        tokens_after: Tokens(1),
        ..CompactionBlock::default()
    }
}

/// A session of so many items, compacted as it grew, of which the newest stay visible. One that is there
/// already is left as it is.
async fn lengthen(store: &dyn Store, count: usize) -> Outcome<()> {
    let (session, loop_id) = names();
    let mut version = match store.create(&NewSession::new(session.clone(), loop_id.clone())).await {
        Err(StoreError::Exists { .. }) => return Ok(()),
        created => created?,
    };
    let step = (count / 100).max(1_000);
    let mut hidden = 0;
    for start in (0..count).step_by(step) {
        let items: Vec<Arc<Item>> = (start..(start + step).min(count)).map(item).collect();
        version = append(store, version, &items).await?;
        let end = start + items.len();
        if end > VISIBLE + hidden {
            let at = At { session: &session, loop_id: &loop_id, version };
            version = store.commit(&at, &[Arc::new(hide(hidden..end - VISIBLE))]).await?;
            hidden = end - VISIBLE;
        }
    }
    Ok(())
}

async fn timed_contexts(store: &dyn Store) -> Outcome<f64> {
    let (session, loop_id) = names();
    let mut times = Vec::new();
    for _ in 0..ROUNDS * 3 {
        let started = Instant::now();
        let context = store.head(&session, &loop_id).await?.context();
        times.push(started.elapsed().as_secs_f64() * 1e3);
        assert_eq!(context.len(), VISIBLE);
    }
    Ok(median(times))
}

/// Nanoseconds that the threads of this process have run.
fn processor_nanos() -> Outcome<u64> {
    let mut nanos = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanos += told.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(nanos)
}

async fn time_search(store: &dyn Store, name: &str, query: &SearchQuery) -> Outcome<()> {
    let (mut times, mut busy) = (Vec::new(), Vec::new());
    let mut answer = store.search(query).await?;
    for _ in 0..ROUNDS {
        let (started, ran) = (Instant::now(), processor_nanos()?);
        answer = store.search(query).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        busy.push((processor_nanos()? - ran) as f64 / 1e6);
    }
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    let rest = if answer.is_complete { "everything was looked at" } else { "the newest were looked at" };
    println!(
        "search {name}: {:.1} ms (least {least:.1}), {:.1} ms of this process, {} hits, {rest}",
        median(times),
        median(busy),
        answer.hits.len()
    );
    Ok(())
}

/// Every kind of query: words from rare to common, phrases that occur and that do not, regular expressions,
/// filters.
fn queries(long: usize) -> Vec<(&'static str, SearchQuery)> {
    let rare = format!("\"step 3 of {}\"", long / 2);
    let words = |name, text: &str| (name, SearchQuery::text(text));
    let regex =
        |name, regex: &str| (name, SearchQuery { regex: Some(regex.to_owned()), ..SearchQuery::default() });
    let kind = |name, kind| (name, SearchQuery { fact_kind: Some(kind), ..SearchQuery::default() });
    let file =
        |name, file: &str| (name, SearchQuery { file: Some(file.to_owned()), ..SearchQuery::default() });
    let old = Some(Timestamp(long as i64 / 1_000));
    vec![
        words("a rare phrase", &rare),
        words("a common word", "step"),
        words("common words", "module_7 took"),
        words("a common phrase", "\"took 13 ms in module_5\""),
        words("a phrase of common words that is nowhere", "\"took step ms of\""),
        words("a phrase of rarer words that is nowhere", "\"976 975\""),
        words("three phrases of rarer words", "\"took 976\" \"took 975\" \"took 974\""),
        words("a word that is nowhere", "zeppelin"),
        regex("a regular expression that fits often", r"module_1\d;"),
        regex("a regular expression that fits nowhere", r"[a-z]+ \d+ never \w+"),
        kind("facts that are everywhere", FactKind::Path),
        kind("facts that are nowhere", FactKind::Constraint),
        file("a file", "src/part_77.rs"),
        file("a file that is nowhere", "step/of/took.ms"),
        ("an old time", SearchQuery { until: old, ..SearchQuery::default() }),
        ("words of an old time", SearchQuery { until: old, ..SearchQuery::text("took ms") }),
        (
            "words of a session",
            SearchQuery { session: Some(names().0), ..SearchQuery::text("module_7 took") },
        ),
    ]
}

async fn measure_long(store: &dyn Store, long: usize) -> Outcome<f64> {
    let started = Instant::now();
    lengthen(store, long).await?;
    println!("append items={long} {:.1} s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    while store.index(20_000).await? > 0 {}
    println!("index items={long} {:.1} s", started.elapsed().as_secs_f64());
    // Once everything is settled, in the short session too: a tail is read faster.
    let opened = timed_contexts(store).await?;
    let size = store.size().await?;
    println!("size items={long} data={} MB search={} MB", size.data_bytes >> 20, size.search_bytes >> 20);
    for (name, query) in queries(long) {
        time_search(store, name, &query).await?;
    }
    let handle = Handle::of_item(long / 2, &item(long / 2).id);
    let (session, loop_id) = names();
    let started = Instant::now();
    store.locate(&session, &loop_id, &handle).await?;
    println!("locate items={long} {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    Ok(opened)
}

async fn compare_lengths(folder: &Path, long: usize) -> Outcome<()> {
    let short_store = SqliteStore::open(folder.join("short.db")).await?;
    lengthen(&short_store, 10_000).await?;
    while short_store.index(20_000).await? > 0 {}
    let short = timed_contexts(&short_store).await?;
    let store = SqliteStore::open(folder.join(format!("long-{long}.db"))).await?;
    let opened = measure_long(&store, long).await?;
    println!("context items=10000 {short:.1} ms, items={long} {opened:.1} ms, ratio={:.2}", opened / short);
    Ok(())
}

/// The long session on a server; its tables stay there.
async fn measure_server(url: &str, long: usize) -> Outcome<()> {
    let options = PostgresOptions { schema: format!("bench_{long}"), ..PostgresOptions::default() };
    let store = PostgresStore::open_with(url, options).await?;
    let opened = measure_long(&store, long).await?;
    println!("context items={long} {opened:.1} ms on the server");
    Ok(())
}

/// Every file below a folder, in order.
fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Stores sessions and the files they come from, and says what that takes. A file of several
/// conversations has a loop for each.
async fn measure_size(folder: &Path, sessions: &Path) -> Outcome<()> {
    let store = SqliteStore::open(folder.join("sessions.db")).await?;
    let (mut file_count, mut file_bytes, mut item_count) = (0, 0, 0);
    for path in files(sessions)? {
        let Ok(read) = SessionFile::read(std::fs::read(&path)?) else { continue };
        let (session, loop_id): (SessionId, LoopId) = (path.display().to_string().into(), "0".into());
        let mut version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await?;
        let at = At { session: &session, loop_id: &loop_id, version };
        version = store.append_original(&at, 0, read.bytes()).await?;
        for (number, conversation) in read.conversations().iter().chain(read.branches()).enumerate() {
            let loop_id = LoopId::from(number.to_string());
            if number > 0 {
                let begun = NewLoop { id: loop_id.clone(), origin: Origin::Root, metadata: Metadata::new() };
                version = store.begin_loop(&session, version, &begun).await?;
            }
            let items: Vec<Arc<Item>> =
                conversation.recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect();
            version = store.append(&At { session: &session, loop_id: &loop_id, version }, &items).await?;
            item_count += items.len();
        }
        file_count += 1;
        file_bytes += read.bytes().len();
    }
    store.gc(&Retention::default()).await?;
    while store.index(20_000).await? > 0 {}
    let size = store.size().await?;
    println!(
        "stored files={file_count} items={item_count} file_bytes={file_bytes} data={} ({:.1}%) search={} ({:.1}%)",
        size.data_bytes,
        100.0 * size.data_bytes as f64 / file_bytes as f64,
        size.search_bytes,
        100.0 * size.search_bytes as f64 / file_bytes as f64,
    );
    Ok(())
}

#[derive(Debug, Default)]
struct Arguments {
    items: Option<usize>,
    only: Option<String>,
    keep: Option<PathBuf>,
    postgres: Option<String>,
    sessions: Option<PathBuf>,
}

impl Arguments {
    fn read() -> Outcome<Self> {
        let mut read = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "--items" => read.items = Some(value()?.parse()?),
                "--only" => read.only = Some(value()?),
                "--keep" => read.keep = Some(value()?.into()),
                "--postgres" => read.postgres = Some(value()?),
                sessions => read.sessions = Some(sessions.into()),
            }
        }
        Ok(read)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

async fn measure(folder: &Path, arguments: &Arguments) -> Outcome<()> {
    if let Some(sessions) = arguments.sessions.as_ref().filter(|_| arguments.wants("sizes")) {
        measure_size(folder, sessions).await?;
    }
    if arguments.wants("appends") {
        compare_appends(folder, BATCH, BATCHES).await?;
        compare_appends(folder, BATCH, BATCHES_MANY).await?;
        compare_appends(folder, 1, SINGLES).await?;
    }
    if arguments.wants("long") {
        let long = arguments.items.unwrap_or(1_000_000);
        compare_lengths(arguments.keep.as_deref().unwrap_or(folder), long).await?;
        if let Some(url) = &arguments.postgres {
            measure_server(url, long).await?;
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments = Arguments::read()?;
    let folder = std::env::temp_dir().join(format!("foldback-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let done = runtime.block_on(measure(&folder, &arguments));
    std::fs::remove_dir_all(&folder)?;
    done
}
