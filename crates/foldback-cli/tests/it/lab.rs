//! Replay, eval and explain as a person or a script meets them.

use super::*;

#[test]
fn replay_compares_policies_call_by_call() {
    let arguments = ["replay", SESSION, "--window", "16k", "--policy", "ladder,truncate", "--json"];
    let report = json(&run(&arguments));
    let policies = report["sessions"][0]["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 2);
    for policy in policies {
        assert!(policy["cost"].as_f64().unwrap() > 0.0);
        assert!(policy["peak"].as_u64().unwrap() <= 16_000, "{policy}");
        let calls = policy["calls"].as_u64().unwrap();
        assert_eq!(policy["curve"].as_array().unwrap().len() as u64, calls);
    }
    let ladder = &policies[0];
    let made = &ladder["compactions"][0];
    assert!(made["tokens_after"].as_u64() < made["tokens_before"].as_u64());
    assert!(made["retention"].as_f64().is_some(), "something was needed afterwards");
    assert!(made["names"]["path"]["kept"].as_u64().unwrap() > 0);
    assert_eq!(text(&run(&arguments).stdout), text(&run(&arguments).stdout), "the same every time");
}

#[test]
fn every_preset_and_a_file_of_ones_own_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.toml");
    std::fs::write(&own, "name = \"mine\"\n[[steps]]\nstrategy = \"keep-recent\"\nn = 6\n").unwrap();
    let policies = format!("all,{}", own.display());
    let listed = json(&run(&["policies", "--json"]));
    let mut names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|policy| policy["name"].as_str().unwrap()).collect();
    names.push("mine");
    let of = |report: &Value, list: &str| -> Vec<String> {
        let all = report[list].as_array().unwrap().iter();
        let mut all: Vec<String> = all.map(|row| row["policy"].as_str().unwrap().to_owned()).collect();
        all.dedup();
        all
    };
    let calls = json(&run(&["replay", SESSION, "--window", "64k", "--policy", &policies, "--json"]));
    assert_eq!(of(&calls, "totals"), names);
    let cuts = ["replay", SESSION, "--cuts", "--min-tokens", "1", "--policy", &policies, "--json"];
    let mut measured = of(&json(&run(&cuts)), "means");
    measured.sort();
    measured.dedup();
    names.sort_unstable();
    assert_eq!(measured, names);
}

#[test]
fn a_session_is_priced_as_its_model_unless_prices_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let prices = |model: &str, flags: &[&str]| {
        let path = folder.path().join("request.json");
        let said = r#"{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."}"#;
        std::fs::write(&path, format!(r#"{{"model": "{model}", "messages": [{said}]}}"#)).unwrap();
        let file = path.display().to_string();
        let replay = ["replay", &file, "--format", "anthropic", "--policy", "ladder", "--json"];
        let told = &json(&run(&[&replay, flags].concat()))["sessions"][0]["prices"];
        [told["name"].as_str().unwrap().to_owned(), told["from"].as_str().unwrap().to_owned()]
    };
    assert_eq!(prices("claude-opus-5-20260101", &[]), ["claude-opus-5", "model"]);
    assert_eq!(prices("claude-haiku-4-5", &[]), ["claude-haiku-4.5", "model"]);
    assert_eq!(prices("nobody-knows", &[]), ["claude-sonnet-4.5", "assumed"]);
    assert_eq!(prices("claude-opus-5", &["--prices", "gpt-5"]), ["gpt-5", "flag"]);
    let table = text(&run(&["replay", SESSION, "--policy", "ladder"]).stdout);
    assert!(table.contains("assumed where the model's are not known"), "{table}");
}

#[test]
fn replay_prints_a_table_and_writes_a_page_that_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html").display().to_string();
    let output = run(&["replay", SESSION, "--window", "16k", "--html", &page]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("ladder"));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg role=\"img\"") && page.contains("prefers-color-scheme"));
    for outside in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn cuts_compare_policies_at_equal_tokens() {
    let report =
        json(&run(&["replay", SESSION, "--cuts", "--min-tokens", "1", "--policy", "ladder,codex", "--json"]));
    for row in report["sessions"][0]["measurements"].as_array().unwrap() {
        assert_eq!(row["is_over"], false);
        if let Some(tokens) = row["tokens"].as_u64() {
            assert!(tokens <= row["budget"].as_u64().unwrap());
            assert!((0.0..=1.0).contains(&row["retention"].as_f64().unwrap()));
        }
    }
    assert_eq!(report["means"].as_array().unwrap().len(), 4, "two policies at two sizes");
}

