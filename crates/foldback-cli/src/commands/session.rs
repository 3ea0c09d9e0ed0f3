//! `foldback session`: sessions in the store, their versions and branches.

mod compact;
mod export;
pub(crate) mod import;
mod list;

use std::sync::Arc;

use foldback_core::{Item, LoopId, Metadata, Repair, Transcript};
use foldback_engine::Store;
use foldback_engine::session::{CompactionConfig, SessionContext, StoredSession};
use foldback_engine::store::{LoopInfo, Origin, SessionInfo};
use foldback_formats::{Format, Sent, write};
use serde::Serialize;

use crate::args::Shared;
use crate::args::sessions::{SessionArgs, SessionCommand, SessionCompact};
use crate::commands::log;
use crate::config::Config;
use crate::counting;
use crate::failure::{Exit, Failure};
use crate::output::{self, Readers};
use crate::requests::{tell_waiting, unanswered_calls};
use crate::store::{self, time};
use crate::terminal::{STRONG, counted, note, styled};

pub(crate) fn run(config: &Config, shared: &Shared, arguments: SessionArgs) -> Result<Exit, Failure> {
    let command = match arguments.command {
        SessionCommand::Compact(compact) => {
            let how = config.session_under(compact.how)?;
            SessionCommand::Compact(SessionCompact { how, ..compact })
        }
        SessionCommand::Work(how) => SessionCommand::Work(config.session_under(how)?),
        command => command,
    };
    store::block_on(async {
        let store = match &command {
            SessionCommand::Import(_) => store::open(&arguments.at).await?,
            _ => store::open_existing(&arguments.at).await?,
        };
        dispatch(shared, &store, &command).await
    })
}

async fn dispatch(
    shared: &Shared,
    store: &Arc<dyn Store>,
    command: &SessionCommand,
) -> Result<Exit, Failure> {
    match command {
        SessionCommand::Import(import) => return import::run(shared, store, import).await,
        SessionCommand::List { limit } => list::run(shared, store, *limit).await?,
        SessionCommand::Show { id } => show(shared, store, id).await?,
        SessionCommand::Log { id } => log::of_session(shared, store, id).await?,
        SessionCommand::Context { id, dialect, window } => {
            let config = CompactionConfig { dialect: *dialect, ..CompactionConfig::default() };
            let session = counting_session(shared, store, id).await?;
            let context = session.context(&config, *window).await?;
            print_context(shared, &context, dialect.map(|dialect| dialect.as_str()))?;
        }
        SessionCommand::Compact(arguments) if arguments.later => {
            compact::later(shared, store, arguments).await?
        }
        SessionCommand::Compact(arguments) => compact::now(shared, store, arguments).await?,
        SessionCommand::Work(how) => return compact::work(shared, store, how).await,
        SessionCommand::Fork { id, items, loop_id } => {
            let mut session = store::session(store, id).await?;
            let from = loop_id.as_deref().map_or_else(|| session.current().clone(), LoopId::from);
            let branch = session.fork(&from, *items).await?;
            told(shared, id, &branch, "goes on in")?;
        }
        SessionCommand::Rewind { id, items } => {
            let branch = store::session(store, id).await?.rewind(*items).await?;
            told(shared, id, &branch, "was taken back, and goes on in")?;
        }
        SessionCommand::Undo { id } => {
            let mut session = store::session(store, id).await?;
            session.undo().await?;
            told(shared, id, session.current(), "shows what it showed before its newest compaction, in")?;
        }
        SessionCommand::Redo { id } => {
            let mut session = store::session(store, id).await?;
            session.redo().await?;
            told(shared, id, session.current(), "has its compaction in force again, in")?;
        }
        SessionCommand::Export { id, format, from, output } => {
            let bytes = export::run(shared, store, id, *format, *from).await?;
            match output {
                Some(path) => output::to_file(path, &bytes, Readers::Owner)?,
                None => output::to_stdout(&[&bytes])?,
            }
        }
        SessionCommand::Delete { id } => {
            let id = store::find(store, id).await?;
            store.delete(&id).await?;
            if !shared.quiet {
                note(&format!("{id} is gone, and its handles with it"));
            }
        }
    }
    Ok(Exit::Success)
}

