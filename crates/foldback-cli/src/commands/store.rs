//! `foldback store`: looking after the store.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::Arc;

use foldback_core::{SessionId, Timestamp};
use foldback_engine::store::{Page, Repairs, Retention, SessionInfo};
use foldback_engine::{Clock, Store, SystemClock};
use foldback_store::archive::{self, Contents};
use serde_json::json;

use crate::args::Shared;
use crate::args::sessions::{StoreArgs, StoreCommand};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::terminal::{GREEN, RED, counted, harmless, styled};
use crate::{store, terminal};

/// Sessions that are listed at a time.
const PAGE_SESSIONS: usize = 1_000;

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

pub(crate) fn run(shared: &Shared, arguments: &StoreArgs) -> Result<Exit, Failure> {
    store::block_on(async {
        let store = match &arguments.command {
            StoreCommand::Restore { .. } => store::open(&arguments.at).await?,
            _ => store::open_existing(&arguments.at).await?,
        };
        match &arguments.command {
            StoreCommand::Verify { repair } => verify(shared, &store, *repair).await,
            StoreCommand::Gc { older_than, keep, dry_run, yes } => {
                let consent = match (dry_run, yes) {
                    (true, _) => Consent::DryRun,
                    (false, true) => Consent::Given,
                    (false, false) => Consent::Asked,
                };
                gc(shared, &store, &retention(&store, *older_than, keep).await?, consent).await
            }
            StoreCommand::Backup { file } => {
                let contents = backup(&*store, file).await?;
                tell(shared, "backed_up", &contents, "backed up")
            }
            StoreCommand::Restore { file, unpacked_max } => {
                let failed = |error| Failure::Read { path: file.clone(), error, hint: None };
                let source = BufReader::new(File::open(file).map_err(failed)?);
                let restored = match *unpacked_max {
                    Some(bytes_max) => archive::restore_up_to(&*store, source, bytes_max).await,
                    None => archive::restore(&*store, source).await,
                };
                let contents = restored.map_err(|error| Failure::archive(file, error))?;
                tell(shared, "restored", &contents, "restored")
            }
        }
    })
}

/// Writes a new file, which is in its place once it was read back.
async fn backup(store: &dyn Store, file: &Path) -> Result<Contents, Failure> {
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => Some("a backup is never written over: give another name"),
            io::ErrorKind::NotFound => Some("make the folder first"),
            _ => None,
        };
        Failure::Write { path: file.to_owned(), error, hint: hint.map(str::to_owned) }
    };
    if file.symlink_metadata().is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.metadata().map_err(failed)?;
    let unfinished = tempfile::Builder::new().prefix(".foldback-").tempfile_in(folder);
    let mut unfinished = unfinished.map_err(failed)?;
    let written = archive::backup(store, unfinished.as_file_mut()).await;
    let contents = written.map_err(|error| Failure::archive(file, error))?;
    unfinished.as_file().sync_all().map_err(failed)?;
    unfinished.persist_noclobber(file).map_err(|error| failed(error.error))?;
    Ok(contents)
}

fn tell(shared: &Shared, field: &str, contents: &Contents, what: &str) -> Result<Exit, Failure> {
    let Contents { session_count, item_count, .. } = *contents;
    match shared.json {
        true => output::print_json(&json!({ field: session_count, "items": item_count }))?,
        false => {
            let (sessions, items) = (counted(session_count, "session"), counted(item_count, "item"));
            output::print(&format!("{sessions}, {items} {what}\n"))?;
        }
    }
    Ok(Exit::Success)
}

async fn verify(shared: &Shared, store: &Arc<dyn Store>, repair: bool) -> Result<Exit, Failure> {
    let repairs = if repair { Repairs::Derived } else { Repairs::None };
    let report = store.verify(repairs).await?;
    if shared.json {
        let problems = report.problems.iter().map(|problem| {
            json!({"kind": format!("{:?}", problem.kind).to_lowercase(), "what": problem.what, "repaired": problem.is_repaired})
        });
        output::print_json(&json!({
            "clean": report.is_clean(),
            "sessions": report.session_count,
            "items": report.item_count,
            "bodies": report.body_count,
            "problems": problems.collect::<Vec<_>>(),
        }))?;
    } else {
        let mut text = String::new();
        for problem in &report.problems {
            let state = if problem.is_repaired { styled(GREEN, "repaired") } else { styled(RED, "wrong") };
            text.push_str(&format!("{state}: {}\n", problem.what));
        }
        let (sessions, items) =
            (counted(report.session_count, "session"), counted(report.item_count, "item"));
        let verdict = if report.is_clean() { styled(GREEN, "clean") } else { styled(RED, "damaged") };
        output::print(&format!("{text}{sessions}, {items}: {verdict}\n"))?;
    }
    Ok(if report.is_clean() { Exit::Success } else { Exit::Negative })
}

/// Whether sessions may be removed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    Given,
    Asked,
    DryRun,
}

/// Refused where a session is to be kept that is not there: a mistyped id would let it go.
async fn retention(
    store: &Arc<dyn Store>,
    older_than: Option<u32>,
    keep: &[String],
) -> Result<Retention, Failure> {
    let before = |days: u32| Timestamp(SystemClock.now().0.saturating_sub(i64::from(days) * DAY_MILLIS));
    let mut retention = Retention { changed_before: older_than.map(before), keep: Vec::new() };
    for id in keep {
        retention.keep.push(store::find(store, id).await?);
    }
    Ok(retention)
}

/// The sessions that this lets go.
async fn let_go(store: &dyn Store, retention: &Retention) -> Result<Vec<SessionId>, Failure> {
    let Some(before) = retention.changed_before else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    loop {
        let page = store.sessions(&Page { skip: found.len(), limit: PAGE_SESSIONS }).await?;
        let is_last = page.len() < PAGE_SESSIONS;
        found.extend(page);
        if is_last {
            break;
        }
    }
    let is_let_go = |info: &SessionInfo| info.updated_at < before && !retention.keep.contains(&info.id);
    Ok(found.into_iter().filter(is_let_go).map(|info| info.id).collect())
}

/// Asks the person whether so many sessions may go.
fn agree(count: usize) -> Result<bool, Failure> {
    let what = format!("this removes {} for good", counted(count, "session"));
    terminal::agree(&what, "look at them with --dry-run, and then say --yes")
}

async fn gc(
    shared: &Shared,
    store: &Arc<dyn Store>,
    retention: &Retention,
    consent: Consent,
) -> Result<Exit, Failure> {
    let found = let_go(&**store, retention).await?;
    if consent == Consent::DryRun {
        match shared.json {
            true => output::print_json(&json!({"sessions": found, "dry_run": true}))?,
            false => {
                let names: String = found.iter().map(|id| format!("{}\n", harmless(id.as_str()))).collect();
                output::print(&format!("{names}{} would be removed\n", counted(found.len(), "session")))?;
            }
        }
        return Ok(Exit::Success);
    }
    if consent == Consent::Asked && !found.is_empty() && !agree(found.len())? {
        output::print("nothing was removed\n")?;
        return Ok(Exit::Negative);
    }
    let report = store.gc(retention).await?;
    match shared.json {
        true => output::print_json(&json!({"sessions": report.sessions, "bodies": report.body_count}))?,
        false => output::print(&format!(
            "{} and {} removed\n",
            counted(report.sessions.len(), "session"),
            match report.body_count {
                1 => "1 body".to_owned(),
                count => format!("{count} bodies"),
            },
        ))?,
    }
    Ok(Exit::Success)
}
