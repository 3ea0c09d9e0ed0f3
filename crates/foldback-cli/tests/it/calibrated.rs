//! Counts that match the provider's, where a session says what the provider counted.

use serde_json::{Value, json as value};

use super::{at, code, folder, json, run, text};

/// A session of Claude Code whose provider reports `ratio` for each token, and `overhead` more.
fn session(turns: usize, model: &str, reported: impl Fn(u64) -> u64) -> String {
    let long = "alder birch cedar dogwood elm fir ".repeat(120);
    let mut lines = String::new();
    let mut parent = Value::Null;
    let mut counted = 0;
    for turn in 0..turns {
        for role in ["user", "assistant"] {
            let uuid = format!("{role}-{turn}");
            let text = format!("{role} {turn}: {long}");
            let mut message = value!({"role": role, "content": [{"type": "text", "text": text}]});
            if role == "assistant" {
                message["id"] = value!(format!("msg_{turn}"));
                message["model"] = value!(model);
                message["usage"] = value!({"input_tokens": 3, "cache_read_input_tokens": reported(counted) - 3,
                    "cache_creation_input_tokens": 0, "output_tokens": 100});
            }
            let record = value!({"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "5e551011",
                "cwd": "/srv/orchard", "timestamp": "2026-05-02T10:00:00.000Z", "message": message});
            lines += &format!("{record}\n");
            parent = value!(uuid);
            // Near enough to what is counted.
            counted += 968;
        }
    }
    lines
}

fn stored(folder: &tempfile::TempDir, session: &str) -> String {
    let path = at(folder, "session.jsonl");
    std::fs::write(&path, session).unwrap();
    path
}

#[test]
fn a_context_that_was_twice_as_large_as_counted_is_compacted() {
    let folder = folder();
    let path = stored(&folder, &session(60, "claude-sonnet-4-5", |counted| 40_000 + counted * 13 / 10));
    let aim = ["compact", &path, "--window", "200k", "--target", "100k", "--dry-run", "--json"];
    let report = json(&run(&aim));
    let told = &report["conversations"][0];
    assert!(told["tokens_before"].as_u64().unwrap() > 150_000, "{told}");
    let after = told["tokens_after"].as_u64().unwrap();
    assert!((60_000..=100_000).contains(&after), "{told}");
    assert!((1.2..1.4).contains(&told["calibration"]["ratio"].as_f64().unwrap()), "{told}");
    let overhead = told["calibration"]["overhead"].as_u64().unwrap();
    assert!(overhead.abs_diff(40_000) < 4_000, "{told}");

    let uncalibrated =
        json(&run(&["compact", &path, "--uncalibrated", "--target", "120k", "--dry-run", "--json"]));
    let told = &uncalibrated["conversations"][0];
    assert_eq!(told["tokens_before"], told["tokens_after"], "it is under the target as counted");
    assert_eq!(told["calibration"], Value::Null);

    let first_line = text(&run(&aim[..7]).stderr);
    let first_line = first_line.lines().next().unwrap();
    assert!(first_line.contains("window 200,000 (as set)"), "{first_line}");
    assert!(first_line.contains("calibrated by 60 reports of the provider (×1.3"), "{first_line}");
}

#[test]
fn a_target_below_what_is_sent_beside_the_conversation_is_refused_with_both_numbers() {
    let folder = folder();
    let path = stored(&folder, &session(20, "claude-sonnet-4-5", |counted| 40_000 + counted));
    let refused = run(&["compact", &path, "--target", "30k", "--dry-run"]);
    assert_eq!(code(&refused), 4);
    let told = text(&refused.stderr);
    assert!(told.contains("the target is 30,000") && told.contains("--uncalibrated"), "{told}");
    // A share is one of what can be compacted.
    let share = json(&run(&["compact", &path, "--target", "40% of session", "--dry-run", "--json"]));
    assert!(share["conversations"][0]["tokens_after"].as_u64().unwrap() > 40_000, "{share}");
}

#[test]
fn a_context_larger_than_the_models_window_proves_a_larger_one() {
    let folder = folder();
    let path = stored(&folder, &session(40, "claude-sonnet-4-5", |counted| 200_000 + counted));
    let report = json(&run(&["compact", &path, "--dry-run", "--json"]));
    assert_eq!(report["window"], value!({"tokens": 1_000_000, "source": "reported"}));
    let set = json(&run(&["compact", &path, "--window", "300k", "--dry-run", "--json"]));
    assert_eq!(set["window"]["tokens"], 300_000);
}

#[test]
fn what_was_reported_before_a_compaction_says_nothing_of_the_size_after_it() {
    let folder = folder();
    let path = stored(&folder, &session(60, "claude-sonnet-4-5", |counted| 20_000 + counted));
    let out = at(&folder, "out.jsonl");
    let report = json(&run(&["compact", &path, "--target", "60k", "-o", &out, "--json"]));
    let after = report["conversations"][0]["tokens_after"].as_u64().unwrap();
    assert!((45_000..=60_000).contains(&after), "what is beside it is taken off once: {report}");
    let again = json(&run(&["compact", &out, "--target", "60k", "--dry-run", "--json"]));
    assert_eq!(again["conversations"][0]["tokens_before"], after, "{again}");
}
