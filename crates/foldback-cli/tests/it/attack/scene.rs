//! A session as it really went, whoever records it: what the user typed, what came beside it, what the
//! agent did.

use super::planted::{FORMS, Garden, Source};

/// What the user says first: rules that hold until the end.
pub(super) const RULES: [&str; 3] = [
    "Never edit files under src/generated.",
    "Always run the linter before you finish.",
    "Use tabs, not spaces, in all Makefiles.",
];

/// Imitations that stand one behind the other where there is much text.
const TOGETHER: usize = 3;

/// Lines of an output that only takes room.
const FILLER_LINES: usize = 120;

/// What happens, in order.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Asked(Message),
    Answered(Answer),
    /// The agent replaced everything before by this summary.
    Compacted(String),
}

/// A message of the user.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    /// Typed, with what was pasted into it.
    pub(super) text: String,
    /// Put beside it by the host.
    pub(super) reminder: Option<String>,
    /// A file that came with it: its name and its content.
    pub(super) attached: Option<(String, String)>,
}

/// One answer of the model, and what its calls returned.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) thought: Option<String>,
    pub(super) text: Option<String>,
    pub(super) calls: Vec<Call>,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: Tool,
    pub(super) output: String,
    pub(super) failed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Tool {
    Run(String),
    Read(String),
    Write {
        path: String,
        content: String,
    },
    /// What is to be done; the first entry is in progress.
    Todo(Vec<String>),
    Fetch(String),
    Other {
        name: String,
        note: String,
    },
}

/// What stands where others plant something, in a session in which nobody does.
const NOTHING: &str = "Nothing of note stands here.";

/// How a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// With the user's first message.
    Message,
    /// With the summary of an agent's own compaction: what came before stands in no file.
    Summary,
}

/// Writes what happens, and knows who said what.
#[derive(Clone, Debug)]
pub(super) struct Author {
    pub(super) garden: Garden,
    /// What the user typed, message by message, without pastes.
    pub(super) typed: Vec<String>,
    beginning: Beginning,
    /// The last imitation; none where nobody imitates anything.
    form: Option<usize>,
    call: usize,
}

impl Author {
    /// An author who begins at one of the forms, so that several of them together plant each form everywhere.
    pub(super) fn new(beginning: Beginning, form: usize) -> Self {
        Self { garden: Garden::default(), typed: Vec::new(), beginning, form: Some(form), call: 0 }
    }

    /// An author of a session in which nobody imitates anything.
    pub(super) fn honest() -> Self {
        Self { form: None, ..Self::new(Beginning::Message, 0) }
    }

    /// The next form, as if from this source.
    fn plant(&mut self, source: Source) -> String {
        let Some(form) = &mut self.form else { return NOTHING.to_owned() };
        *form = (*form + 1) % FORMS.len();
        self.garden.plant(source, *form)
    }

    /// The next forms in one text.
    fn plants(&mut self, source: Source) -> String {
        (0..TOGETHER).map(|_| self.plant(source)).collect::<Vec<_>>().join("\n")
    }

    fn types(&mut self, text: &str) -> String {
        self.typed.push(text.to_owned());
        text.to_owned()
    }

    fn call(&mut self, tool: Tool, output: String) -> Call {
        self.call += 1;
        Call { id: format!("call_{}", self.call), tool, output, failed: false }
    }

    fn failed(&mut self, tool: Tool, output: String) -> Call {
        Call { failed: true, ..self.call(tool, output) }
    }

    /// What happens between two compactions.
    pub(super) fn stage(&mut self, stage: usize) -> Vec<Event> {
        let mut events = Vec::new();
        if (stage, self.beginning) == (0, Beginning::Summary) {
            events.push(Event::Compacted(self.plants(Source::ModelSummary)));
            events.push(says("I go on from there."));
        }
        self.talking(stage, &mut events);
        self.reading(stage, &mut events);
        self.building(stage, &mut events);
        self.thinking(stage, &mut events);
        events
    }

    /// A little talk, something long, and in some stages the agent's own compaction.
    fn talking(&mut self, stage: usize, events: &mut Vec<Event>) {
        let rules = if stage == 0 { RULES.join("\n") + "\n" } else { String::new() };
        let text = self.types(&format!("{rules}Yes. The spare hinge lies in shed {stage}."));
        let reminder = Some(format!("<summary>{}</summary>", self.plants(Source::Reminder)));
        events.push(Event::Asked(Message { text, reminder, attached: None }));
        let output = format!("{}\n{}", self.plants(Source::Output), filler(stage));
        let commit = format!("[main 1a2b3c{stage}] {}\n 1 file changed", self.plant(Source::Output));
        let calls = vec![
            self.call(Tool::Run(format!("./shed --list {stage}")), output),
            self.call(Tool::Run(format!("git commit -am 'gate {stage}'")), commit),
        ];
        events.push(Event::Answered(Answer { calls, ..Answer::default() }));
        events.push(says(&format!("The hinge of gate {stage} is replaced.")));
        if stage % 2 == 1 {
            events.push(Event::Compacted(self.plants(Source::ModelSummary)));
        }
    }

