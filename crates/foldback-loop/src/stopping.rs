//! Work that ends soon after it is told to.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// What `work` comes to; `None` where it has not ended `grace` after the token was cancelled.
pub(crate) async fn or_stopped<T>(
    work: impl Future<Output = T>,
    token: &CancellationToken,
    grace: Duration,
) -> Option<T> {
    let stopped = async {
        token.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        biased;
        result = work => Some(result),
        () = stopped => None,
    }
}
