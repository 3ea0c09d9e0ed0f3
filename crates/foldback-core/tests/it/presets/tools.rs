//! What presets do to tool results.

use foldback_core::{Strategy, *};

use crate::presets::*;

#[test]
fn codex_cuts_a_result_to_10k_tokens_when_it_is_recorded_half_head_half_tail() {
    let mut transcript = begun();
    push_user(&mut transcript, "read it");
    let output: String = (0..8_000).map(|number| format!("{number} some line of a file\n")).collect();
    push_round(&mut transcript, &output);
    let recording = policy("codex").recording_strategy().expect("codex works when it records");
    let after = plan(&View::of(&transcript), &*recording, None).unwrap().apply_floor().view;
    let result = after.get(3).unwrap();
    assert!(result.tokens().total <= Tokens(10_010) && result.tokens().total > Tokens(9_500));
    let cut = text_at(&after, 3);
    let (head, tail) = cut.split_once("[folded @").expect("it was cut in its middle");
    assert!(output.starts_with(head) && tail.ends_with("7999 some line of a file\n"));
    assert!(head.len().abs_diff(tail.len()) < cut.len() / 10, "{} and {}", head.len(), tail.len());
    for other in Policy::all() {
        let is_codex = ["codex", "codex-remote"].contains(&other.name());
        assert_eq!(other.recording_strategy().is_some(), is_codex, "{}", other.name());
    }
}

#[test]
fn gemini_leaves_50k_tokens_of_results_whole_and_cuts_older_ones_to_40000_characters() {
    let mut transcript = begun();
    push_user(&mut transcript, "a long story");
    push_answer(&mut transcript, &words(150_000));
    push_user(&mut transcript, "read it");
    let output = words(20_000);
    (0..3).for_each(|_| push_round(&mut transcript, &output));
    push_answer(&mut transcript, "read");
    let after = compacted_in(&View::of(&transcript), "gemini", Room::new(Tokens(400_000)));
    assert_eq!(order(&after), "s0 S u3 a4 t5 a6 t7 a8 t9 a10");
    assert_eq!((text_at(&after, 7), text_at(&after, 9)), (output.clone(), output.clone()));
    let cut = text_at(&after, 5);
    let (head, rest) = cut.split_once("\n[folded @").expect("it was cut");
    let (_, tail) = rest.split_once("]\n").expect("the marker ends");
    assert!(output.starts_with(head) && output.ends_with(tail));
    assert!(cut.len() <= 40_000 && head.len() + tail.len() > 39_800, "{}", cut.len());
    let head_percent = head.len() as f64 * 100.0 / (head.len() + tail.len()) as f64;
    assert!((19.9..=20.0).contains(&head_percent), "{head_percent}");
}

#[test]
fn anthropic_edit_keeps_everything_and_clears_results_older_than_the_three_newest() {
    let mut transcript = begun();
    push_user(&mut transcript, "do it");
    (0..6).for_each(|_| push_round(&mut transcript, &words(200)));
    push_answer(&mut transcript, "done");
    let after = compacted(&transcript, "anthropic-edit");
    assert_eq!(after.len(), transcript.len());
    for result in [3, 5, 7] {
        assert!(placeholder::is_placeholder(&text_at(&after, result)), "{result}");
    }
    for result in [9, 11, 13] {
        assert_eq!(text_at(&after, result), words(200));
    }
}

/// The strategies behind the presets have parameters; a preset that asks for others is no preset.
#[test]
fn every_preset_reads_as_what_it_does() {
    let steps: Vec<String> =
        Policy::all().map(|policy| format!("{}: {}", policy.name(), policy.strategy().describe())).collect();
    assert_eq!(
        steps,
        [
            "ladder: ladder",
            "agentkit: drop-reasoning → drop-failed-tool-results → keep-recent(8)",
            "phi: keep-first-and-recent-turns(2, 10) → truncate-tool-outputs",
            "codex: truncate-tool-outputs → preserve-user-messages(20000)",
            "codex-remote: truncate-tool-outputs → preserve-user-messages(64000)",
            "gemini: cap-tool-outputs(50000) → preserve-recent-fraction(0.3)",
            "opencode: preserve-recent-turns(≤ 15000 tokens)",
            "goose: summarize-older(0)",
            "anthropic-edit: clear-tool-results(keep 3)",
            "openhands: keep-first-and-recent-items(4, 35)",
            "lcm: summarize-older(64)",
            "truncate: keep-newest-that-fit",
        ]
    );
}
