//! Pre-trim: what the summariser is shown is made to fit before it is sent.
//!
//! Nothing here affects what survives a compaction: only what its summary is written from.

use std::sync::Arc;

use foldback_core::placeholder::{HeadPercent, shorten_to_limits};
use foldback_core::{
    Handle, Item, Level, Meter, Part, ResultPart, SessionId, Timestamp, Tokens, ToolResult, Transcript,
};

use super::piece::{Piece, changed, left_out_item, pieces, readable, shrunk, text_of, total};
pub use spill::{Spill, SpillSink, SpilledOutput};

mod spill;

/// What is said of items that are left out costs less than this.
const LEFT_OUT_TOKENS_MAX: Tokens = Tokens(32);

/// How what the summariser is shown is made to fit: moves in the host's order.
///
/// Nothing is done where one call holds everything. Else the moves are carried out one after the other
/// until it does. Moves that shorten outputs work towards one call. Moves that take more away begin
/// where all calls together ([`SummaryLimits::chunks_max`]) hold too little, and stop where they hold
/// enough.
///
/// Whatever the moves leave, no request is longer than a window that is known: a single item larger than
/// a call is shortened, then agent items go, the newest first, and the user's messages are shortened
/// after that.
///
/// ```
/// use foldback_core::{Level, Tokens};
/// use foldback_engine::{PreTrim, PreTrimMove, Spill, SpilledOutput, StrategyCompactor, SummaryLimits};
///
/// // As Codex does: one request for everything, and the oldest items go where it is refused.
/// let pre_trim = PreTrim::new([PreTrimMove::DropOldestAndRetry { retries_max: 4 }]);
/// let as_codex = SummaryLimits { pre_trim, chunks_max: 1, ..SummaryLimits::default() };
///
/// // Outputs cut to their last 40 lines, the whole of each in a file.
/// let folder = std::env::temp_dir();
/// let spill = Spill::to(move |output: &SpilledOutput<'_>| {
///     let path = folder.join(format!("{}.txt", output.call_id));
///     std::fs::write(&path, output.text)?;
///     Ok(path)
/// });
/// let lines = PreTrimMove::KeepLastLines { lines_max: 40, tokens_max: Tokens(2_000), spill };
/// let cap = PreTrimMove::CapOutputs { tokens_max: Level::PercentOfWindow(25.0) };
/// let pre_trim = PreTrim::new([lines, cap]);
/// let builder = StrategyCompactor::builder().limits(SummaryLimits { pre_trim, ..as_codex });
/// # let _ = builder;
/// ```
///
/// [`SummaryLimits::chunks_max`]: super::SummaryLimits::chunks_max
#[derive(Clone, Debug, PartialEq)]
pub struct PreTrim {
    moves: Vec<PreTrimMove>,
}

/// One way to make smaller what the summariser is shown.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PreTrimMove {
    /// Keeps the last lines of every tool output, and lines before them that look like errors. A line
    /// above them says where the original is.
    KeepLastLines {
        /// So many lines at most.
        lines_max: usize,
        /// And so many tokens: lines may be long.
        tokens_max: Tokens,
        /// Where the originals go.
        spill: Spill,
    },
    /// Caps all tool outputs together. The newest are kept; of an older one stands a line, with its
    /// handle and the time it was cleared.
    CapOutputs {
        /// Tokens, a share of the window of the backend, or a share of what one call holds.
        tokens_max: Level,
    },
    /// Clears outputs, the oldest first, until all calls together hold the rest. Of each stands a line,
    /// with its handle and the time it was cleared: what was cleared can be recalled.
    ClearOldOutputs {
        /// So many of the newest outputs are never cleared by this move.
        keep: usize,
    },
    /// Where the backend refuses a request for its length, asks again with requests of half the size. Items
    /// that no longer fit are dropped, the oldest first; the user's messages stay as long as an agent item
    /// is left. Without this move a refusal for length is the end, and the digest answers.
    DropOldestAndRetry {
        /// How often it is asked again.
        retries_max: u32,
    },
    /// Drops agent items, the newest first, until the rest fits: what is newest is told by what stays
    /// visible as well. The user's messages stay.
    DropAgentNewestFirst,
}

impl PreTrim {
    /// These moves, in this order.
    pub fn new(moves: impl IntoIterator<Item = PreTrimMove>) -> Self {
        Self { moves: moves.into_iter().collect() }
    }

    /// The moves, in order.
    pub fn moves(&self) -> &[PreTrimMove] {
        &self.moves
    }

