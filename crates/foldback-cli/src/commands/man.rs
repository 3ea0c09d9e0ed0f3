//! `foldback man`: the manual page, of the program or of one command.

use clap::CommandFactory;

use crate::args::{Arguments, similar};
use crate::failure::{Exit, Failure};
use crate::output;

pub(crate) fn run(command: Option<&str>) -> Result<Exit, Failure> {
    let mut program = Arguments::command();
    program.build();
    let page = match command {
        None => clap_mangen::Man::new(program),
        Some(name) => {
            let Some(found) = program.find_subcommand(name) else {
                let names: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
                let meant = similar(name, names.iter().copied()).unwrap_or("compact");
                return Err(Failure::usage(
                    format!("there is no command {name}"),
                    format!("did you mean {meant}? There are {}", names.join(", ")),
                ));
            };
            clap_mangen::Man::new(found.clone()).title(format!("foldback-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::stdout)?;
    output::to_stdout(&[&text])?;
    Ok(Exit::Success)
}
