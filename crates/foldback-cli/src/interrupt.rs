//! The key that interrupts.

/// Presses of ctrl-C since it was made. One that is waited for again and again, and not made anew,
/// misses none that comes while something else is done.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Interrupts {
    pub(crate) fn new() -> Self {
        Self {
            // Where the system does not let a program listen, the key ends it, as it does others.
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).ok(),
        }
    }

    /// Waits for the key.
    pub(crate) async fn pressed(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_ok() {
            return;
        }
        std::future::pending().await
    }
}
