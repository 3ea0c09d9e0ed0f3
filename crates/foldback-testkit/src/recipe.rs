//! Random transcripts, built from recipes that shrink well: a recipe is a list of steps, each a
//! handful of small numbers.

use std::sync::LazyLock;

use foldback_core::{
    Blob, File, Item, ItemKind, Json, Media, Opaque, Part, Reasoning, ResultPart, Text, ToolCall, ToolInput,
    ToolResult, Transcript,
};
use proptest::prelude::{Just, Strategy as Generator, any, prop, prop_oneof};

/// A text, described.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// Nothing at all.
    Empty,
    /// White space only.
    Blank,
    /// English words.
    English(u16),
    /// Lines of a log, some of them errors.
    Log(u16),
    /// One long line without a space.
    Line(u16),
    /// Chinese.
    Chinese(u16),
    /// Emoji, some of several code points.
    Emoji(u16),
    /// Russian.
    Russian(u16),
    /// Two megabytes in a single line.
    Huge,
}

/// Bytes of [`Words::Huge`].
pub const HUGE_BYTES: usize = 2 * 1024 * 1024;

static HUGE: LazyLock<Text> = LazyLock::new(|| "x1".repeat(HUGE_BYTES / 2).into());

impl Words {
    fn text(self) -> Text {
        let repeat = |words: &str, count: u16| Text::from(words.repeat(usize::from(count)));
        match self {
            Self::Empty => "".into(),
            Self::Blank => " \n\t".into(),
            Self::English(count) => repeat("the quick engine folds what it has read; ", count),
            Self::Log(count) => {
                let line = |number: u16| match number % 17 {
                    16 => format!("error: step {number} failed with code 2\n"),
                    _ => format!("12:0{} INFO step {number} took {} ms\n", number % 10, number * 7),
                };
                (0..count).map(line).collect::<String>().into()
            }
            Self::Line(count) => repeat("abcdef012345", count),
            Self::Chinese(count) => repeat("对话越来越长直到放不下", count),
            Self::Emoji(count) => repeat("🦀👩‍👩‍👧🏽", count),
            Self::Russian(count) => repeat("разговор становится длиннее ", count),
            Self::Huge => HUGE.clone(),
        }
    }
}

/// Random texts; most are short, few are huge.
pub fn words() -> impl Generator<Value = Words> {
    prop_oneof![
        30 => (0u16..30).prop_map(Words::English),
        15 => (0u16..120).prop_map(Words::Log),
        5 => (0u16..900).prop_map(Words::Line),
        5 => (0u16..60).prop_map(Words::Chinese),
        4 => (0u16..60).prop_map(Words::Emoji),
        4 => (0u16..60).prop_map(Words::Russian),
        3 => Just(Words::Empty),
        2 => Just(Words::Blank),
    ]
}

/// Text that says something, as recorded sessions mostly hold.
fn spoken() -> impl Generator<Value = Words> {
    prop_oneof![
        20 => (1u16..30).prop_map(Words::English),
        5 => (1u16..60).prop_map(Words::Chinese),
        2 => (1u16..300).prop_map(Words::English),
    ]
}

/// How the items of one tool round lie.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// One assistant item, one tool item per result, in order.
    Usual,
    /// One tool item with all results.
    OneToolItem,
    /// One assistant item per call, then the results.
    SplitCalls,
    /// Results in reverse order.
    Reversed,
    /// A notification between the calls and the results.
    Interrupted,
    /// The results after the next step.
    Late,
}

/// One call of a round and its result.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    tool: u8,
    input: Words,
    output: Words,
    outcome: Outcome,
}

/// What came of a call.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// It worked.
    Ok,
    /// It failed.
    Failed,
    /// It answered with more than text.
    Showing(Shown),
    /// It was never answered.
    Silent,
    /// Its id had been used before.
    RepeatedId,
    /// It was answered twice.
    Twice,
}

/// What is shown beside text.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// An image, in the request.
    Image,
    /// An image, at an address.
    Linked,
    /// A document.
    File,
    /// JSON.
    Structured,
    /// Something that the reader did not understand.
    Opaque,
}

impl Shown {
    fn part(self) -> ResultPart {
        match self {
            Self::Image => ResultPart::Media(image(Blob::Base64("iVBORw0KGgo=".into()))),
            Self::Linked => ResultPart::Media(image(Blob::Url("https://example.com/image.png".into()))),
            Self::File => ResultPart::File(File {
                name: Some("notes.txt".into()),
                media_type: "text/plain".into(),
                data: Blob::Text(Words::English(40).text()),
            }),
            Self::Structured => {
                ResultPart::Structured(Json::from_value(&serde_json::json!({"lines": [1, 2]})))
            }
            Self::Opaque => ResultPart::Opaque(opaque()),
        }
    }
}

