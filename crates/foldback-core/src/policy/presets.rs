//! The presets, one table. What each system does is what its code did in the version named; where
//! a preset cannot follow it, the note above its steps says so.

use super::{Checked, Economy, GROWTH_TOKENS_DEFAULT, Policy, PolicyTrigger};
use crate::budget::{Level, TARGET_PERCENT, TRIGGER_PERCENT};
use crate::ids::Tokens;
use crate::item::ItemKind;
use crate::strategy::{
    CapToolOutputsStrategy, ClearToolResultsStrategy, DropFailedToolResultsStrategy, DropReasoningStrategy,
    KeepFirstAndRecentItemsStrategy, KeepFirstAndRecentTurnsStrategy, KeepNewestThatFitStrategy,
    KeepRecentStrategy, LadderStrategy, PreserveRecentFractionStrategy, PreserveRecentTurnsStrategy,
    PreserveUserMessagesStrategy, StrategyConfig, SummarizeOlderStrategy, TruncateToolOutputsStrategy,
};

/// A policy before its strategies are built.
pub(super) struct Preset {
    pub(super) name: &'static str,
    about: &'static str,
    choose_when: &'static str,
    triggers: &'static [PolicyTrigger],
    checked: Checked,
    target: Option<Level>,
    economy: Option<Economy>,
    when_recorded: fn() -> Vec<StrategyConfig>,
    steps: fn() -> Vec<StrategyConfig>,
}

impl Preset {
    pub(super) fn policy(&self) -> Policy {
        Policy {
            name: self.name.into(),
            about: self.about.into(),
            choose_when: self.choose_when.into(),
            triggers: self.triggers.to_vec(),
            checked: self.checked,
            target: self.target,
            economy: self.economy,
            when_recorded: (self.when_recorded)(),
            steps: (self.steps)(),
        }
    }
}

const fn share_of_window(percent: f64) -> PolicyTrigger {
    PolicyTrigger::Reaches { at: Level::PercentOfWindow(percent) }
}

/// What the ladder aims for where it goes by cost: deeper costs less and remembers less.
const ECONOMIC_TARGET_PERCENT: f64 = 20.0;

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: super::POLICY_DEFAULT,
        about: "gives up the least valuable first and stops as soon as the view fits",
        choose_when: "Choose it unless you have a reason not to: it is the only one that always reaches its \
                      target, or says what cannot shrink. It keeps the first task, the newest prompt and the \
                      work in flight, and asks for a summary only after clearing old tool outputs was not enough.",
        triggers: &[PolicyTrigger::Reaches { at: Level::PercentOfUsable(TRIGGER_PERCENT) }],
        checked: Checked::EveryCall,
        target: Some(Level::PercentOfUsable(TARGET_PERCENT)),
        economy: Some(Economy {
            target: Level::PercentOfUsable(ECONOMIC_TARGET_PERCENT),
            growth_tokens: GROWTH_TOKENS_DEFAULT,
        }),
        when_recorded: Vec::new,
        steps: || vec![LadderStrategy::new().into()],
    },
    Preset {
        name: "agentkit",
        about: "drops reasoning and failed calls and keeps the newest 8 items",
        choose_when: "Choose it for chats and short tasks where recency decides and no model should be asked. \
                      Everything older than a few exchanges is gone without a summary, prompts and decisions \
                      included: the durable record has to be elsewhere.",
        triggers: &[PolicyTrigger::Items { items_max: 12 }],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        steps: agentkit,
    },
    Preset {
        name: "phi",
        about: "keeps the first 2 and the newest 10 turns and summarises those between",
        choose_when: "Choose it for conversations of many turns where the beginning sets the task and the last \
                      exchanges decide. It counts turns, not tokens, so it does little for one prompt with a \
                      long tool loop.",
        triggers: &[PolicyTrigger::CompactAt { compact_at: 0.90, threshold: 0.05 }],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        steps: phi,
    },
    Preset {
        name: "codex",
        about: "keeps what the user said, up to 20,000 tokens, and a summary after it, as Codex CLI of August \
                2026 does where it asks a model for the summary",
        choose_when: "Choose it where prompts are the durable record and the work can be redone: many \
                      instructions, cheap reads. Nothing of the work itself survives but the summary, so expect \
                      files to be read again.",
        triggers: &[share_of_window(90.0)],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: codex_recorded,
        steps: || vec![PreserveUserMessagesStrategy::new().into()],
    },
    Preset {
        name: "codex-remote",
        about: "keeps what the user said, up to 64,000 tokens, and a summary after it, as Codex CLI 0.169 does \
                where its provider compacts on request",
        choose_when: "Choose it where `codex` fits and the window is large: more than three times as much of \
                      what the user said stays as it was. The summary alone tells of the work, as there.",
        triggers: &[share_of_window(90.0)],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: codex_recorded,
        steps: || vec![PreserveUserMessagesStrategy::new().tokens_max(CODEX_REMOTE_USER_TOKENS).into()],
    },
    Preset {
        name: "gemini",
        about: "summarises the older 70% and keeps the rest from the next user message on",
        choose_when: "Choose it where the last exchanges decide, the user speaks often and the window is large. \
                      It compacts early, at half of the window. A long tool loop after one prompt is not \
                      compacted at all while it runs.",
        triggers: &[share_of_window(50.0)],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        steps: gemini,
    },
    Preset {
        name: "opencode",
        about: "a summary, then the newest units within a quarter of the room, 15,000 tokens at most",
        choose_when: "Choose it to use the window up before compacting and to go on with a small context. \
                      Recency decides: a few thousand tokens of the last turns stay verbatim, and prompts have \
                      no privilege but the newest.",
        triggers: &[PolicyTrigger::InputLimit],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        steps: || vec![PreserveRecentTurnsStrategy::within_tail().into()],
    },
    Preset {
        name: "goose",
        about: "a summary and the newest prompt, nothing else",
        choose_when: "Choose it where each prompt is a task of its own and a good model writes the summary: all \
                      of the past depends on it. It is asked once for each prompt, so a long tool loop can \
                      overflow before it runs.",
        triggers: &[share_of_window(80.0)],
        checked: Checked::OncePerTurn,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        steps: goose,
    },
    Preset {
        name: "anthropic-edit",
        about: "keeps everything but old tool results: the newest 3 stay whole",
        choose_when: "Choose it where tool outputs are most of the context and can be produced again, and \
                      prompts, answers and decisions all matter. It costs no model call. It cannot help where \
                      the conversation itself is too long.",
        triggers: &[PolicyTrigger::Reaches { at: Level::Tokens(Tokens(100_000)) }],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        steps: || vec![ClearToolResultsStrategy::new(3).into()],
    },
    Preset {
        name: "openhands",
        about: "the first 4 items, a summary and the newest 35, whenever there are more than 80",
        choose_when: "Choose it for one long task of many small steps, where the first items say what it is \
                      about and recency decides the rest. It counts items: contexts stay short whatever the \
                      window, and one enormous result stays as it is.",
        triggers: &[PolicyTrigger::Items { items_max: 80 }, share_of_window(100.0)],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        // Down to half of 80 items: 4, the summary, 35.
        steps: || vec![KeepFirstAndRecentItemsStrategy::new(4, 35).into()],
    },
    Preset {
        name: "lcm",
        about: "a summary of everything but the newest 64 items",
        choose_when: "Choose it where much recent work must stay verbatim and the past only in outline, to be \
                      looked up again by handle. With large tool outputs, 64 items can be most of the window.",
        triggers: &[share_of_window(75.0)],
        checked: Checked::EveryCall,
        target: None,
        economy: None,
        when_recorded: Vec::new,
        steps: lcm,
    },
    Preset {
        name: "truncate",
        about: "drops the oldest items until the rest fits the window",
        choose_when: "Choose it as the baseline to compare others with. Recency decides alone: the task and \
                      every rule are forgotten as they age, and once the window is full every call finds a \
                      cold cache.",
        triggers: &[share_of_window(100.0)],
        checked: Checked::EveryCall,
        target: Some(Level::PercentOfUsable(100.0)),
        economy: None,
        when_recorded: Vec::new,
        steps: || vec![KeepNewestThatFitStrategy::new().into()],
    },
];

