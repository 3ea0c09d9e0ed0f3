//! Starting a writer, ending it, and looking at what it left.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use foldback_core::{Dialect, LoopId, check};
use foldback_engine::Store;
use foldback_engine::store::{LoopInfo, Origin, Repairs};

use crate::Failure;
use crate::target::Target;
use crate::writer::{item, session};

/// A writer lives at most this long once it has opened the store.
const LIFE_MAX: Duration = Duration::from_millis(400);

/// One in so many rounds, the writer finds a store of the first version, and is ended soon.
const ROUNDS_PER_MIGRATION: u32 = 5;

/// After this many rounds the session begins anew, so that looking at it stays quick.
const ROUNDS_PER_SESSION: u32 = 40;

/// What writers were told is stored: items and blocks of each loop.
#[derive(Debug, Default)]
struct Told {
    items: HashMap<LoopId, usize>,
    blocks: HashMap<LoopId, usize>,
    loops: BTreeMap<LoopId, ()>,
    lines: usize,
}

impl Told {
    fn hear(&mut self, line: &str) {
        self.lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        if let [what, loop_id, count] = words.as_slice() {
            let loop_id = LoopId::from(*loop_id);
            let count = count.parse().unwrap_or(0);
            match *what {
                "items" => drop(self.items.insert(loop_id, count)),
                "blocks" => drop(self.blocks.insert(loop_id, count)),
                "loop" => drop(self.loops.insert(loop_id, ())),
                _ => {}
            }
        }
    }
}

pub(crate) async fn run(target: Target, rounds: u32) -> Result<(), Failure> {
    let seed = std::env::var("KILL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut told = Told::default();
    let (mut lines, mut items) = (0, 0);
    drop(target.open().await?);
    for round in 1..=rounds {
        let is_migration = round % ROUNDS_PER_MIGRATION == 0;
        if is_migration {
            target.make_old().await?;
        }
        let mut writer = start(&target, random.u64(..))?;
        let stdout = writer.stdout.take().ok_or("the writer has no output")?;
        let life = if is_migration {
            Duration::from_millis(random.u64(1..60))
        } else {
            LIFE_MAX.mul_f64(random.f64())
        };
        // Read on another thread: a writer that waits for its reader would not be in the middle of anything.
        let heard = std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).collect::<Vec<_>>()
        });
        end_after(&mut writer, life)?;
        let heard = heard.join().map_err(|_| "the reader panicked")?;
        heard.iter().for_each(|line| told.hear(line));
        let store = target.open().await?;
        items = look(&*store, &told)
            .await
            .map_err(|reason| format!("round {round} (KILL_SEED={seed}): {reason}"))?;
        lines = told.lines.max(lines);
        if round % ROUNDS_PER_SESSION == 0 {
            forget(&*store).await?;
            told = Told { lines: told.lines, ..Told::default() };
        }
    }
    let name = target.to_argument();
    println!(
        "{rounds} rounds on {name}: {lines} acknowledgements kept, {items} items at the end, all as they were"
    );
    if lines == 0 {
        Err("no writer lived long enough to be told anything".to_owned())
    } else {
        target.remove()
    }
}

async fn forget(store: &dyn Store) -> Result<(), Failure> {
    match store.delete(&session()).await {
        Ok(()) | Err(foldback_engine::StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn start(target: &Target, seed: u64) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["writer", &target.to_argument(), &seed.to_string()]).stdout(Stdio::piped());
    command.spawn().map_err(|error| error.to_string())
}

/// Lets a process live for a while, and ends it the hard way. One that ends by itself has failed.
fn end_after(child: &mut Child, life: Duration) -> Result<(), Failure> {
    let started = Instant::now();
    std::thread::sleep(life);
    if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
        return Err(format!("the writer ended by itself after {:?}: {status}", started.elapsed()));
    }
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map(|_| ()).map_err(|error| error.to_string())
}

/// Everything that was acknowledged is there, byte for byte, and nothing is half there.
async fn look(store: &dyn Store, told: &Told) -> Result<usize, Failure> {
    let report = store.verify(Repairs::None).await.map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("verify found {:?}", report.problems));
    }
    let session = session();
    if report.session_count == 0 {
        return if told.items.is_empty() { Ok(0) } else { Err("the session is gone".to_owned()) };
    }
    let loops = store.loops(&session).await.map_err(|error| error.to_string())?;
    if let Some((lost, ())) = told.loops.iter().find(|(id, ())| !loops.iter().any(|info| info.id == **id)) {
        return Err(format!("loop {lost} is gone"));
    }
    for info in &loops {
        let items =
            store.items(&session, &info.id, 0..usize::MAX).await.map_err(|error| error.to_string())?;
        let acknowledged = told.items.get(&info.id).copied().unwrap_or(0);
        if items.len() < acknowledged || items.len() != info.item_count {
            return Err(format!(
                "loop {} has {} items, {acknowledged} were acknowledged",
                info.id,
                items.len()
            ));
        }
        for (index, stored) in items.iter().enumerate() {
            if **stored != *item(holder(&loops, info, index), index) {
                return Err(format!("item {index} of loop {} has changed", info.id));
            }
        }
        let blocks = store.blocks(&session, &info.id).await.map_err(|error| error.to_string())?;
        let own = blocks.iter().filter(|block| block.loop_id == info.id).count();
        if own < told.blocks.get(&info.id).copied().unwrap_or(0) {
            return Err(format!("loop {} has lost a block", info.id));
        }
        let context = store.head(&session, &info.id).await.map_err(|error| error.to_string())?.context();
        let violations = check(context.iter(), Some(Dialect::OpenaiChat));
        if !violations.is_empty() {
            return Err(format!("the view of loop {} is invalid: {violations:?}", info.id));
        }
    }
    Ok(report.item_count)
}

/// The loop that recorded an item: this one, or one it branched off.
fn holder<'l>(loops: &'l [LoopInfo], info: &'l LoopInfo, index: usize) -> &'l LoopId {
    match &info.origin {
        Origin::Branch { parent, item_count } if index < *item_count => {
            let parent =
                loops.iter().find(|info| info.id == *parent).expect("a parent is a loop of the session");
            holder(loops, parent, index)
        }
        Origin::Branch { .. } | Origin::After(_) | Origin::Root => &info.id,
    }
}