fn shown() -> impl Generator<Value = Shown> {
    prop_oneof![
        4 => Just(Shown::Image),
        1 => Just(Shown::Linked),
        2 => Just(Shown::File),
        1 => Just(Shown::Structured),
        1 => Just(Shown::Opaque),
    ]
}

/// One step of a conversation.
#[derive(Clone, Debug)]
pub enum Step {
    /// An item of a kind other than assistant and tool, with text.
    Speak(ItemKind, Words),
    /// A user item with something to look at.
    Show(Words, Vec<Shown>),
    /// An assistant item: thinking (perhaps sealed) and text.
    Reply(Option<bool>, Words),
    /// A round of parallel calls, perhaps with thinking and text before them.
    Round(Option<bool>, Option<Words>, Vec<Call>, Layout),
    /// A result that nobody asked for.
    Orphan(Words),
    /// An item without parts, or with something not understood.
    Odd(ItemKind, bool),
    /// Thinking recorded as an item of its own, perhaps an instruction, and the text that it led to.
    Thought(bool, Option<ItemKind>, Words),
    /// Pins the item that is this far before the last.
    Pin(u8),
}

/// How far back a pin may reach: to the thinking before a round of calls that were recorded apart.
const PIN_REACH: u8 = 5;

fn call(odd: bool) -> impl Generator<Value = Call> {
    let usual = prop_oneof![
        10 => Just(Outcome::Ok),
        3 => Just(Outcome::Failed),
        1 => shown().prop_map(Outcome::Showing),
    ];
    let outcome = match odd {
        false => usual.boxed(),
        true => prop_oneof![
            10 => usual,
            1 => Just(Outcome::Silent),
            1 => Just(Outcome::RepeatedId),
            1 => Just(Outcome::Twice),
        ]
        .boxed(),
    };
    let output = prop_oneof![200 => words().boxed(), 1 => Just(Words::Huge).boxed()];
    (0u8..4, words(), output, outcome).prop_map(|(tool, input, output, outcome)| Call {
        tool,
        input,
        output,
        outcome,
    })
}

fn layout(odd: bool) -> impl Generator<Value = Layout> {
    let usual = prop_oneof![6 => Just(Layout::Usual), 2 => Just(Layout::OneToolItem)];
    match odd {
        false => usual.boxed(),
        true => prop_oneof![
            2 => usual,
            1 => Just(Layout::SplitCalls),
            1 => Just(Layout::Reversed),
            1 => Just(Layout::Interrupted),
            1 => Just(Layout::Late),
        ]
        .boxed(),
    }
}

fn step(odd: bool) -> impl Generator<Value = Step> {
    let has_step = |kind: &ItemKind| matches!(kind, ItemKind::User | ItemKind::Assistant | ItemKind::Tool);
    let kinds: Vec<ItemKind> = ItemKind::ALL.into_iter().filter(|kind| !has_step(kind)).collect();
    let instructions = [ItemKind::System, ItemKind::Developer];
    let said = || if odd { words().boxed() } else { spoken().boxed() };
    let thinking = || prop::option::weighted(0.3, any::<bool>());
    let usual = prop_oneof![
        4 => said().prop_map(|words| Step::Speak(ItemKind::User, words)),
        1 => (prop::sample::select(kinds), said()).prop_map(|(kind, words)| Step::Speak(kind, words)),
        1 => (said(), prop::collection::vec(shown(), 1..3)).prop_map(|(words, shown)| Step::Show(words, shown)),
        3 => (thinking(), said()).prop_map(|(thinking, words)| Step::Reply(thinking, words)),
        8 => (thinking(), prop::option::of(said()), prop::collection::vec(call(odd), 1..4), layout(odd))
            .prop_map(|(thinking, words, calls, layout)| Step::Round(thinking, words, calls, layout)),
        1 => (any::<bool>(), prop::option::of(prop::sample::select(instructions.to_vec())), said())
            .prop_map(|(sealed, between, words)| Step::Thought(sealed, between, words)),
        2 => (0..PIN_REACH).prop_map(Step::Pin),
    ];
    match odd {
        false => usual.boxed(),
        true => prop_oneof![
            12 => usual,
            1 => words().prop_map(Step::Orphan),
            1 => (prop::sample::select(ItemKind::ALL.to_vec()), any::<bool>()).prop_map(|(kind, opaque)| Step::Odd(kind, opaque)),
        ]
        .boxed(),
    }
}

