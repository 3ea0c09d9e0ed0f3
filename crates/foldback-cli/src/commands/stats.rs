//! Follows.

use crate::args::{Shared, Stats};
use crate::failure::{Exit, Failure};

pub(crate) fn run(_shared: &Shared, _arguments: &Stats) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
