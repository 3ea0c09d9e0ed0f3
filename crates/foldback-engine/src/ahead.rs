//! Reads what is folded on all cores, before a digest of it is written on one.

use foldback_core::{FoldRequest, Reading, Tokens, Transcript};

/// A digest of fewer tokens is written before threads would have helped: most are.
const TOGETHER_TOKENS_MIN: Tokens = Tokens(500_000);

/// At most this many threads read together.
const THREADS_MAX: usize = 8;

/// A thread takes as many items at once, so that threads do not wait for each other at every one.
const TAKEN_AT_ONCE: usize = 16;

/// Reads what the digest of a fold will ask for, where that takes long enough.
pub(crate) fn read_ahead(request: &FoldRequest<'_>) {
    let threads = foldback_threads::threads(THREADS_MAX);
    if request.fold().tokens_before >= TOGETHER_TOKENS_MIN && threads > 1 {
        read_on_threads(threads, request.view().transcript(), &request.unread());
    }
}

fn read_on_threads(threads: usize, transcript: &Transcript, readings: &[Reading]) {
    foldback_threads::map(threads, readings.chunks(TAKEN_AT_ONCE), |taken| {
        taken.iter().for_each(|&reading| transcript.read(reading));
    });
}

#[cfg(test)]
mod tests {
    use foldback_core::{Budget, Item, LadderStrategy, Part, Plan, ToolResult, View, plan};
    use serde_json::json;

    use super::*;

    /// Tool rounds of about `tokens`, each of a remark, a call and its answer.
    fn rounds(tokens: u64) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("task", "Make src/parser.rs faster. Never touch src/lexer.rs."));
        let mut number = 0;
        while transcript.tokens().0 < tokens {
            number += 1;
            let (call, path) = (format!("c{number}"), format!("src/module_{}.rs", number % 97));
            let asked = Part::call(call.clone(), "write", &json!({"path": path}));
            transcript.push(Item::assistant(format!("a{number}"), vec![Part::text("Next."), asked]));
            let answer = format!("fn scan_{number}() in {path} took {number} ms\n").repeat(60);
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, answer)));
        }
        transcript
    }

    fn planned(transcript: &Transcript) -> Plan {
        let budget = Budget::for_target(Tokens(20_000)).unwrap();
        plan(&View::of(transcript), &LadderStrategy::new(), Some(&budget)).unwrap()
    }

    #[test]
    fn a_digest_says_the_same_whether_or_not_its_items_were_read_ahead() {
        let tokens = TOGETHER_TOKENS_MIN.0 + 100_000;
        let (alone, together) = (planned(&rounds(tokens)), planned(&rounds(tokens)));
        together.requests().for_each(|request| read_ahead(&request));
        let (alone, together) = (alone.apply_digest(), together.apply_digest());
        assert!(alone.block.summaries.iter().flatten().next().is_some(), "something is folded");
        assert_eq!(alone.block.summaries, together.block.summaries);
    }
}