    /// How often it is asked again where the backend refuses a request for its length.
    pub(super) fn retries_max(&self) -> u32 {
        let retries = self.moves.iter().map(|a_move| match a_move {
            PreTrimMove::DropOldestAndRetry { retries_max } => *retries_max,
            PreTrimMove::KeepLastLines { .. }
            | PreTrimMove::CapOutputs { .. }
            | PreTrimMove::ClearOldOutputs { .. }
            | PreTrimMove::DropAgentNewestFirst => 0,
        });
        retries.max().unwrap_or(0)
    }

    /// The items as pieces, each of which fits one call and which together fit all calls.
    pub(super) fn fit<'i>(
        &self,
        items: impl IntoIterator<Item = &'i Arc<Item>>,
        room: &Room,
        like: &Transcript,
    ) -> Vec<Piece> {
        let pieces = pieces(items.into_iter().filter_map(readable), like);
        let mut shown = Shown { pieces, left_out: 0, room, meter: like.meter() };
        for a_move in &self.moves {
            if total(&shown.pieces) <= room.call {
                break;
            }
            shown.make(a_move);
        }
        shown.fitting()
    }
}

impl Default for PreTrim {
    /// All moves, from what costs a summary least to what costs it most: outputs keep their last 50 lines
    /// within 2,000 tokens, the originals behind their handle; all outputs together keep 50,000 tokens; old
    /// ones are cleared except the newest 3; a refused request is tried again up to 4 times without the
    /// oldest; agent items go, the newest first.
    fn default() -> Self {
        Self::new([
            PreTrimMove::KeepLastLines { lines_max: 50, tokens_max: Tokens(2_000), spill: Spill::Handle },
            PreTrimMove::CapOutputs { tokens_max: Level::Tokens(Tokens(50_000)) },
            PreTrimMove::ClearOldOutputs { keep: 3 },
            PreTrimMove::DropOldestAndRetry { retries_max: 4 },
            PreTrimMove::DropAgentNewestFirst,
        ])
    }
}

/// How much a summariser may be shown, and of what.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// In one call.
    pub(super) call: Tokens,
    /// In all calls together; at least as much as in one.
    pub(super) all: Tokens,
    /// What the backend holds: shares are of it.
    pub(super) window: Tokens,
    /// Whether the backend has refused a longer request.
    pub(super) is_retry: bool,
    /// Recalls what is left out.
    pub(super) handle: Handle,
    pub(super) session_id: SessionId,
    /// When something is cleared that is cleared now.
    pub(super) now: Timestamp,
}

impl Room {
    fn level(&self, level: Level) -> Tokens {
        let share = |of: Tokens, percent: f64| of.scaled_down(percent.clamp(0.0, 100.0) / 100.0);
        match level {
            Level::Tokens(tokens) => tokens,
            Level::PercentOfUsable(percent) => share(self.call, percent),
            Level::PercentOfWindow(percent) => share(self.window, percent),
        }
    }
}

/// From which end something is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    NewestFirst,
    OldestFirst,
}

/// What the summariser is shown, on its way to fit.
struct Shown<'r> {
    pieces: Vec<Piece>,
    /// How many items went.
    left_out: usize,
    room: &'r Room,
    meter: &'r Meter,
}

