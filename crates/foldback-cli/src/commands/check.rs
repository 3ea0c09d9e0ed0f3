//! Follows.

use crate::args::{Check, Shared};
use crate::failure::{Exit, Failure};

pub(crate) fn run(_shared: &Shared, _arguments: &Check) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