fn told(shared: &Shared, id: &str, loop_id: &LoopId, what: &str) -> Result<(), Failure> {
    match shared.json {
        true => output::print_json(&serde_json::json!({"session": id, "loop": loop_id})),
        false => output::print(&format!("{} {what} loop {loop_id}\n", styled(STRONG, id))),
    }
}

async fn counting_session(
    shared: &Shared,
    store: &Arc<dyn Store>,
    id: &str,
) -> Result<StoredSession, Failure> {
    let counting = Transcript::new(counting::counter(shared));
    Ok(store::session(store, id).await?.counting_as(&counting))
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    version: u64,
    current_loop: &'a str,
    created_at: String,
    updated_at: String,
    metadata: &'a Metadata,
    loops: Vec<ShownLoop<'a>>,
}

#[derive(Serialize)]
struct ShownLoop<'a> {
    id: &'a str,
    origin: &'a Origin,
    items: usize,
    original_bytes: u64,
    created_at: String,
}

async fn show(shared: &Shared, store: &Arc<dyn Store>, id: &str) -> Result<(), Failure> {
    let session_id = store::find(store, id).await?;
    let id = session_id.as_str();
    let info: SessionInfo = store.session(&session_id).await?;
    let loops: Vec<LoopInfo> = store.loops(&session_id).await?;
    if shared.json {
        return output::print_json(&Shown {
            id,
            version: info.version.0,
            current_loop: &info.current_loop,
            created_at: time(info.created_at),
            updated_at: time(info.updated_at),
            metadata: &info.metadata,
            loops: loops.iter().map(shown_loop).collect(),
        });
    }
    let mut text = format!(
        "{}, changed {}; its loops, one after the other or as branches (* goes on):\n",
        styled(STRONG, id),
        time(info.updated_at)
    );
    for each in &loops {
        let origin = match &each.origin {
            Origin::Root => "the beginning".to_owned(),
            Origin::After(parent) => format!("goes on after {parent}"),
            Origin::Branch { parent, item_count } => {
                format!("branches off {parent} behind its item {item_count}")
            }
        };
        let mark = if each.id == info.current_loop { "*" } else { " " };
        let items = counted(each.item_count, "item");
        text.push_str(&format!("{mark} {}  {items}, {origin}  {}\n", each.id, time(each.created_at)));
    }
    output::print(&text)
}

fn shown_loop(each: &LoopInfo) -> ShownLoop<'_> {
    ShownLoop {
        id: &each.id,
        origin: &each.origin,
        items: each.item_count,
        original_bytes: each.original_bytes,
        created_at: time(each.created_at),
    }
}

#[derive(Serialize)]
struct Context<'a> {
    tokens: u64,
    items: Vec<&'a Item>,
    repairs: &'a [Repair],
}

fn print_context(shared: &Shared, context: &SessionContext, dialect: Option<&str>) -> Result<(), Failure> {
    if let Some(dialect) = dialect {
        let format: Format = dialect.parse().expect("every dialect is a format of requests");
        let written = write(format, &Sent::new(context.items.iter().cloned()), None);
        let failed = |error| Failure::Format { path: "context".into(), error };
        if !shared.quiet {
            tell_waiting("context", unanswered_calls(context.items.iter(), format.dialect()), format);
        }
        return output::to_stdout(&[&written.map_err(failed)?.to_bytes(), b"\n"]);
    }
    if shared.json {
        let items = context.items.iter().map(|item| &**item).collect();
        return output::print_json(&Context { tokens: context.tokens.0, items, repairs: &context.repairs });
    }
    let mut transcript = Transcript::new(counting::counter(shared));
    transcript.extend(context.items.iter().cloned());
    output::print(&transcript.shape())
}
