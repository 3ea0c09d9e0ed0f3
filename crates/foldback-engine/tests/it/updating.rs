//! A session that grows and is compacted again and again by a model, and what a model is shown.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use foldback_core::{
    Budget, CompactionReason, FinishReason, Item, ItemKind, LadderStrategy, Part, Tokens, ToolResult,
    Transcript, View,
};
use foldback_engine::{
    Asked, BackendError, CompactionBackend, CompactionContext, CompactionRequest, SummaryRequest,
    SummaryResult, SummaryStage, compact_asking,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const TARGET: Tokens = Tokens(6_000);

/// An answer that tells something of the work, and not all that it must.
const BRIEF: &str = "## State: the work is on src/module_1.rs and src/module_2.rs.";

/// Answers with what it was asked to say, and remembers what it was asked.
#[derive(Clone, Debug)]
struct Model {
    answer: String,
    window: Option<Tokens>,
    requests: Arc<Mutex<Vec<SummaryRequest>>>,
}

impl Model {
    fn new(answer: impl Into<String>) -> Self {
        Self { answer: answer.into(), window: None, requests: Arc::default() }
    }

    fn requests(&self) -> Vec<SummaryRequest> {
        self.requests.lock().unwrap().clone()
    }
}

#[async_trait]
impl CompactionBackend for Model {
    async fn summarize(
        &self,
        request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        self.requests.lock().unwrap().push(request);
        let items = vec![Item::text("answer", ItemKind::Context, self.answer.as_str())];
        Ok(SummaryResult { items, finish: Some(FinishReason::Stop), ..SummaryResult::default() })
    }

    fn name(&self) -> &str {
        "model"
    }

    fn window(&self) -> Option<Tokens> {
        self.window
    }
}

/// One more stretch of work, with a build that fails at its end.
fn work(transcript: &mut Transcript, round: usize, is_failing: bool) {
    for number in 0..60 {
        let call = format!("c{round}-{number}");
        let path = format!("src/module_{}.rs", number % 3);
        let asked = vec![Part::text("Next."), Part::call(call.clone(), "Edit", &json!({"file_path": path}))];
        transcript.push(Item::assistant(format!("a{round}-{number}"), asked));
        let answer = format!("line {number} of what came of it in round {round}\n").repeat(36);
        transcript.push(Item::tool(format!("t{round}-{number}"), ToolResult::text(call, answer)));
    }
    let call = format!("build{round}");
    let asked = vec![Part::call(call.clone(), "Bash", &json!({"command": "cargo build"}))];
    transcript.push(Item::assistant(format!("b{round}"), asked));
    let noise = "   Compiling something\n".repeat(200);
    let answer = match is_failing {
        true => ToolResult::error(call, format!("{noise}error[E0308]: mismatched types in round {round}")),
        false => ToolResult::text(call, format!("{noise}Finished")),
    };
    transcript.push(Item::tool(format!("built{round}"), answer));
    for number in 0..20 {
        let call = format!("d{round}-{number}");
        let asked =
            vec![Part::call(call.clone(), "Read", &json!({"file_path": format!("notes_{number}.md")}))];
        transcript.push(Item::assistant(format!("e{round}-{number}"), asked));
        let answer = format!("note {number} of round {round}\n").repeat(20);
        transcript.push(Item::tool(format!("f{round}-{number}"), ToolResult::text(call, answer)));
    }
}

fn begun() -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Port the linker. Never touch src/lexer.rs."));
    transcript.push(Item::assistant("ok", vec![Part::text("I will.")]));
    transcript.push(Item::user("rule", "Always run the tests before you commit."));
    transcript
}

async fn compacted(view: View, model: &Model) -> Asked {
    let request = CompactionRequest::new("s", view, CompactionReason::Manual);
    let request = request.with_budget(Budget::for_target(TARGET).unwrap());
    let context = CompactionContext::default().with_backend(model.clone());
    compact_asking(Arc::new(LadderStrategy::new()), &request, &context, None).await.unwrap()
}

fn text(item: &Item) -> &str {
    match &item.parts[..] {
        [Part::Text(text)] => text,
        parts => panic!("{parts:?}"),
    }
}

fn summary(view: &View) -> &str {
    let summaries: Vec<&Arc<Item>> = view.items().filter(|item| item.summary.is_some()).collect();
    assert_eq!(summaries.len(), 1, "an earlier summary is taken in: {}", view.shape());
    text(summaries[0])
}

fn told(view: &View) -> String {
    format!("{:?}", view.items().collect::<Vec<_>>())
}

