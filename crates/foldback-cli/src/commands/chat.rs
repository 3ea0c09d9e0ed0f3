//! `foldback chat`: an agent in the terminal whose conversations outlive their window.

mod consent;
mod files;
mod saving;
mod screen;
mod shell;
mod words;

use std::io::{BufRead, IsTerminal};
use std::sync::Arc;
use std::thread;

use foldback_core::{Budget, Level, Model, Policy, Room, Text, TokenCounter, Tokens};
use foldback_engine::{DigestBackend, GuardedBackend, StrategyCompactor};
use foldback_formats::answer::ToolSpec;
use foldback_loop::{
    Agent, AgentBuilder, AgentBuilderCompactorExt, AgentLimits, AgentSession, RecallTool, Tool,
};
use tokio::sync::mpsc;

use self::consent::{Consent, Question};
use self::files::{Bounds, EditFile, Ground, ListFolder, ReadFile, WriteFile};
use self::saving::save;
use self::screen::{Reader, Screen};
use self::shell::Shell;
use self::words::{Order, Words};
use crate::args::Shared;
use crate::args::chat::Chat;
use crate::backend::{self, Reach, Served, Spec};
use crate::config::Origin;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupts;
use crate::{counting, policy, terminal};

/// The window where neither the command line nor the model's name says it.
const WINDOW_DEFAULT: Tokens = Tokens(32_000);

/// How much of the level that compacts must be reached for the next compaction to be prepared.
const BACKGROUND_PERCENT: u64 = 80;

/// The part of a window that is kept for an answer, and its bounds.
const ANSWER_DIVISOR: u64 = 8;
const ANSWER_TOKENS_MIN: u64 = 128;
const ANSWER_TOKENS_MAX: u64 = 8_192;

/// Lines that wait to be read; more wait in the pipe.
const LINES_MAX: usize = 16;

/// The name of the session; there is one.
const SESSION: &str = "chat";

const SYSTEM: &str = "\
You work for the person at the terminal, in the folder where they are. Use the tools to find out \
rather than guess, and say what you did in few words. Earlier parts of the conversation may be \
summarised; `recall` brings back what a summary names.";

pub(crate) fn run(shared: &Shared, arguments: &Chat) -> Result<Exit, Failure> {
    let setup = Setup::new(shared, arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Read { path: "the system".into(), error, hint: None })?;
    let done = runtime.block_on(async { setup.open()?.run().await });
    // A thread may still wait for a line that nobody will type.
    runtime.shutdown_background();
    done
}

/// Everything that a conversation is made of.
struct Setup<'a> {
    shared: &'a Shared,
    arguments: &'a Chat,
    served: Served,
    policy: Policy,
    window: Tokens,
    counter: Arc<dyn TokenCounter>,
}

impl<'a> Setup<'a> {
    fn new(shared: &'a Shared, arguments: &'a Chat) -> Result<Self, Failure> {
        let wanted = "such as --model openai:http://127.0.0.1:8080/v1#qwen3, or --model claude-sonnet-4-5";
        let model = arguments.model.as_ref();
        let (model, from) =
            model.ok_or_else(|| Failure::usage("which model?", format!("name it, {wanted}")))?;
        let served = backend::served(model).map_err(|why| {
            let what = format!("{} {model}: {why}", from.name("model"));
            Failure::usage(what, format!("name it, {wanted}"))
        })?;
        let known = Model::named(served.model());
        let window = arguments.window.or(known.map(|known| known.window)).unwrap_or(WINDOW_DEFAULT);
        if known.is_none() && arguments.window.is_none() && !shared.quiet && !shared.json {
            let (model, tokens) = (served.model(), terminal::number(window.0));
            terminal::note(&format!(
                "the model {model} is not known: a window of {tokens} tokens is assumed; --window says how \
                 large it is"
            ));
        }
        let policy = policy::chosen(arguments.policy.as_deref(), &arguments.policy_from)?;
        let counter = counting::counter(shared);
        Ok(Self { shared, arguments, served, policy, window, counter })
    }

