//! Follows.

use crate::args::{Shared, Show};
use crate::failure::{Exit, Failure};

pub(crate) fn run(_shared: &Shared, _arguments: &Show) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
