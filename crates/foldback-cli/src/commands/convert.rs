//! Follows.

use crate::args::{Convert, Shared};
use crate::failure::{Exit, Failure};

pub(crate) fn run(_shared: &Shared, _arguments: &Convert) -> Result<Exit, Failure> {
    Ok(Exit::Success)
}