    fn open(&self) -> Result<Conversation<'a>, Failure> {
        let is_person = std::io::stdin().is_terminal();
        let reader = match (self.shared.json, is_person && terminal::stdout_is_terminal()) {
            (true, _) => Reader::Script,
            (false, true) => Reader::Person,
            (false, false) => Reader::Pipe,
        };
        let screen = Screen::new(reader, self.window, self.shared.quiet);
        let (sender, questions) = mpsc::channel(1);
        let consent = match (self.arguments.yes, is_person) {
            (true, _) => Consent::Given,
            (false, true) => Consent::asked(sender),
            (false, false) => Consent::Nobody,
        };
        let agent = self.agent(&screen, &consent)?;
        let session = agent.session(SESSION);
        Ok(Conversation {
            session,
            screen,
            questions,
            lines: lines(),
            arguments: self.arguments,
            is_person,
            worst: Exit::Success,
        })
    }

    fn agent(&self, screen: &Screen, consent: &Consent) -> Result<Agent, Failure> {
        let timeout = self.arguments.backend.backend_timeout;
        let reach = self.reach();
        let client = self.served.client("--model", &reach)?;
        screen.sends_to(&self.served.route("--model", &reach, self.chosen_by()));
        let answer = Tokens((self.window.0 / ANSWER_DIVISOR).clamp(ANSWER_TOKENS_MIN, ANSWER_TOKENS_MAX));
        let (builder, tools) = self.with_tools(Agent::builder(), consent)?;
        let overhead = tools.iter().map(|tool| self.cost(tool)).sum();
        let room = Room::new(self.window).output_max(answer).overhead(overhead);
        let budget = self.budget(room)?;
        let mut compactor = StrategyCompactor::builder()
            .policy(&self.policy, room)
            .backend(self.summarizer(screen, timeout, tools)?)
            .limits(self.arguments.backend.limits())
            .observer(screen.clone());
        if self.arguments.background {
            let soft = Tokens(budget.trigger().0 * BACKGROUND_PERCENT / 100);
            compactor = compactor.background(Level::Tokens(soft));
        }
        let compactor = compactor
            .build()
            .map_err(|error| Failure::usage(error.to_string(), "choose another --policy"))?;
        let limits = AgentLimits { answer_tokens_max: Some(answer), ..AgentLimits::default() };
        let builder = builder
            .model(client)
            .system(SYSTEM)
            .budget(budget)
            .limits(limits)
            .counter(Arc::clone(&self.counter))
            .compactor(compactor);
        builder.build().map_err(|error| Failure::usage(error.to_string(), "this is a mistake in foldback"))
    }

    /// The builder with the tools, and what every request says of them.
    fn with_tools(
        &self,
        builder: AgentBuilder,
        consent: &Consent,
    ) -> Result<(AgentBuilder, Vec<ToolSpec>), Failure> {
        if self.arguments.no_tools {
            return Ok((builder, Vec::new()));
        }
        let bounds = if self.arguments.allow_outside { Bounds::Anywhere } else { Bounds::Inside };
        let here = std::env::current_dir().and_then(|here| Ground::new(&here, bounds));
        let ground = here.map_err(|error| Failure::Read { path: ".".into(), error, hint: None })?;
        let read = ReadFile(ground.clone());
        let list = ListFolder(ground.clone());
        let write = WriteFile(ground.clone(), consent.clone());
        let edit = EditFile(ground.clone(), consent.clone());
        let shell = Shell { folder: ground.root().to_owned(), consent: consent.clone() };
        let recall = RecallTool::new();
        let tools: [&dyn Tool; 6] = [&read, &list, &write, &edit, &shell, &recall];
        let specs = tools.map(|tool| ToolSpec {
            name: tool.name().into(),
            description: tool.description().into(),
            input_schema: tool.input_schema(),
        });
        let builder = builder.tool(read).tool(list).tool(write).tool(edit).tool(shell).tool(recall);
        Ok((builder, specs.to_vec()))
    }

    /// What a tool's description costs in every request.
    fn cost(&self, tool: &ToolSpec) -> Tokens {
        let schema = tool.input_schema.to_string();
        [&*tool.name, &*tool.description, &schema].iter().map(|text| self.counter.count(text)).sum()
    }

    fn budget(&self, room: Room) -> Result<Budget, Failure> {
        self.policy.budget(room).map_err(|error| {
            let hint = "raise --window, or use --no-tools: their descriptions are part of every request";
            Failure::usage(error.to_string(), hint)
        })
    }

    /// How the model is reached.
    fn reach(&self) -> Reach<'_> {
        Reach { key_variable: self.arguments.key_env.as_deref(), ..Reach::default() }
    }

    fn chosen_by(&self) -> &Origin {
        self.arguments.model.as_ref().map_or(&Origin::CommandLine, |(_, origin)| origin)
    }

    /// Who writes summaries: the model itself unless another was named. The model that holds the conversation reads it from the provider's cache.
    fn summarizer(
        &self,
        screen: &Screen,
        timeout: Option<std::time::Duration>,
        tools: Vec<ToolSpec>,
    ) -> Result<GuardedBackend, Failure> {
        let flags = &self.arguments.backend;
        let backend = match &flags.backend {
            Some(Spec::Digest) => return Ok(DigestBackend.into()),
            Some(Spec::Served(served)) => {
                let reach = flags.reach();
                screen.sends_to(&served.route("--backend", &reach, &flags.backend_from));
                served.backend("--backend", &reach)?
            }
            None => {
                let reach = Reach { timeout, window: Some(self.window), ..self.reach() };
                self.served.backend("--model", &reach)?
            }
        };
        Ok(match flags.backend {
            None => backend.rides_on_prefix().tools(tools).into(),
            Some(_) => backend.into(),
        })
    }
}

