//! Where the originals of shortened outputs go.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use foldback_core::{CallId, SessionId};

use crate::telemetry;

/// Where the originals of shortened outputs go. In either case they stay in the record as well.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Spill {
    /// Nowhere: the handle of the fold recalls them.
    #[default]
    Handle,
    /// Into files that the host writes.
    File(Arc<dyn SpillSink>),
}

impl Spill {
    /// Into files that this sink writes.
    pub fn to(sink: impl SpillSink + 'static) -> Self {
        Self::File(Arc::new(sink))
    }

    /// The line that says where the original is, beside the handle; none where there is no file. A sink that
    /// fails stops nothing: the handle is there.
    pub(super) fn line_for(&self, output: &SpilledOutput<'_>) -> Option<String> {
        let Self::File(sink) = self else { return None };
        match sink.spill(output) {
            Ok(path) => Some(format!("[the whole output is in {}]\n", path.display())),
            Err(error) => {
                telemetry::not_spilled(output.call_id, &error);
                None
            }
        }
    }
}

impl PartialEq for Spill {
    /// Two sinks are equal if they are the same one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Handle, Self::Handle) => true,
            (Self::File(one), Self::File(other)) => Arc::ptr_eq(one, other),
            (Self::Handle | Self::File(_), _) => false,
        }
    }
}

/// A tool output that the summariser sees the end of only.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SpilledOutput<'o> {
    /// Whose conversation it is.
    pub session_id: &'o SessionId,
    /// The call that it answers.
    pub call_id: &'o CallId,
    /// All of it, without its secrets.
    pub text: &'o str,
}

/// Writes outputs into files for [`Spill::File`]. Every closure from a [`SpilledOutput`] to a path is one.
///
/// Implementors guarantee: the file under the path they give holds the text; a request that is asked again
/// spills the same outputs again, and the same output gets the same path. The work is done on a thread that
/// may block, unless the conversation is small.
pub trait SpillSink: Send + Sync {
    /// Writes the output, and says where.
    fn spill(&self, output: &SpilledOutput<'_>) -> io::Result<PathBuf>;
}

impl<F: Fn(&SpilledOutput<'_>) -> io::Result<PathBuf> + Send + Sync> SpillSink for F {
    fn spill(&self, output: &SpilledOutput<'_>) -> io::Result<PathBuf> {
        self(output)
    }
}

impl fmt::Debug for dyn SpillSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sink")
    }
}