/// A recipe: its steps, and how many results of the last round are still to come.
#[derive(Clone, Debug)]
pub struct Recipe {
    steps: Vec<Step>,
    pending: u8,
}

/// Random recipes: orderly conversations, odd ones, and one prompt with 300 tool rounds.
pub fn recipe() -> impl Generator<Value = Recipe> {
    let long = (spoken(), call(false), call(false)).prop_map(|(task, call, other)| {
        let round = |number: usize| {
            let calls = if number.is_multiple_of(7) { vec![call, other] } else { vec![call] };
            Step::Round(number.is_multiple_of(3).then_some(true), None, calls, Layout::Usual)
        };
        std::iter::once(Step::Speak(ItemKind::User, task)).chain((0..300).map(round)).collect::<Vec<_>>()
    });
    let steps = prop_oneof![
        60 => prop::collection::vec(step(false), 0..24).boxed(),
        40 => prop::collection::vec(step(true), 0..24).boxed(),
        1 => long.boxed(),
    ];
    (steps, 0u8..3).prop_map(|(steps, pending)| Recipe { steps, pending })
}

/// Recipes of orderly conversations only: valid in every dialect but for what each forbids.
pub fn orderly() -> impl Generator<Value = Recipe> {
    (prop::collection::vec(step(false), 0..24), 0u8..2).prop_map(|(steps, pending)| Recipe { steps, pending })
}

impl Recipe {
    /// The items.
    pub fn items(&self) -> Vec<Item> {
        let mut kitchen = Kitchen::default();
        for step in &self.steps {
            let late = std::mem::take(&mut kitchen.late);
            kitchen.cook(step);
            kitchen.items.extend(late);
        }
        let late = std::mem::take(&mut kitchen.late);
        kitchen.items.extend(late);
        let mut items = kitchen.items;
        for _ in 0..self.pending {
            if items.last().is_some_and(|item| item.kind == ItemKind::Tool && item.parts.len() == 1) {
                items.pop();
            }
        }
        items
    }

    /// The items as a transcript that counts by estimate.
    pub fn transcript(&self) -> Transcript {
        self.items().into_iter().collect()
    }
}

#[derive(Default)]
struct Kitchen {
    items: Vec<Item>,
    late: Vec<Item>,
    call_count: usize,
}

impl Kitchen {
    fn id(&self) -> String {
        format!("i{}", self.items.len())
    }

    fn push(&mut self, kind: ItemKind, parts: Vec<Part>) {
        let item = Item::new(self.id(), kind, parts);
        self.items.push(item);
    }

    fn cook(&mut self, step: &Step) {
        match step {
            Step::Speak(kind, words) => self.push(*kind, vec![Part::Text(words.text())]),
            Step::Show(words, shown) => {
                let shown = shown.iter().map(|shown| match shown.part() {
                    ResultPart::Text(text) => Part::Text(text),
                    ResultPart::Media(media) => Part::Media(media),
                    ResultPart::File(file) => Part::File(file),
                    ResultPart::Structured(json) => Part::Structured(json),
                    ResultPart::Opaque(opaque) => Part::Opaque(opaque),
                });
                self.push(ItemKind::User, std::iter::once(Part::Text(words.text())).chain(shown).collect());
            }
            Step::Reply(thinking, words) => {
                let mut parts: Vec<Part> = thinking.map(reasoning).into_iter().collect();
                parts.push(Part::Text(words.text()));
                self.push(ItemKind::Assistant, parts);
            }
            Step::Round(thinking, words, calls, layout) => self.round(*thinking, *words, calls, *layout),
            Step::Orphan(words) => {
                let result = ToolResult::text(format!("nobody-{}", self.items.len()), words.text());
                self.push(ItemKind::Tool, vec![Part::ToolResult(result)]);
            }
            Step::Odd(kind, is_opaque) => {
                self.push(*kind, if *is_opaque { vec![Part::Opaque(opaque())] } else { Vec::new() });
            }
            Step::Thought(sealed, between, words) => {
                self.push(ItemKind::Assistant, vec![reasoning(*sealed)]);
                if let Some(kind) = between {
                    self.push(*kind, vec![Part::text("answer briefly")]);
                }
                self.push(ItemKind::Assistant, vec![Part::Text(words.text())]);
            }
            Step::Pin(back) => {
                let pinned = self.items.iter_mut().rev().nth(usize::from(*back));
                if let Some(item) = pinned {
                    *item = item.clone().pinned();
                }
            }
        }
    }

