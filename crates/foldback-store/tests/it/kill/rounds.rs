//! Starting a writer, ending it, and looking at what it left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use foldback_core::{Dialect, LoopId, check};
use foldback_engine::store::{LoopInfo, Origin, Repairs, StoredBlock};
use foldback_engine::{Store, StoreError};
use foldback_testkit::effort;

use super::target::Target;
use super::writer::{Operation, REVISED_NOTE, REVISION, item, retired_items, session};
use super::{Failure, start};

/// How long a writer may take to come to the operation it is to be ended in.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a writer is to be ended in, in turn.
const AIMS: [Operation; 4] = [Operation::Append, Operation::Compaction, Operation::Revision, Operation::Gc];

/// One in so many rounds must have ended a writer in the middle of each of these.
const ROUNDS_PER_HIT: u32 = 20;

/// Of so many rounds, one at least must have ended a writer in the middle of something.
const ROUNDS_FOR_A_HIT: u32 = 10;

/// The writer does it at most so many times before it is ended.
const TIMES_MAX: u32 = 4;

/// How long an operation takes, before anything is known about it.
const DURATION_FIRST: Duration = Duration::from_millis(3);

/// After this many rounds the session begins anew, so that looking at it stays quick.
const ROUNDS_PER_SESSION: u32 = 40;

/// What writers were told is stored: items and blocks of each loop, and sessions beside it.
#[derive(Debug, Default)]
struct Told {
    items: HashMap<LoopId, usize>,
    blocks: HashMap<LoopId, usize>,
    loops: BTreeMap<LoopId, ()>,
    /// Sessions that gc takes away, those that it may have taken, those that it said it has.
    retired: BTreeSet<String>,
    perhaps_gone: BTreeSet<String>,
    gone: BTreeSet<String>,
    lines: usize,
}

impl Told {
    fn hear(&mut self, line: &str) {
        self.lines += 1;
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["items", loop_id, count] => {
                self.items.insert(LoopId::from(*loop_id), count.parse().unwrap_or(0));
            }
            ["blocks", loop_id, count] => {
                self.blocks.insert(LoopId::from(*loop_id), count.parse().unwrap_or(0));
            }
            ["loop", loop_id, _] => drop(self.loops.insert(LoopId::from(*loop_id), ())),
            ["retired", name] => drop(self.retired.insert((*name).to_owned())),
            ["gone", name] => drop(self.gone.insert((*name).to_owned())),
            ["begin", "gc"] => self.perhaps_gone.extend(self.retired.iter().cloned()),
            _ => {}
        }
    }
}

pub(crate) async fn run(target: Target, rounds: u32) -> Result<(), Failure> {
    let seed = effort::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut told = Told::default();
    let mut hits: BTreeMap<Option<Operation>, u32> = BTreeMap::new();
    let mut durations = HashMap::new();
    let (mut lines, mut items) = (0, 0);
    drop(target.open().await?);
    for round in 1..=rounds {
        let aim = AIMS[round as usize % AIMS.len()];
        let mut writer = Writer::start(&target, random.u64(..))?;
        let hit = writer.end_in(aim, &mut random, &mut durations)?;
        *hits.entry(hit).or_default() += 1;
        writer.said.iter().for_each(|line| told.hear(line));
        let store = target.open().await?;
        items = look(&*store, &told)
            .await
            .map_err(|reason| format!("round {round} of seed {seed}, {hit:?}: {reason}"))?;
        lines = told.lines.max(lines);
        if round % ROUNDS_PER_SESSION == 0 {
            forget(&*store).await?;
            let Told { retired, perhaps_gone, gone, lines, .. } = told;
            told = Told { retired, perhaps_gone, gone, lines, ..Told::default() };
        }
    }
    let name = target.to_argument();
    println!("{rounds} rounds on {name}: {lines} lines said, {items} items at the end, all as they were");
    tell(&hits);
    for aim in AIMS {
        let count = hits.get(&Some(aim)).copied().unwrap_or(0);
        if count < rounds / ROUNDS_PER_HIT {
            return Err(format!("only {count} writers were ended in the middle of a {aim}"));
        }
    }
    if rounds >= ROUNDS_FOR_A_HIT && hits.keys().all(Option::is_none) {
        return Err("no writer was ended in the middle of anything".to_owned());
    }
    if lines == 0 {
        Err("no writer lived long enough to be told anything".to_owned())
    } else {
        target.remove()
    }
}

fn tell(hits: &BTreeMap<Option<Operation>, u32>) {
    for (operation, count) in hits {
        match operation {
            Some(operation) => println!("  {count:4} in the middle of {operation}"),
            None => println!("  {count:4} in between"),
        }
    }
}