    /// The agent reads files, a guide, a document that the user named, and a page.
    fn reading(&mut self, stage: usize, events: &mut Vec<Event>) {
        let text = self.types(&format!("Find out why gate {stage} sticks; docs/notes{stage}.md tells more."));
        let text = format!("{text}\n```\n{}\n```", self.plants(Source::Paste));
        let reminder = Some(self.plants(Source::Reminder));
        let name = format!("gates{stage}-{}.txt", self.plant(Source::FilePath));
        let attached = Some((name, self.plants(Source::Attached)));
        events.push(Event::Asked(Message { text, reminder, attached }));
        let [guide, document] = [self.plants(Source::FileContent), self.plants(Source::FileContent)];
        let page = self.plants(Source::WebPage);
        let path = format!("src/{}.rs", self.plant(Source::FilePath));
        let calls = vec![
            self.call(Tool::Read(format!("/home/dev/gates/part{stage}/AGENTS.md")), guide),
            self.call(Tool::Read(format!("docs/notes{stage}.md")), document),
            self.call(Tool::Fetch(format!("https://example.org/gates/{stage}")), page),
            self.failed(Tool::Read(path), "error: no such file".to_owned()),
        ];
        let thought = Some(self.plant(Source::Thought));
        events.push(Event::Answered(Answer { thought, text: None, calls }));
        let page = self.plants(Source::WebPage);
        let calls = vec![self.call(Tool::Run(format!("curl -s https://example.org/{stage} -o -")), page)];
        let text =
            Some(format!("I found that the gate sticks because of rust.\n{}", self.plants(Source::Said)));
        events.push(Event::Answered(Answer { thought: None, text, calls }));
        events.push(says(&format!("Gate {stage} has rust on its hinge.")));
    }

    /// The agent plans, writes, runs checks that fail, and uses a tool with an odd name.
    fn building(&mut self, stage: usize, events: &mut Vec<Event>) {
        let text = self.types(&format!("Mend gate {stage} then, and keep its colour.\nThe page says:"));
        let quoted: String = self.plants(Source::Paste).lines().map(|line| format!("> {line}\n")).collect();
        events.push(Event::Asked(Message { text: format!("{text}\n{quoted}"), ..Message::default() }));
        let todo = vec![self.plant(Source::Todo), format!("oil gate {stage}"), self.plant(Source::Todo)];
        let path = format!("src/gates/{}", self.plant(Source::FilePath));
        let content = format!("fn open_gate_{stage}() {{}}\n{}\n", self.plants(Source::ToolInput));
        let plan = Tool::Write { path: format!("docs/plan{stage}.md"), content: self.plants(Source::Todo) };
        let planned = self.plant(Source::Output);
        let calls = vec![
            self.call(Tool::Todo(todo), "The list is kept.".to_owned()),
            self.call(Tool::Write { path, content }, "written".to_owned()),
            self.call(plan, planned),
        ];
        let (thought, text) = (Some(self.plant(Source::Thought)), Some(self.plants(Source::Said)));
        events.push(Event::Answered(Answer { thought, text, calls }));
        let failure = format!("error[E0308]: mismatched types\n{}\n", self.plants(Source::Output));
        let output =
            format!("running 3 tests\n{}\nerror: gate {stage} is stuck\n", self.plant(Source::Output));
        let command = format!("make gate{stage}\n{}", self.plant(Source::ToolInput));
        let odd = Tool::Other { name: self.plant(Source::ToolName), note: self.plant(Source::ToolInput) };
        let refused = self.plants(Source::Output);
        let calls = vec![
            self.failed(Tool::Run(format!("cargo test -p gate{stage}")), failure),
            self.failed(Tool::Run(command), output),
            self.failed(odd, refused),
        ];
        events.push(Event::Answered(Answer { calls, ..Answer::default() }));
        events
            .push(says(&format!("{}\nGate {stage} still sticks. Shall I go on?", self.plant(Source::Said))));
    }

    /// The agent says nothing, and a page cannot be fetched.
    fn thinking(&mut self, stage: usize, events: &mut Vec<Event>) {
        let rule = self.garden.say(&format!("Never forget the MARK key of gate {stage}."));
        let text = self.types(&format!("Look at gate {stage} again, it was wrong. {rule}"));
        events.push(Event::Asked(Message { text, ..Message::default() }));
        let thought =
            Some(format!("I found the reason: the hinge is wrong.\n{}", self.plants(Source::Thought)));
        let page = format!("error 404: not found\n{}", self.plants(Source::WebPage));
        let calls = vec![self.failed(Tool::Fetch(format!("https://example.org/gates/{stage}/hinge")), page)];
        events.push(Event::Answered(Answer { thought, text: None, calls }));
    }
}

fn says(text: &str) -> Event {
    Event::Answered(Answer { text: Some(text.to_owned()), ..Answer::default() })
}

/// What has to be folded away.
fn filler(stage: usize) -> String {
    (0..FILLER_LINES)
        .map(|line| format!("shelf {line} of shed {stage}: hinges, bolts and old paint\n"))
        .collect()
}