/// agentkit-compaction 0.11: the pipeline and the count of its book. Hosts may trigger on reported
/// tokens instead (`reported`).
fn agentkit() -> Vec<StrategyConfig> {
    let keep_recent =
        KeepRecentStrategy::new(8).preserve_kind(ItemKind::System).preserve_kind(ItemKind::Context);
    vec![DropReasoningStrategy::new().into(), DropFailedToolResultsStrategy::new().into(), keep_recent.into()]
}

/// phi-core 0.15: what a block of a session keeps. Its compaction without a session is the strategy
/// `three-level`.
fn phi() -> Vec<StrategyConfig> {
    let outputs = TruncateToolOutputsStrategy::by_lines(50).expect("50 lines are enough for a marker");
    vec![KeepFirstAndRecentTurnsStrategy::new(2, 10).into(), outputs.spare_first_turns(2).into()]
}

/// Codex CLI 0.169, remote path: its provider answers a `compaction_trigger`.
const CODEX_REMOTE_USER_TOKENS: Tokens = Tokens(64_000);

/// Codex CLI, August 2026, local path; taken to be the same on the remote one.
fn codex_recorded() -> Vec<StrategyConfig> {
    let outputs = TruncateToolOutputsStrategy::by_tokens(Tokens(10_000)).expect("enough for a marker");
    vec![outputs.shorten_fresh().into()]
}

/// Gemini CLI, August 2026, default path. Measures the 70% in tokens, not in characters.
fn gemini() -> Vec<StrategyConfig> {
    let tail = PreserveRecentFractionStrategy::new(0.3).expect("0.3 is a fraction");
    vec![CapToolOutputsStrategy::default().into(), tail.of_the_view().only_at_user_items().into()]
}

/// goose, May 2026. The fixed text that tells its model to go on is not added: a summary says what
/// it is. Its batches of older tool pairs are not made.
fn goose() -> Vec<StrategyConfig> {
    vec![keeping_the_scene(SummarizeOlderStrategy::new(0))]
}

/// lossless-claw. Its chunks of 20,000 tokens, each with a summary, and the summaries of those are
/// one summary here, because an existing summary is updated and never stacked; what it says of each
/// chunk is up to whoever writes it.
fn lcm() -> Vec<StrategyConfig> {
    vec![keeping_the_scene(SummarizeOlderStrategy::new(64))]
}

fn keeping_the_scene(strategy: SummarizeOlderStrategy) -> StrategyConfig {
    let kinds = [ItemKind::System, ItemKind::Developer, ItemKind::Context];
    kinds.into_iter().fold(strategy, SummarizeOlderStrategy::preserve_kind).into()
}
