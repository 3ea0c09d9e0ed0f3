//! `foldback` on the command line.
//!
//! The only place that reads the environment and the configuration, opens files and prints (A4).
//! Data goes to stdout, everything else to stderr.
#![allow(clippy::print_stderr, reason = "a program on a command line reports there")]

mod args;
mod commands;
mod config;
mod counting;
mod failure;
mod input;
mod output;
mod picture;
mod scene;
mod stats;
mod svg;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::config::Config;
use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = Config::load(&arguments.shared).and_then(|config| {
        let shared = config.under(arguments.shared);
        match arguments.command {
            Command::Compact(compact) => commands::compact::run(&shared, &config.compact_under(compact)),
            Command::Stats(stats) => commands::stats::run(&shared, &stats),
            Command::Check(check) => commands::check::run(&shared, &check),
            Command::Show(show) => commands::show::run(&shared, &show),
            Command::Convert(convert) => commands::convert::run(&shared, &convert),
            Command::Diff(diff) => commands::diff::run(&shared, &diff),
            Command::Completions { shell } => commands::completions::run(shell),
            Command::Man { command } => commands::man::run(command.as_deref()),
        }
    });
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