async fn forget(store: &dyn Store) -> Result<(), Failure> {
    match store.delete(&session()).await {
        Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// A process that writes, and what it said.
struct Writer {
    child: Child,
    heard: Receiver<String>,
    said: Vec<String>,
}

impl Writer {
    fn start(target: &Target, seed: u64) -> Result<Self, Failure> {
        let mut child = start(&format!("writer\n{}\n{seed}", target.to_argument()))?;
        let output = child.stderr.take().ok_or("the writer has no output")?;
        let (sender, heard) = channel();
        // Read on another thread: a writer that waits for its reader would not be in the middle of anything.
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // Nobody listens any more once the round is over.
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Self { child, heard, said: Vec::new() })
    }

    /// Ends the writer the hard way, while it does what is aimed at or soon after. Answers what it had
    /// begun and was not told the end of.
    fn end_in(
        &mut self,
        aim: Operation,
        random: &mut fastrand::Rng,
        durations: &mut HashMap<Operation, Duration>,
    ) -> Result<Option<Operation>, Failure> {
        let times = random.u32(1..=TIMES_MAX);
        for time in 1..=times {
            self.wait_for(&format!("begin {aim}"))?;
            if time < times {
                let started = Instant::now();
                self.wait_for("end")?;
                durations.insert(aim, started.elapsed());
            }
        }
        let usual = durations.get(&aim).copied().unwrap_or(DURATION_FIRST);
        std::thread::sleep(usual.mul_f64(random.f64()));
        if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("the writer ended by itself: {status}"));
        }
        self.child.kill().map_err(|error| error.to_string())?;
        self.child.wait().map_err(|error| error.to_string())?;
        self.said.extend(self.heard.iter());
        Ok(self.in_the_middle_of())
    }

    fn wait_for(&mut self, awaited: &str) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.heard.recv_timeout(left).map_err(|error| {
                format!("the writer did not say {awaited:?} ({error}), but {:?}", self.said.last())
            })?;
            let is_it = line == awaited;
            self.said.push(line);
            if is_it {
                return Ok(());
            }
        }
    }

    fn in_the_middle_of(&self) -> Option<Operation> {
        let begun = self.said.last()?.strip_prefix("begin ")?;
        Operation::ALL.into_iter().find(|operation| operation.to_string() == begun)
    }
}

/// Everything that was acknowledged is there, byte for byte, and nothing is half there.
async fn look(store: &dyn Store, told: &Told) -> Result<usize, Failure> {
    let report = store.verify(Repairs::None).await.map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("verify found {:?}", report.problems));
    }
    look_at_retired(store, told).await?;
    let session = session();
    if matches!(store.session(&session).await, Err(StoreError::NotFound { .. })) {
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
        look_at_revisions(info, &blocks)?;
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

/// The notes, the items and the block of a revision are all there, or none of them is.
fn look_at_revisions(info: &LoopInfo, blocks: &[StoredBlock]) -> Result<(), Failure> {
    let shared = match info.origin {
        Origin::Branch { item_count, .. } => item_count,
        Origin::After(_) | Origin::Root => 0,
    };
    // An undo records again what hid items of the loop that this one branched off.
    let is_own = |block: &&StoredBlock| block.block.edits.iter().all(|edit| edit.first_index() >= shared);
    let is_revision =
        |block: &&StoredBlock| block.loop_id == info.id && block.block.strategy.as_str() == REVISION;
    let own = blocks.iter().filter(is_revision).filter(is_own);
    let hidden = own.map(|block| block.block.reach()).max();
    let noted = info.metadata.get(REVISED_NOTE).and_then(|noted| noted.as_u64());
    match (hidden.map(|hidden| hidden as u64), noted) {
        (hidden, noted)
            if hidden == noted && hidden.is_none_or(|hidden| hidden <= info.item_count as u64) =>
        {
            Ok(())
        }
        (hidden, noted) => Err(format!("a revision of loop {} hides {hidden:?}, noted {noted:?}", info.id)),
    }
}

/// A retired session is as it was until gc takes it away, and never there again.
async fn look_at_retired(store: &dyn Store, told: &Told) -> Result<(), Failure> {
    for name in &told.retired {
        let loop_id = LoopId::from(name.as_str());
        match store.items(&name.as_str().into(), &loop_id, 0..usize::MAX).await {
            Ok(_) if told.gone.contains(name) => return Err(format!("{name} came back")),
            Ok(items) if items == retired_items(&loop_id) => {}
            Ok(items) => return Err(format!("{name} has {} items, not as they were", items.len())),
            Err(StoreError::NotFound { .. }) if told.perhaps_gone.contains(name) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
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