#[tokio::test]
async fn over_five_rounds_the_earlier_summary_is_handed_on_whole_and_rules_stay_in_force() {
    let mut transcript = begun();
    let mut overlay = None;
    let mut sizes = Vec::new();
    let mut earlier: Option<String> = None;
    for round in 0..5 {
        work(&mut transcript, round, false);
        let view = match &overlay {
            Some(overlay) => View::through(&transcript, overlay).unwrap(),
            None => View::of(&transcript),
        };
        let line = format!("What was found in round {round} is told in a line of the summary.\n");
        let model = Model::new(format!("{BRIEF}\n{}", line.repeat(120)));
        let asked = compacted(view, &model).await;
        assert_eq!(asked.written_by().collect::<Vec<_>>(), ["model"]);
        let request = &model.requests()[0];
        let handed_on: Vec<&str> = request.previous.iter().map(|item| text(item)).collect();
        assert_eq!(handed_on, earlier.iter().map(String::as_str).collect::<Vec<_>>(), "round {round}");
        let after = asked.outcome.view;
        assert!(after.tokens() <= TARGET && after.tokens().0 * 10 > TARGET.0 * 8, "{}", after.tokens());
        let meter = transcript.meter();
        sizes.push(meter.text(summary(&after)));
        let whole = summary(&after);
        let (rest, last) = whole.rsplit_once('\n').unwrap();
        earlier = Some(if last.starts_with("[The user's") { rest } else { whole }.to_owned());
        for rule in ["Never touch src/lexer.rs.", "Always run the tests before you commit."] {
            assert!(told(&after).contains(rule), "round {round}: {rule}");
        }
        assert!(summary(&after).contains("src/module_0.rs (changed ×"), "{}", summary(&after));
        overlay = Some(after.overlay().clone());
    }
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(most - least < 64, "sizes drift: {sizes:?}");
}

#[tokio::test]
async fn what_a_short_answer_leaves_is_the_tails_however_it_was_asked_for() {
    let mut transcript = begun();
    work(&mut transcript, 0, false);
    let view = View::of(&transcript);
    let long = Model::new(format!("{BRIEF}\n{}", "A line that tells something of it.\n".repeat(230)));
    let long = compacted(view.clone(), &long).await.outcome.view;
    for window in [None, Some(Tokens(12_000))] {
        let model = Model { window, ..Model::new(BRIEF) };
        let asked = compacted(view.clone(), &model).await;
        assert_eq!(asked.written_by().collect::<Vec<_>>(), ["model"]);
        assert_eq!(model.requests().len() > 1, window.is_some(), "in chunks where the window is small");
        let short = asked.outcome.view;
        let is_seen = |item: &Arc<Item>| short.items().any(|other| other.id == item.id);
        assert!(long.items().filter(|item| item.summary.is_none()).all(is_seen), "{}", short.shape());
        let tail =
            |view: &View| view.tokens().saturating_sub(Tokens(view.transcript().meter().text(summary(view))));
        assert!(tail(&short) > tail(&long), "{} and {}", tail(&short), tail(&long));
        assert!(short.tokens() <= TARGET && short.tokens().0 * 10 > TARGET.0 * 9, "{}", short.tokens());
        let origin = short.items().find_map(|item| item.summary.clone()).unwrap();
        assert!(short.recall(&origin.handle).is_some(), "{origin:?}");
        assert!(summary(&short).contains(origin.handle.as_str()));
        assert_eq!(asked.metadata["summaries"][0]["handle"], origin.handle.as_str());
    }
}

#[tokio::test]
async fn a_model_is_shown_what_stays_and_the_newest_failure_is_told() {
    let mut transcript = begun();
    work(&mut transcript, 0, true);
    let model = Model::new(BRIEF);
    let asked = compacted(View::of(&transcript), &model).await;
    let request = &model.requests()[0];
    let ids: Vec<&str> = request.staying.iter().map(|item| item.id.as_str()).collect();
    assert_eq!((ids.first(), ids.last()), (Some(&"task"), Some(&"f0-19")), "{ids:?}");
    assert!(ids.contains(&"rule"));
    assert!(request.items.iter().all(|item| !ids.contains(&item.id.as_str())), "nothing is both");
    let error = "error[E0308]: mismatched types in round 0";
    assert!(!request.demands.iter().any(|demand| demand.contains(error)), "{:?}", request.demands);
    assert_eq!(asked.written_by().collect::<Vec<_>>(), ["model"]);
    assert!(told(&asked.outcome.view).contains(error));

    let model = Model { window: Some(Tokens(12_000)), ..model };
    compacted(View::of(&transcript), &model).await;
    let last = model.requests().pop().unwrap();
    assert_eq!((last.stage, last.staying.is_empty()), (SummaryStage::Merge, false));
}

#[tokio::test]
async fn a_failure_that_went_away_in_what_stays_is_not_told_as_open() {
    let mut transcript = begun();
    work(&mut transcript, 0, true);
    let call = Part::call("again", "Bash", &json!({"command": "cargo build"}));
    transcript.push(Item::assistant("x", vec![call]));
    transcript.push(Item::tool("y", ToolResult::text("again", "Finished")));
    let model = Model::new(BRIEF);
    let asked = compacted(View::of(&transcript), &model).await;
    assert_eq!(asked.written_by().collect::<Vec<_>>(), ["model"]);
    assert!(!summary(&asked.outcome.view).contains("mismatched types"));
}