#[test]
fn eval_fails_below_its_threshold_and_only_there() {
    assert_eq!(code(&run(&["eval", SESSION, "--min-retention", "0.05"])), 0);
    let failed = run(&["eval", SESSION, "--min-retention", "1"]);
    assert_eq!(code(&failed), 1);
    assert!(text(&failed.stderr).contains("below 1"), "{}", text(&failed.stderr));
    assert_eq!(code(&run(&["eval", SESSION, "--min-retention", "1.5"])), 2);
}

#[test]
fn explain_accounts_for_every_item_and_every_name() {
    let report = json(&run(&["explain", SESSION, "--target", "4000", "--json"]));
    let items = report["items"].as_array().unwrap();
    assert_eq!(items.len(), 92);
    for item in items {
        assert_eq!(item["why"].as_array().unwrap().is_empty(), item["what"] == "kept", "{item}");
    }
    let sum = |items: &[Value], of: &str| items.iter().map(|item| item[of].as_u64().unwrap()).sum::<u64>();
    let summaries = report["summaries"].as_array().unwrap();
    assert_eq!(sum(items, "tokens_before"), report["tokens_before"].as_u64().unwrap());
    assert_eq!(
        sum(items, "tokens_after") + sum(summaries, "tokens"),
        report["tokens_after"].as_u64().unwrap()
    );
    assert!(report["names"]["path"]["recoverable"].as_u64().unwrap() > 0);
    let nothing = run(&["explain", SESSION, "--window", "1m"]);
    assert!(text(&nothing.stdout).contains("nothing changes"), "{}", text(&nothing.stdout));
    assert_eq!(code(&run(&["explain", SESSION, "--made", "1"])), 2, "it records none");
}

#[test]
fn explain_names_the_facts_that_are_lost_and_those_that_can_be_recalled() {
    let lines = std::fs::read_to_string(SESSION).unwrap();
    let arguments = ["explain", SESSION, "--target", "4000"];
    let report = json(&run(&[&arguments[..], &["--json"]].concat()));
    let recoverable = report["facts"]["recoverable"].as_array().unwrap();
    assert!(!recoverable.is_empty());
    for fact in recoverable {
        assert!(fact["handle"].as_str().unwrap().starts_with('@'), "{fact}");
        let of_kind = recoverable.iter().filter(|other| other["kind"] == fact["kind"]).count() as u64;
        let counted = report["names"][fact["kind"].as_str().unwrap()]["recoverable"].as_u64().unwrap();
        assert_eq!(of_kind, counted.min(100), "{fact}");
    }
    let path = recoverable.iter().find(|fact| fact["kind"] == "path").unwrap();
    let (name, line) = (path["text"].as_str().unwrap(), path["line"].as_u64().unwrap() as usize);
    assert!(lines.lines().nth(line - 1).unwrap().contains(name), "{path}");
    let told = text(&run(&arguments).stdout);
    assert!(told.contains(name) && told.contains(path["handle"].as_str().unwrap()), "{told}");
    let dropped = json(&run(&["explain", SESSION, "--policy", "truncate", "--window", "16k", "--json"]));
    let lost = dropped["facts"]["lost"].as_array().unwrap();
    assert!(!lost.is_empty() && lost.iter().all(|fact| fact.get("handle").is_none()));
}

