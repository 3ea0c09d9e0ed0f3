//! `foldback hook`: one JSON object on stdin, one on stdout, for modules that live in an agent.
//!
//! `docs/hook.md` is the contract. A module never has to read stderr or an exit code: whatever happens, the
//! answer says so, and `result` is `failed` where the agent should go on by itself.

mod answer;
mod compact;
mod fold;
mod messages;
mod recall;
mod request;
mod shorten;

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::Shared;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output;

pub(crate) use compact::run as compact;
pub(crate) use recall::run as recall;
pub(crate) use shorten::run as shorten;

/// The version of the contract.
const VERSION: u32 = 1;

/// The longest request that is read. A conversation of a million tokens is a few megabytes.
const REQUEST_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The contract in JSON Schema.
const SCHEMA: &str = include_str!("hook/schema.json");

pub(crate) fn schema() -> Result<Exit, Failure> {
    output::to_stdout(&[SCHEMA.as_bytes()])?;
    Ok(Exit::Success)
}

/// The answer to a request that could not be followed.
#[derive(Serialize)]
struct Failed {
    version: u32,
    result: &'static str,
    /// What went wrong and what to do, in one line.
    why: String,
}

/// Answers the request on stdin. A failure is an answer too.
fn answered<Q: DeserializeOwned, A: Serialize>(
    answer: impl FnOnce(Q) -> Result<A, Failure>,
) -> Result<Exit, Failure> {
    match request().and_then(answer) {
        Ok(answer) => output::print_json(&answer).map(|()| Exit::Success),
        Err(Failure::BrokenPipe) => Err(Failure::BrokenPipe),
        Err(failure) => {
            let why =
                [Some(failure.what()), failure.hint()].into_iter().flatten().collect::<Vec<_>>().join("; ");
            output::print_json(&Failed { version: VERSION, result: "failed", why })?;
            Ok(failure.exit())
        }
    }
}

fn request<Q: DeserializeOwned>() -> Result<Q, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(REQUEST_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Read { path: "stdin".into(), error, hint: None })?;
    if bytes.len() as u64 > REQUEST_BYTES_MAX {
        let what = format!("the request is longer than {} MiB", REQUEST_BYTES_MAX >> 20);
        return Err(Failure::usage(what, "name the session file instead of sending its messages"));
    }
    let mistake = |error: serde_json::Error| {
        Failure::usage(
            format!("stdin is no request: {error}"),
            "`foldback hook schema` prints what is expected",
        )
    };
    let Version { version } = serde_json::from_slice(&bytes).map_err(mistake)?;
    if version != VERSION {
        return Err(Failure::usage(
            format!("the request is of version {version}, and this foldback speaks version {VERSION}"),
            "run `foldback install` again, so that the module and the program are of one release",
        ));
    }
    serde_json::from_slice(&bytes).map_err(mistake)
}

#[derive(serde::Deserialize)]
struct Version {
    version: u32,
}

/// The settings of the person, as every command has them. What is wrong with a configuration is an answer, too.
pub(crate) fn settings(shared: Shared) -> Result<(Config, Shared), Failure> {
    let config = Config::load(&shared)?;
    let shared = config.under(shared)?;
    Ok((config, Shared { quiet: true, ..shared }))
}
