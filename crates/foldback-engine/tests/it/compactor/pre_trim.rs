//! What a host sets for what its backend is shown.

use std::path::Path;

use crate::compactor::*;

fn into_files(folder: &Path) -> Spill {
    let folder = folder.to_owned();
    Spill::to(move |output: &SpilledOutput<'_>| {
        let path = folder.join(format!("{}-{}.txt", output.session_id, output.call_id));
        std::fs::write(&path, output.text)?;
        Ok(path)
    })
}

/// The outputs that a backend is shown of `view` in one call.
async fn shown(view: &View, a_move: PreTrimMove) -> Vec<String> {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)).with_window(14_000));
    let pre_trim = PreTrim::new([a_move]);
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(12)
        .strategy(SummarizeOlderStrategy::new(4).preserve_kind(ItemKind::System))
        .backend(guarded(&backend))
        .clock(TokioClock::starting_at(Timestamp(0)))
        .limits(SummaryLimits { chunks_max: 1, pre_trim, ..SummaryLimits::default() })
        .build()
        .unwrap();
    compact(&compactor, view).await;
    let requests = backend.requests.lock().unwrap();
    assert_eq!(requests.len(), 1);
    let results = requests[0].items.iter().flat_map(|item| item.results());
    results.map(|(_, result)| result.content[0].as_text().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_backend_is_shown_last_lines_and_the_place_of_the_whole_output() {
    let folder = tempfile::tempdir().unwrap();
    let spill = into_files(folder.path());
    let view = session(60);
    let outputs =
        shown(&view, PreTrimMove::KeepLastLines { lines_max: 4, tokens_max: Tokens(2_000), spill }).await;
    // 59, and once 58: the folder's name is another each time, and may be why.
    assert!((58..=59).contains(&outputs.len()), "{}", outputs.len());
    let original = view.get(3).unwrap().item().results().next().unwrap().1.content[0].as_text().unwrap();
    for text in outputs {
        let (line, rest) = text.split_once('\n').unwrap();
        let path = line.strip_prefix("[the whole output is in ").unwrap().strip_suffix(']').unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), original);
        assert!(rest.starts_with("[folded @") && rest.lines().count() <= 4, "{rest}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_cleared_is_dated_by_the_hosts_clock() {
    let outputs =
        shown(&session(60), PreTrimMove::CapOutputs { tokens_max: Level::Tokens(Tokens(1_200)) }).await;
    let (cleared, kept): (Vec<&String>, Vec<&String>) =
        outputs.iter().partition(|text| text.contains(" tokens cleared at 1970-01-01T00:00:00Z, @"));
    assert!(cleared.len() > 20 && !kept.is_empty(), "{} and {}", cleared.len(), kept.len());
}
