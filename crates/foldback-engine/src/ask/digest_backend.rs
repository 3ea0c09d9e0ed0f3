//! A backend that needs no model: the digest.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{Item, ItemKind, Tokens, Transcript, digest_of};
use tokio_util::sync::CancellationToken;

use crate::backend::{BackendError, CompactionBackend, SummaryRequest, SummaryResult};

/// What a digest may cost where nobody says.
const TOKENS_MAX_DEFAULT: Tokens = Tokens(2_000);

/// What an item costs beside its text.
const ITEM_OVERHEAD: Tokens = Tokens(foldback_core::tokens::ITEM_OVERHEAD_TOKENS);

/// Writes summaries without a model: quotations and counts, chosen for what is likely to be needed
/// again.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestBackend;

#[async_trait]
impl CompactionBackend for DigestBackend {
    async fn summarize(
        &self,
        request: SummaryRequest,
        cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        if cancellation.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        if let Some(digest) = request.digest {
            return Ok(SummaryResult { items: vec![(*digest).clone()], ..SummaryResult::default() });
        }
        let tokens_max = request.tokens_max.unwrap_or(TOKENS_MAX_DEFAULT).saturating_sub(ITEM_OVERHEAD);
        let items: Vec<Arc<Item>> = request.previous.into_iter().chain(request.items).collect();
        let transcript = Transcript::default();
        let text = digest_of(&items, tokens_max, transcript.meter())
            .unwrap_or_else(|| format!("[{} items folded]", items.len()));
        let item = Item::text("summary-digest", ItemKind::Context, text);
        Ok(SummaryResult { items: vec![item], ..SummaryResult::default() })
    }

    fn name(&self) -> &str {
        "digest"
    }

    fn reads_items(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{CompactionReason, Part};

    async fn summarize(request: SummaryRequest) -> Item {
        let result = DigestBackend.summarize(request, CancellationToken::new()).await.unwrap();
        result.items.into_iter().next().unwrap()
    }

    #[tokio::test]
    async fn items_without_a_fold_are_digested_within_the_size_asked_for() {
        let items: Vec<Arc<Item>> = (0..200)
            .map(|n| {
                Arc::new(Item::user(format!("u{n}"), format!("Never touch file_{n}.rs, it is generated.")))
            })
            .collect();
        let meter = Transcript::default().meter().clone();
        for tokens_max in [20, 200, 1_000] {
            let mut request = SummaryRequest::new("s", items.clone(), CompactionReason::Manual);
            request.tokens_max = Some(Tokens(tokens_max));
            let item = summarize(request).await;
            assert!(meter.item(&item).total <= Tokens(tokens_max), "{item:?}");
            assert!(tokens_max < 1_000 || format!("{item:?}").contains("Never touch file_199.rs"));
        }
    }

    #[tokio::test]
    async fn a_digest_that_was_made_already_is_returned_as_it_is() {
        let mut request = SummaryRequest::new("s", Vec::<Item>::new(), CompactionReason::Manual);
        let digest = Item::new("d", ItemKind::Context, vec![Part::text("already there")]);
        request.digest = Some(Arc::new(digest.clone()));
        assert_eq!(summarize(request).await, digest);
    }
}