    fn round(&mut self, thinking: Option<bool>, words: Option<Words>, calls: &[Call], layout: Layout) {
        let mut parts: Vec<Part> = thinking.map(reasoning).into_iter().collect();
        parts.extend(words.map(|words| Part::Text(words.text())));
        let mut results = Vec::new();
        for call in calls {
            let (made, answers) = self.call(*call);
            if matches!(layout, Layout::SplitCalls) && !parts.is_empty() {
                self.push(ItemKind::Assistant, std::mem::take(&mut parts));
            }
            parts.push(made);
            results.extend(answers);
        }
        self.push(ItemKind::Assistant, parts);
        if matches!(layout, Layout::Reversed) {
            results.reverse();
        }
        if matches!(layout, Layout::Interrupted) {
            self.push(ItemKind::Notification, vec![Part::text("a job has finished")]);
        }
        match layout {
            Layout::OneToolItem => {
                self.push(ItemKind::Tool, results.into_iter().map(Part::ToolResult).collect())
            }
            Layout::Late => {
                let id = format!("late{}", self.items.len());
                let late = results.into_iter().enumerate();
                self.late.extend(late.map(|(number, result)| Item::tool(format!("{id}-{number}"), result)));
            }
            Layout::Usual | Layout::SplitCalls | Layout::Reversed | Layout::Interrupted => {
                results
                    .into_iter()
                    .for_each(|result| self.push(ItemKind::Tool, vec![Part::ToolResult(result)]));
            }
        }
    }

    fn call(&mut self, call: Call) -> (Part, Vec<ToolResult>) {
        if !matches!(call.outcome, Outcome::RepeatedId) {
            self.call_count += 1;
        }
        let id = format!("c{}", self.call_count);
        let name = ["read", "write", "shell", "search"][usize::from(call.tool)];
        let input = call.input.text();
        let input = match call.tool {
            3 => ToolInput::Text(input),
            _ => ToolInput::Json(Json::from_value(
                &serde_json::json!({"path": "src/lib.rs", "content": input.as_str()}),
            )),
        };
        let made =
            Part::ToolCall(ToolCall { id: id.as_str().into(), name: name.into(), input, signature: None });
        let mut result = ToolResult::text(id.as_str(), call.output.text());
        let answers = match call.outcome {
            Outcome::Ok | Outcome::RepeatedId => vec![result],
            Outcome::Failed => {
                result.is_error = true;
                vec![result]
            }
            Outcome::Showing(shown) => {
                result.content.push(shown.part());
                vec![result]
            }
            Outcome::Silent => Vec::new(),
            Outcome::Twice => vec![result.clone(), result],
        };
        (made, answers)
    }
}

fn image(data: Blob) -> Media {
    Media { media_type: "image/png".into(), data, pixels: Some((1_024, 768)) }
}

fn opaque() -> Opaque {
    let json = Json::from_value(&serde_json::json!({"type": "server_tool", "n": 1}));
    Opaque { source: "test/server_tool".into(), json }
}

fn reasoning(sealed: bool) -> Part {
    let signature = sealed.then(|| Text::from("c2lnbmVk"));
    Part::Reasoning(Reasoning {
        text: "first this, then that, because of the other".into(),
        signature,
        ..Reasoning::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;

    /// Recipes that are drawn before every kind of part must have come up.
    const DRAWN_MAX: usize = 2_000;

    /// A new variant stops the build here: add it to a step, and to the numbers below.
    fn part_number(part: &Part) -> usize {
        match part {
            Part::Text(_) => 0,
            Part::Reasoning(_) => 1,
            Part::ToolCall(_) => 2,
            Part::ToolResult(_) => 3,
            Part::Media(_) => 4,
            Part::File(_) => 5,
            Part::Structured(_) => 6,
            Part::Opaque(_) => 7,
        }
    }

    fn result_part_number(part: &ResultPart) -> usize {
        match part {
            ResultPart::Text(_) => 8,
            ResultPart::Media(_) => 9,
            ResultPart::File(_) => 10,
            ResultPart::Structured(_) => 11,
            ResultPart::Opaque(_) => 12,
        }
    }

    #[test]
    fn recipes_lead_to_every_kind_of_part() {
        let mut runner = TestRunner::deterministic();
        let mut seen = BTreeSet::new();
        for _ in 0..DRAWN_MAX {
            let recipe = recipe().new_tree(&mut runner).expect("a recipe can be drawn").current();
            for part in recipe.items().iter().flat_map(|item| &item.parts) {
                seen.insert(part_number(part));
                if let Part::ToolResult(result) = part {
                    seen.extend(result.content.iter().map(result_part_number));
                }
            }
        }
        assert!(seen.iter().copied().eq(0..13), "{seen:?}");
    }
}
