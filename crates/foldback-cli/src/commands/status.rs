//! `foldback status`: how full a session is, what was compacted, and what to do next.

mod list;

use std::fmt::Write;

use foldback_core::cost::Call;
use foldback_core::{Policy, Prices, Reported, Tokens, Transcript};
use foldback_formats::{Conversation, MeteredStep, ReportsOnView, Step, StepAction};
use serde::Serialize;

use crate::agents::{resume_command, shell_word};
use crate::args::{Aim, Extent, Shared, Status};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::lab::model;
use crate::model::WindowReport;
use crate::provider::{CalibrationReport, ProviderCounts};
use crate::scene::Scene;
use crate::terminal::{STRONG, number, styled};
use crate::{counting, output, stats};

/// Compactions that people are told of, the newest ones; JSON has up to [`COMPACTIONS_MAX`].
const COMPACTIONS_TOLD_MAX: usize = 5;

/// Compactions that are looked at.
const COMPACTIONS_MAX: usize = 1_000;

pub(crate) fn run(shared: &Shared, arguments: &Status) -> Result<Exit, Failure> {
    if arguments.all {
        return list::run(shared);
    }
    let counter = counting::counter(shared);
    input::for_each(shared, &arguments.inputs, |opened| {
        let conversation = opened.session.conversations().first();
        let conversation = conversation.ok_or_else(|| Failure::NoSessions { path: opened.path.clone() })?;
        let scene = Scene::counted(conversation, &counter, opened.session.dialect());
        let report = StatusReport::new(shared, opened, &scene, arguments.window)?;
        match shared.json {
            true => output::print_json(&report)?,
            false => output::print(&report.text())?,
        }
        Ok(Exit::Success)
    })
}

#[derive(Serialize)]
struct StatusReport {
    file: String,
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// What the next request holds, by the provider's count as far as that is known.
    context_tokens: u64,
    /// What the provider reported for the last request on what the model sees now.
    #[serde(skip_serializing_if = "Option::is_none")]
    reported: Option<LastReport>,
    window: WindowReport,
    percent: u64,
    /// From how many tokens on the default policy compacts.
    trigger_tokens: u64,
    counter: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<CalibrationReport>,
    compactions: Vec<Compacted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_break: Option<CacheBreak>,
    next: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<String>,
}

#[derive(Serialize)]
struct LastReport {
    /// Input and cache.
    tokens: u64,
    line: Option<usize>,
}

/// What changed what the model sees, in the provider's tokens as far as they are known.
#[derive(Serialize)]
struct Compacted {
    by: String,
    line: usize,
    tokens_before: u64,
    tokens_after: u64,
}

/// What the first request after the newest compaction had to read anew.
#[derive(Serialize)]
struct CacheBreak {
    tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dollars: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prices: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dated: Option<&'static str>,
}