/// A conversation that is going on.
struct Conversation<'a> {
    session: AgentSession,
    screen: Screen,
    questions: mpsc::Receiver<Question>,
    lines: mpsc::Receiver<String>,
    arguments: &'a Chat,
    is_person: bool,
    worst: Exit,
}

impl Conversation<'_> {
    async fn run(mut self) -> Result<Exit, Failure> {
        loop {
            let mut interrupts = Interrupts::new();
            self.screen.prompt();
            let line = tokio::select! {
                line = self.lines.recv() => line,
                () = interrupts.pressed() => None,
            };
            let Some(line) = line else { break };
            match Words::of(&line) {
                Words::Nothing => {}
                Words::Order(Order::Quit) => break,
                Words::Order(order) => self.obey(order).await,
                Words::Unknown(name) => self.screen.note(&words::unknown(name)),
                Words::Said(text) => self.turn(text.into()).await,
            }
            if let Some(path) = &self.arguments.save {
                save(path, &self.session.view())?;
            }
        }
        Ok(self.worst)
    }

    async fn turn(&mut self, text: Text) {
        let mut interrupts = Interrupts::new();
        let mut stream = self.session.stream(text);
        let mut asked: Option<Question> = None;
        loop {
            tokio::select! {
                event = stream.next() => match event {
                    Some(event) => self.screen.event(&event),
                    None => break,
                },
                Some(question) = self.questions.recv(), if asked.is_none() => {
                    self.screen.ask(&question.text);
                    asked = Some(question);
                }
                // On a pipe, lines are turns, one after the other.
                Some(line) = self.lines.recv(), if self.is_person => match asked.take() {
                    Some(question) => {
                        // Whoever asked may have been stopped meanwhile.
                        let _stopped = question.answer.send(words::is_yes(&line));
                    }
                    None => {
                        if let Err(error) = self.session.say(line) {
                            self.screen.note(&error.to_string());
                        }
                    }
                },
                () = interrupts.pressed() => self.session.interrupt(),
            }
        }
        let turn = stream.finish().await;
        self.screen.turn(&turn);
        if turn.is_err() && !self.is_person {
            self.worst = Exit::Negative;
        }
        self.screen.context(self.session.context());
    }

    async fn obey(&mut self, order: Order<'_>) {
        match order {
            Order::Help => self.screen.note(words::HELP),
            Order::Quit => {}
            Order::Context => {
                let view = self.session.view();
                let (seen, recorded) = (view.len(), view.transcript().len());
                let blocks = terminal::counted(view.overlay().blocks().len(), "compaction");
                self.screen.note(&format!("the model sees {seen} of {recorded} items through {blocks}"));
                self.screen.context(self.session.context());
            }
            Order::Compact(focus) => {
                let mut interrupts = Interrupts::new();
                let session = self.session.clone();
                let compacting = session.compact(focus.map(Text::from));
                let done = tokio::select! {
                    done = compacting => done.map_err(|error| error.to_string()),
                    () = interrupts.pressed() => Err("stopped; nothing was changed".to_owned()),
                };
                match done {
                    Ok(round) if !round.failures.is_empty() => {
                        self.screen.not_compacted(&round.failures.join("; "));
                    }
                    Ok(round) if round.dirty.is_empty() => self.screen.note("there is nothing to compact"),
                    Ok(_) => {}
                    Err(why) => self.screen.not_compacted(&why),
                }
                self.screen.context(self.session.context());
            }
            Order::Undo => {
                let told = match self.session.undo().await {
                    Ok(None) => "there is no compaction to undo".to_owned(),
                    Ok(Some(block)) => {
                        let (after, before) = (block.tokens_after.0, block.tokens_before.0);
                        let (after, before) = (terminal::number(after), terminal::number(before));
                        format!("undone: what was folded from {before} to {after} tokens is there again")
                    }
                    Err(error) => error.to_string(),
                };
                self.screen.note(&told);
                self.screen.context(self.session.context());
            }
        }
    }
}

/// Lines of stdin, read on a thread of its own: a terminal cannot be waited for otherwise.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(LINES_MAX);
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
