//! `foldback completions`: a script for a shell.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::Arguments;
use crate::failure::{Exit, Failure};
use crate::output;

pub(crate) fn run(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "foldback", &mut script);
    output::to_stdout(&[&script])?;
    Ok(Exit::Success)
}