impl Shown<'_> {
    fn make(&mut self, a_move: &PreTrimMove) {
        match a_move {
            PreTrimMove::KeepLastLines { lines_max, tokens_max, spill } => {
                self.keep_last_lines(*lines_max, *tokens_max, spill);
            }
            PreTrimMove::CapOutputs { tokens_max } => self.cap_outputs(self.room.level(*tokens_max)),
            PreTrimMove::ClearOldOutputs { keep } => self.clear_old_outputs(*keep),
            PreTrimMove::DropOldestAndRetry { .. } if self.room.is_retry => {
                self.drop_agent(Order::OldestFirst);
            }
            PreTrimMove::DropOldestAndRetry { .. } => {}
            PreTrimMove::DropAgentNewestFirst => self.drop_agent(Order::NewestFirst),
        }
    }

    /// The pieces within their room, whatever the moves have left.
    fn fitting(mut self) -> Vec<Piece> {
        self.shrink_to_call();
        self.drop_agent(Order::NewestFirst);
        self.shorten_users();
        if self.left_out > 0 {
            self.pieces.push(Piece::new(vec![Arc::new(left_out_item(self.left_out))], self.meter));
        }
        self.pieces
    }

    fn keep_last_lines(&mut self, lines_max: usize, tokens_max: Tokens, spill: &Spill) {
        let (room, meter) = (self.room, self.meter);
        let tail = HeadPercent::NONE;
        for piece in &mut self.pieces {
            *piece = with_outputs(piece, meter, |result, _| {
                let text = text_of(result);
                let shorten = |tokens_max| {
                    shorten_to_limits(&text, Some(lines_max), Some(tokens_max), tail, &room.handle, meter)
                };
                let shorter = shorten(tokens_max)?;
                let output =
                    SpilledOutput { session_id: &room.session_id, call_id: &result.call_id, text: &text };
                let Some(line) = spill.line_for(&output) else { return Some(shorter) };
                let left = tokens_max.saturating_sub(Tokens(meter.text(&line)));
                Some(line + &shorten(left).unwrap_or(shorter))
            });
        }
    }

    fn cap_outputs(&mut self, tokens_max: Tokens) {
        let (room, meter) = (self.room, self.meter);
        let mut left = tokens_max.min(room.all);
        for piece in self.pieces.iter_mut().rev() {
            *piece = with_outputs(piece, meter, |_, tokens| {
                let is_kept = tokens <= left;
                left = left.saturating_sub(tokens);
                if is_kept { None } else { cleared(tokens, room, meter) }
            });
        }
    }

    fn clear_old_outputs(&mut self, keep: usize) {
        if !self.is_too_much() {
            return;
        }
        let (room, meter, tokens_max) = (self.room, self.meter, self.room_left());
        let output_count: usize = self.pieces.iter().map(Piece::output_count).sum();
        let mut may_go = output_count.saturating_sub(keep);
        let mut all = total(&self.pieces);
        for piece in &mut self.pieces {
            if all <= tokens_max || may_go == 0 {
                return;
            }
            all = all.saturating_sub(piece.tokens);
            *piece = with_outputs(piece, meter, |_, tokens| {
                let goes = may_go > 0;
                may_go = may_go.saturating_sub(1);
                if goes { cleared(tokens, room, meter) } else { None }
            });
            all += piece.tokens;
        }
    }

    /// Leaves out pieces in which no person speaks until the rest fits.
    fn drop_agent(&mut self, order: Order) {
        if self.is_too_much() {
            self.leave_out(order, |piece| !piece.has_user());
        }
    }

    /// What people said gives way last: every message at its size in proportion, then the oldest ones.
    fn shorten_users(&mut self) {
        if !self.is_too_much() {
            return;
        }
        let all = self.room.all.saturating_sub(LEFT_OUT_TOKENS_MAX);
        self.shrink_to(Tokens(all.0 / self.pieces.len().max(1) as u64));
        self.leave_out(Order::OldestFirst, |_| true);
    }

    /// What all pieces together may cost.
    fn room_left(&self) -> Tokens {
        let line = if self.left_out > 0 { LEFT_OUT_TOKENS_MAX } else { Tokens::ZERO };
        self.room.all.saturating_sub(line)
    }

    /// Whether something must go even when no single piece is larger than a call.
    fn is_too_much(&mut self) -> bool {
        if total(&self.pieces) > self.room_left() {
            self.shrink_to_call();
        }
        total(&self.pieces) > self.room_left()
    }

    fn shrink_to_call(&mut self) {
        self.shrink_to(self.room.call);
    }

    fn shrink_to(&mut self, tokens_max: Tokens) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.tokens > tokens_max) {
            *piece = shrunk(piece, tokens_max, &self.room.handle, self.meter);
        }
    }

    fn leave_out(&mut self, order: Order, may_go: impl Fn(&Piece) -> bool) {
        let tokens_max = self.room.all.saturating_sub(LEFT_OUT_TOKENS_MAX);
        let mut tokens = total(&self.pieces);
        if order == Order::NewestFirst {
            self.pieces.reverse();
        }
        self.pieces.retain(|piece| {
            let goes = tokens > tokens_max && may_go(piece);
            if goes {
                tokens = tokens.saturating_sub(piece.tokens);
                self.left_out += piece.items.len();
            }
            !goes
        });
        if order == Order::NewestFirst {
            self.pieces.reverse();
        }
    }
}

/// The piece with some of its tool outputs replaced by a text; `change` is told what each costs.
fn with_outputs(
    piece: &Piece,
    meter: &Meter,
    mut change: impl FnMut(&ToolResult, Tokens) -> Option<String>,
) -> Piece {
    changed(piece, meter, |part| match part {
        Part::ToolResult(result) => {
            let text = change(result, Tokens(u64::from(meter.part(part))))?;
            let content = vec![ResultPart::Text(text.into())];
            Some(Part::ToolResult(ToolResult { content, ..result.clone() }))
        }
        Part::Text(_)
        | Part::Reasoning(_)
        | Part::ToolCall(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => None,
    })
}

/// The line for an output that is cleared; none where the output costs no more than that.
fn cleared(tokens: Tokens, room: &Room, meter: &Meter) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(room.now.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let line = format!("[output of {tokens} tokens cleared at {at}, {}]", room.handle);
    (meter.text(&line) < tokens.0).then_some(line)
}

#[cfg(test)]
mod tests;