#[test]
fn the_lab_reads_the_settings_of_compact_below_the_environment_and_the_flags() {
    let folder = folder();
    let config = at(&folder, "foldback.toml");
    let set = |settings: &str| std::fs::write(&config, format!("[compact]\n{settings}\n")).unwrap();
    let with = |variable: &str, value: &str, arguments: &[&str]| {
        let all = [arguments, &["--config", &config]].concat();
        foldback(&all).env(variable, value).output().unwrap()
    };
    set("window = \"16k\"\npolicy = \"truncate\"");
    let replay = |variable: &str, value: &str, flags: &[&str]| {
        let report = json(&with(variable, value, &[&["replay", SESSION, "--json"], flags].concat()));
        let policies = report["totals"].as_array().unwrap().iter();
        let names: Vec<String> = policies.map(|total| total["policy"].as_str().unwrap().to_owned()).collect();
        (report["sessions"][0]["window"].as_u64().unwrap(), names.join(","))
    };
    assert_eq!(replay("UNRELATED", "", &[]), (16_000, "truncate".to_owned()));
    assert_eq!(replay("FOLDBACK_WINDOW", "32k", &[]), (32_000, "truncate".to_owned()));
    assert_eq!(replay("FOLDBACK_POLICY", "codex", &["--window", "64k"]), (64_000, "codex".to_owned()));
    let flags = ["--policy", "ladder,goose"];
    assert_eq!(replay("FOLDBACK_POLICY", "codex", &flags), (16_000, "ladder,goose".to_owned()));
    let eval = |flags: &[&str]| {
        let arguments = [&["eval", SESSION, "--min-retention", "0", "--json"], flags].concat();
        json(&with("UNRELATED", "", &arguments))["mean"]["policy"].as_str().unwrap().to_owned()
    };
    assert_eq!((eval(&[]), eval(&["--policy", "goose"])), ("truncate".to_owned(), "goose".to_owned()));
    set("target = 4000");
    let after = |variable: &str, value: &str, flags: &[&str]| {
        let report = json(&with(variable, value, &[&["explain", SESSION, "--json"], flags].concat()));
        report["tokens_after"].as_u64().unwrap()
    };
    let (of_file, of_variable) = (after("UNRELATED", "", &[]), after("FOLDBACK_TARGET", "9000", &[]));
    assert!(of_file <= 4_000 && (4_001..=9_000).contains(&of_variable), "{of_file}, {of_variable}");
    assert!((9_001..=15_000).contains(&after("FOLDBACK_TARGET", "9000", &["--target", "15000"])));
    set("target = 4000\npin = [\".\"]");
    let refused = with("UNRELATED", "", &["explain", SESSION]);
    assert_eq!(code(&refused), code(&with("UNRELATED", "", &["compact", SESSION, "--dry-run"])));
    assert_ne!(code(&refused), 0, "everything is to stay as it is");
}

#[test]
fn explain_tells_of_a_compaction_that_the_file_records() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.jsonl").display().to_string();
    assert_eq!(code(&run(&["compact", SESSION, "--target", "4000", "-o", &out])), 0);
    let report = json(&run(&["explain", &out, "--made", "1", "--json"]));
    assert!(report["tokens_before"].as_u64() > Some(30_000));
    assert!(report["tokens_after"].as_u64() <= Some(4_000));
}

#[test]
fn sessions_with_nothing_to_retain_are_said_not_to_be_measurable() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = [
        r#"{"messages":[{"role":"user","content":"Исправь разбор, пожалуйста"}]}"#,
        r#"{"messages":[{"role":"user","content":"你好"},{"role":"assistant","content":"你好"}]}"#,
        r#"{"messages":[{"role":"assistant","content":"nobody asked"}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.org/b.png"}}]}]}"#,
    ];
    for (number, session) in sessions.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{number}.json")), session).unwrap();
    }
    let folder = folder.path().display().to_string();
    let of = |arguments: &[&str]| run(&[arguments, &[&folder, "--format", "openai-chat"]].concat());
    let report = json(&of(&["replay", "--policy", "all", "--json"]));
    assert_eq!(report["sessions"].as_array().unwrap().len(), sessions.len());
    assert_eq!(report["totals"][0]["retention"], Value::Null);
    let table = text(&of(&["replay"]).stdout);
    assert!(table.contains("not measurable") && !table.contains("NaN"), "{table}");
    let cuts = of(&["replay", "--cuts", "--min-tokens", "1"]);
    assert!(code(&cuts) == 0 && !text(&cuts.stdout).contains("NaN"));
    let eval = of(&["eval", "--min-retention", "0.9"]);
    assert!(text(&eval.stderr).contains("not measurable"), "{}", text(&eval.stderr));
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let policy = run(&["replay", SESSION, "--policy", "laddr"]);
    assert_eq!(code(&policy), 2);
    let told = text(&policy.stderr);
    assert!(told.contains("did you mean ladder?") && told.contains("truncate"), "{told}");
    let prices = run(&["replay", SESSION, "--prices", "gpt-5-minni"]);
    assert_eq!(code(&prices), 2);
    assert!(text(&prices.stderr).contains("did you mean gpt-5-mini?"), "{}", text(&prices.stderr));
}
