//! Follows.

use crate::args::{Diff, Shared};
use crate::failure::{Exit, Failure};

pub(crate) fn run(_shared: &Shared, _arguments: &Diff) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