impl StatusReport {
    fn new(
        shared: &Shared,
        opened: &Opened,
        scene: &Scene<'_>,
        window: Option<Tokens>,
    ) -> Result<Self, Failure> {
        let (session, conversation) = (&opened.session, scene.conversation);
        let provider = ProviderCounts::of(shared, conversation, &scene.transcript);
        let reports = conversation.reports(&scene.transcript);
        let view = scene.view(Extent::View);
        let model = model(shared, opened);
        let aim = Aim { window, ..Aim::default() };
        let window = model.window(window, provider.peak())?;
        let aimed = aim.budget(&Policy::default(), &model, view.tokens(), &provider)?;
        let trigger = provider.request(aimed.budget.trigger());
        let context = provider.request(view.tokens());
        let now = reports.first().filter(|view| view.step_count == conversation.steps().len());
        let now = now.filter(|view| view.requests.last().is_some_and(Reported::is_plausible));
        let resume = resume_command(&opened.path, session);
        let is_fresh = now.is_none()
            && conversation.steps().last().is_some_and(|step| step.action == StepAction::Compact);
        let file = opened.path.display().to_string();
        let next = match &resume {
            _ if context >= trigger => match shell_word(&opened.path) {
                Some(path) => format!("compact it: foldback compact {path} --in-place"),
                None => "compact it".to_owned(),
            },
            Some(resume) if is_fresh => format!("go on with what was compacted: {resume}"),
            _ => format!("nothing to do; compaction begins at {} tokens", number(trigger.0)),
        };
        Ok(Self {
            file,
            format: session.format().as_str(),
            session_id: session.session_id().map(ToOwned::to_owned),
            title: session.title().map(ToOwned::to_owned),
            model: session.model().map(ToOwned::to_owned),
            context_tokens: context.0,
            reported: now.map(|view| LastReport {
                tokens: view.newest.1.prompt_tokens().0,
                line: scene.line(view.newest.0),
            }),
            percent: context.0.saturating_mul(100) / window.tokens.0.max(1),
            window: WindowReport::from(&window),
            trigger_tokens: trigger.0,
            counter: scene.transcript.meter().counter().name().to_owned(),
            calibration: provider.report(),
            compactions: compactions(conversation, &scene.transcript, &provider, &reports),
            cache_break: CacheBreak::of(conversation, &scene.transcript, session.model()),
            next,
            resume,
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let model = self.model.as_deref().map_or_else(String::new, |model| format!(", {model}"));
        let title = self.title.as_deref().map_or_else(String::new, |title| format!(": {title}"));
        let _ = writeln!(text, "{} ({}{model}){title}", styled(STRONG, &self.file), self.format);
        let (context, percent) = (styled(STRONG, number(self.context_tokens)), self.percent);
        let _ = writeln!(text, "context: {context} tokens, {percent}% of the {}", self.window);
        let counted = match (&self.calibration, &self.reported) {
            (None, _) => format!("  counted by {}: the provider reported nothing", self.counter),
            (Some(how), Some(LastReport { tokens, line })) => {
                let line = line.map_or_else(String::new, |line| format!(" on line {line}"));
                format!(
                    "  the provider reported {}{line}; what came since is counted and {how}",
                    number(*tokens)
                )
            }
            (Some(how), None) => {
                format!("  nothing was reported since the last compaction; counted and {how}")
            }
        };
        text.push_str(&(counted + "\n"));
        self.write_compactions(&mut text);
        let _ = writeln!(text, "next: {}", self.next);
        if let Some(resume) = &self.resume {
            let _ = writeln!(text, "resume: {resume}");
        }
        text
    }

    fn write_compactions(&self, text: &mut String) {
        let count = self.compactions.len();
        if count == 0 {
            text.push_str("it was never compacted\n");
            return;
        }
        if count > COMPACTIONS_TOLD_MAX {
            let _ = writeln!(
                text,
                "{} earlier compactions; `foldback log` has them",
                count - COMPACTIONS_TOLD_MAX
            );
        }
        for Compacted { by, line, tokens_before, tokens_after } in
            &self.compactions[count.saturating_sub(COMPACTIONS_TOLD_MAX)..]
        {
            let (before, after) = (number(*tokens_before), number(*tokens_after));
            let _ = writeln!(text, "compacted by {by} on line {line}: {before} → {after} tokens");
        }
        if let Some(CacheBreak { tokens, dollars, prices, dated }) = &self.cache_break {
            let cost = match (dollars, prices, dated) {
                (Some(dollars), Some(prices), Some(dated)) => {
                    format!(": ${dollars:.3} at the prices of {prices} ({dated})")
                }
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "  the request after it read {} tokens that no cache held{cost}",
                number(*tokens)
            );
        }
    }
}

fn compactions(
    conversation: &Conversation,
    transcript: &Transcript,
    provider: &ProviderCounts,
    reports: &[ReportsOnView],
) -> Vec<Compacted> {
    let reported_after = |step_count: usize| {
        let first = reports.iter().find(|view| view.step_count == step_count)?.requests.first()?;
        (provider.is_calibrated() && first.is_plausible()).then_some(first.reported)
    };
    let metered = conversation.steps().iter().zip(conversation.metered_steps(transcript));
    let each = (1..).zip(metered).take(COMPACTIONS_MAX);
    let each = each.filter(|(_, (step, _))| step.action != StepAction::Undo);
    let told = each.map(|(step_count, (step, metered)): (usize, (&Step, MeteredStep))| {
        let tokens = |counted: Option<Tokens>| provider.request(counted.unwrap_or_default());
        let before = metered.blocks.first().map(|block| block.tokens_before);
        let after = metered.blocks.last().map(|block| block.tokens_after);
        let reported = step.tokens_before.filter(|tokens| *tokens > Tokens::ZERO && provider.is_calibrated());
        Compacted {
            by: stats::by(step),
            line: step.place.line,
            tokens_before: reported.unwrap_or_else(|| tokens(before)).0,
            tokens_after: reported_after(step_count).unwrap_or_else(|| tokens(after)).0,
        }
    });
    told.collect()
}

impl CacheBreak {
    /// None where nothing was compacted, or nothing reported since.
    fn of(conversation: &Conversation, transcript: &Transcript, model: Option<&str>) -> Option<Self> {
        let step = conversation.steps().last().filter(|step| step.action != StepAction::Undo)?;
        let since = step.item_count()..transcript.len();
        let usage = since.filter_map(|index| transcript.get(index)?.item().usage);
        let usage = usage.into_iter().find(|usage| usage.prompt_tokens() > Tokens::ZERO)?;
        let fresh = usage.input_tokens + usage.cache_write_tokens;
        let prices = model.and_then(Prices::of_model);
        let call = Call { cached: usage.cached_tokens, fresh, output: Tokens::ZERO };
        Some(Self {
            tokens: fresh.0,
            dollars: prices.map(|prices| prices.cost(&call).fresh),
            prices: prices.map(|prices| prices.name),
            dated: prices.map(|prices| prices.dated),
        })
    }
}
