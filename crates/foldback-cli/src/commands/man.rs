//! `foldback man`: the manual, a page for the program and one for each command.

use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Arguments, VERSION};
use crate::failure::{Exit, Failure};
use crate::output::{self, Readers};
use crate::values::similar;

pub(crate) fn run(command: Option<&str>, folder: Option<&Path>) -> Result<Exit, Failure> {
    let pages = pages(command)?;
    match folder {
        None => {
            let texts: Vec<&[u8]> = pages.iter().map(|page| page.text.as_slice()).collect();
            output::to_stdout(&texts)?;
        }
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| Failure::Write {
                path: folder.to_owned(),
                error,
                hint: Some("name a folder for the pages".to_owned()),
            })?;
            for page in &pages {
                output::to_file(&folder.join(&page.file), &page.text, Readers::Anybody)?;
            }
        }
    }
    Ok(Exit::Success)
}

struct Page {
    file: String,
    text: Vec<u8>,
}

impl Page {
    fn of(command: &clap::Command) -> Result<Self, Failure> {
        let man = Man::new(command.clone()).source(format!("foldback {VERSION}"));
        let mut text = Vec::new();
        man.render(&mut text).map_err(Failure::stdout)?;
        Ok(Self { file: man.get_filename(), text })
    }
}

/// The program's page and those of its commands, or the one that is asked for.
fn pages(command: Option<&str>) -> Result<Vec<Page>, Failure> {
    let mut program = Arguments::command();
    program.build();
    let Some(name) = command else {
        return std::iter::once(&program).chain(program.get_subcommands()).map(Page::of).collect();
    };
    let Some(found) = program.find_subcommand(name) else {
        let names: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        let meant = similar(name, names.iter().copied()).unwrap_or("compact");
        return Err(Failure::usage(
            format!("there is no command {name}"),
            format!("did you mean {meant}? There are {}", names.join(", ")),
        ));
    };
    Ok(vec![Page::of(found)?])
}
