//! Pieces as chunks of about the same size, each of which fits one call.

use std::sync::Arc;

use foldback_core::{Item, Tokens};

use super::piece::{Piece, total};

/// The summary of a chunk is asked to have at least this much: less says nothing.
pub(super) const CHUNK_SUMMARY_TOKENS_MIN: u64 = 128;

/// How much fits all calls of one fold, if `call` fits one: as many chunks as there are calls for,
/// of which the summaries fit one call again, and no more than `chunks_max`.
pub(super) fn all_calls(call: Tokens, chunks_max: usize) -> Tokens {
    let chunks_max = (call.0 / CHUNK_SUMMARY_TOKENS_MIN).min(chunks_max as u64);
    // Two neighbouring chunks are together larger than the mean: see `chunks`.
    Tokens(call.0.saturating_mul((chunks_max.saturating_sub(1) / 2).max(1)))
}

/// Packs pieces, none of which is larger than `call`, into chunks that are not either. Every piece is
/// in exactly one chunk, in order.
pub(super) fn chunks(pieces: Vec<Piece>, call: Tokens) -> Vec<Vec<Arc<Item>>> {
    let all = total(&pieces);
    let count = all.0.div_ceil(call.0.max(1)).max(1);
    let mean = Tokens(all.0.div_ceil(count));
    let mut chunks: Vec<Vec<Arc<Item>>> = vec![Vec::new()];
    let mut tokens = Tokens::ZERO;
    for piece in pieces {
        let is_full = tokens + piece.tokens > call || tokens >= mean;
        match chunks.last_mut() {
            Some(chunk) if chunk.is_empty() || !is_full => {
                chunk.extend(piece.items);
                tokens += piece.tokens;
            }
            _ => {
                chunks.push(piece.items);
                tokens = piece.tokens;
            }
        }
    }
    chunks
}
