//! `foldback` on the command line.
//!
//! The only place that reads the environment and the configuration, opens files and prints (A4).
//! Data goes to stdout, everything else to stderr.

mod agents;
mod aim;
mod args;
mod axis;
mod backend;
mod commands;
mod config;
mod counting;
mod failure;
mod input;
mod interrupt;
mod lab;
mod model;
mod output;
mod picture;
mod places;
mod plain;
mod policy;
mod provider;
mod requests;
mod scene;
mod stats;
mod staying;
mod store;
mod summarizer;
mod svg;
mod terminal;
mod turns;
mod values;
mod written;

use std::process::ExitCode;

use clap::builder::Styles;
use clap::{CommandFactory, Parser};

use crate::args::hook::HookCommand;
use crate::args::{Arguments, Command, Shared};
use crate::commands::policies::Shape;
use crate::commands::undo::Way;
use crate::config::Config;
use crate::failure::{Exit, Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    terminal::tell_panics();
    let done = match Arguments::try_parse() {
        Ok(arguments) => run(arguments),
        Err(answer) if answer.use_stderr() => {
            tell_mistake(&answer);
            Ok(Exit::Usage)
        }
        // Help and version are data: a disk that is full must not go unnoticed.
        Err(answer) => output::print(&own_words(&answer)).map(|()| Exit::Success),
    };
    match done {
        Ok(exit) => exit.into(),
        // Whoever reads along has seen enough.
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            failure.exit().into()
        }
    }
}

/// An answer of the command line that repeats nothing of what was typed.
fn own_words(answer: &clap::Error) -> String {
    terminal::of_our_own(&answer.render().ansi().to_string())
}

/// Says what is wrong with the command line. What was typed may have been a file's name, with anything in it:
/// it is read again without styles, so that every style in the message is somebody else's.
fn tell_mistake(answer: &clap::Error) {
    let plain = Arguments::command().styles(Styles::plain()).try_get_matches();
    let told = plain.err().map(|plain| plain.render().ansi().to_string()).unwrap_or_default();
    match told.strip_prefix("error: ") {
        Some(what) => {
            terminal::whisper(&format!("{} {what}", terminal::styled(terminal::ERROR, "error:")));
        }
        // The help, for whoever named no command.
        None => terminal::whisper(&own_words(answer)),
    }
}

fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { mut command, shared } = arguments;
    agents::fill(&shared, &mut command)?;
    // What needs no settings works whatever they are.
    let settings = |shared: Shared| {
        let config = Config::load(&shared)?;
        config.under(shared).map(|shared| (config, shared))
    };
    match command {
        Command::Compact(compact) => {
            let (config, shared) = settings(shared)?;
            commands::compact::run(&shared, &config.compact_under(compact)?)
        }
        Command::Stats(stats) => commands::stats::run(&settings(shared)?.1, &stats),
        Command::Check(check) => commands::check::run(&settings(shared)?.1, &check),
        Command::Show(show) => commands::show::run(&settings(shared)?.1, &show),
        Command::Convert(convert) => commands::convert::run(&settings(shared)?.1, &convert),
        Command::Diff(diff) => commands::diff::run(&settings(shared)?.1, &diff),
        Command::Undo(undo) => commands::undo::run(&settings(shared)?.1, &undo, Way::Undo),
        Command::Redo(redo) => commands::undo::run(&settings(shared)?.1, &redo, Way::Redo),
        Command::Status(status) => {
            let (config, shared) = settings(shared)?;
            commands::status::run(&shared, &config.status_under(status)?)
        }
        Command::Log(log) => commands::log::run(&settings(shared)?.1, &log),
        Command::Policies { policy, toml } => {
            let shape = if toml { Shape::File } else { Shape::Explained };
            commands::policies::run(&shared, policy.as_deref(), shape)
        }
        Command::Replay(replay) => {
            let (config, shared) = settings(shared)?;
            commands::replay::run(&shared, &config.replay_under(replay)?)
        }
        Command::Eval(eval) => {
            let (config, shared) = settings(shared)?;
            commands::eval::run(&shared, &config.eval_under(eval)?)
        }
        Command::Probe(probe) => {
            let (config, shared) = settings(shared)?;
            commands::probe::run(&shared, &config.probe_under(probe)?)
        }
        Command::Explain(explain) => {
            let (config, shared) = settings(shared)?;
            commands::explain::run(&shared, &config.explain_under(explain)?)
        }
        Command::Chat(chat) => {
            let config = Config::load(&shared)?;
            let chat = config.chat_under(chat, shared.model.clone())?;
            commands::chat::run(&config.under(shared)?, &chat)
        }
        Command::Session(session) => {
            let (config, shared) = settings(shared)?;
            commands::session::run(&config, &shared, session)
        }
        Command::Import(import) => commands::import::run(&settings(shared)?.1, &import),
        Command::Recall(recall) => commands::recall::run(&settings(shared)?.1, &recall),
        Command::Search(search) => commands::search::run(&settings(shared)?.1, &search),
        Command::Store(store) => commands::store::run(&settings(shared)?.1, &store),
        Command::Trust(trust) => commands::trust::run(&shared, &trust),
        Command::Mcp(mcp) => commands::mcp::run(&mcp),
        Command::Install(install) => commands::install::install(&shared, &install),
        Command::Uninstall(uninstall) => commands::install::uninstall(&shared, &uninstall),
        Command::Doctor(doctor) => commands::install::doctor(&shared, &doctor),
        Command::Hook(hook) => match hook.command {
            HookCommand::Compact(compact) => commands::hook::compact(&shared, &compact),
            HookCommand::Recall => commands::hook::recall(&shared),
            HookCommand::Shorten => commands::hook::shorten(&shared),
            HookCommand::Schema => commands::hook::schema(),
        },
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man { command, output } => commands::man::run(command.as_deref(), output.as_deref()),
    }
}
