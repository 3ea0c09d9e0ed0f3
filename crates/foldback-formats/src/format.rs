//! The list of formats, and what each can do: [`Format`], [`SessionFile`], and the seam between them.

use std::fmt;
use std::ops::{Deref, Range};
use std::str::FromStr;
use std::sync::Arc;

use foldback_core::{Dialect, ItemId, Text, Tokens, View};
use foldhash::HashMap;

use crate::conversation::{Conversation, Extension, Note, Sent};
use crate::detect::{BEGINNING_BYTES, Fit, Probe, detect, detect_by_beginning};
use crate::error::{Fault, FormatError, Problem};
use crate::file_end::FileEnd;
use crate::new_ids::NewIds;
use crate::pieces::Source;
use crate::{dialect, recording, session};

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $label:literal, $codec:expr;)+) => {
        /// A form in which conversations are stored or sent.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $variant,)+
        }

        impl Format {
            /// Every format, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name used on the command line.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The name for people.
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }

            pub(crate) fn codec(self) -> &'static dyn Codec {
                match self { $(Self::$variant => &$codec,)+ }
            }
        }
    };
}

formats! {
    /// foldback's own JSONL.
    Native, "native", "foldback native", session::native::Native;
    /// Anthropic Messages requests.
    Anthropic, "anthropic", "Anthropic Messages request", dialect::anthropic::Anthropic;
    /// OpenAI Chat Completions requests.
    OpenaiChat, "openai-chat", "OpenAI Chat Completions request", dialect::openai_chat::OpenaiChat;
    /// OpenAI Responses requests.
    OpenaiResponses, "openai-responses", "OpenAI Responses request", dialect::openai_responses::OpenaiResponses;
    /// Gemini generateContent requests.
    Gemini, "gemini", "Gemini request", dialect::gemini::Gemini;
    /// Session files of Claude Code.
    ClaudeCode, "claude-code", "Claude Code session", session::claude_code::ClaudeCode;
    /// Rollout files of Codex CLI.
    Codex, "codex", "Codex CLI rollout", session::codex::Codex;
    /// Session files of Gemini CLI.
    GeminiCli, "gemini-cli", "Gemini CLI session", session::gemini_cli::GeminiCli;
    /// Exports of opencode.
    Opencode, "opencode", "opencode export", session::opencode::Opencode;
    /// Session files of pi and OpenClaw.
    Pi, "pi", "pi or OpenClaw session", session::pi::Pi;
    /// Event files of Copilot CLI.
    CopilotCli, "copilot-cli", "Copilot CLI events", session::copilot_cli::CopilotCli;
    /// Message files of Cline.
    Cline, "cline", "Cline messages", recording::cline::Cline;
    /// Trajectories of SWE-agent.
    SweAgent, "swe-agent", "SWE-agent trajectory", recording::swe_agent::SweAgent;
    /// Trajectories of mini-swe-agent.
    MiniSweAgent, "mini-swe-agent", "mini-swe-agent trajectory", recording::mini_swe_agent::MiniSweAgent;
    /// Events of OpenHands.
    OpenHands, "openhands", "OpenHands events", recording::openhands::OpenHands;
    /// Logged calls of the OpenHands SDK.
    LlmLog, "llm-log", "OpenHands LLM log", recording::llm_log::LlmLog;
    /// The agent trajectory interchange format.
    Atif, "atif", "ATIF trajectory", recording::atif::Atif;
    /// Conversations of Forge.
    Forge, "forge", "Forge conversation", recording::forge::Forge;
    /// Trajectories of Moatless.
    Moatless, "moatless", "Moatless trajectory", recording::moatless::Moatless;
    /// Results of tau-bench, several conversations each.
    TauBench, "tau-bench", "tau-bench results", recording::tau_bench::TauBench;
}

impl Format {
    /// Whether foldback writes it.
    pub fn is_writable(self) -> bool {
        self.codec().is_writable()
    }

    /// Whether conversations in one file stand side by side, each with a window of its own. In other
    /// formats the first is the session, and the others are its sub-agents'.
    pub fn holds_many(self) -> bool {
        matches!(self, Self::Native | Self::TauBench)
    }

    /// Whether a compaction of a session in this format is written behind its records, which stay where
    /// they are. A session that nothing can be added to is written anew all the same.
    pub fn grows_at_its_end(self) -> bool {
        matches!(
            self,
            Self::Native | Self::ClaudeCode | Self::Codex | Self::GeminiCli | Self::Pi | Self::CopilotCli
        )
    }

    /// The dialect that a request of this format is, if it is one.
    pub fn dialect(self) -> Option<Dialect> {
        match self {
            Self::Anthropic => Some(Dialect::Anthropic),
            Self::OpenaiChat => Some(Dialect::OpenaiChat),
            Self::OpenaiResponses => Some(Dialect::OpenaiResponses),
            Self::Gemini => Some(Dialect::Gemini),
            _ => None,
        }
    }
}

impl From<Dialect> for Format {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Anthropic => Self::Anthropic,
            Dialect::OpenaiChat => Self::OpenaiChat,
            Dialect::OpenaiResponses => Self::OpenaiResponses,
            Dialect::Gemini => Self::Gemini,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|format| format.as_str() == name).ok_or_else(|| name.to_owned())
    }
}

/// What a format must do. An implementor never panics, whatever the bytes, and reads no clock.
pub(crate) trait Codec: Sync {
    /// How well the content fits.
    fn fits(&self, probe: &Probe<'_>) -> Fit;

    /// Reads all of it. Records that cannot be read are problems; only where nothing can be read
    /// is there an error.
    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError>;

    /// Reads all of a file that is not in memory; none where that is not possible, or failed: then
    /// [`read`](Self::read) says why.
    fn read_from(&self, _source: &dyn Source) -> Option<Reading> {
        None
    }

    /// The main conversation as it stood at a record of this name, in formats whose sessions are trees.
    fn conversation_at(&self, _bytes: &[u8], _record: &str) -> Option<Conversation> {
        None
    }

    /// Whether [`write`](Self::write) works.
    fn is_writable(&self) -> bool {
        false
    }

    /// A fresh file of these items. Where `like` is a session of the same format, everything in it
    /// that is not the conversation stays as it is.
    fn write(&self, _sent: &[Sent], _like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        None
    }

    /// The order in which the format's compaction record can show these items.
    fn arrange(&self, sent: Vec<Sent>) -> Vec<Sent> {
        sent
    }

    /// The record of a compaction, with what the agent needs to resume and foldback's note. `None` where
    /// the format has no such record.
    fn append(&self, _session: &SessionFile, _committed: &Committed<'_>) -> Option<Added> {
        None
    }

    /// A fresh file of a session with a compaction, where none can be added to it.
    fn rewrite(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<(Vec<u8>, Vec<Loss>)> {
        self.write(&committed.sent, Some(session))
    }

    /// The same for a file of which only the end is at hand; its compaction record goes behind it.
    /// `None` where that is not enough.
    fn append_behind(
        &self,
        _contents: &Contents,
        _end: &FileEnd<'_>,
        _committed: &Committed<'_>,
    ) -> Option<Vec<u8>> {
        None
    }
}

/// A compaction to be written: what the model sees after it, and the record of it.
#[derive(Clone, Debug)]
pub struct Committed<'a> {
    /// Whose compaction it is.
    pub conversation: &'a Conversation,
    /// What the model sees now, in the order in which the session's format can show it.
    pub sent: Vec<Sent>,
    pub(crate) note: Note,
}

/// A record that was added to a session.
#[derive(Debug)]
pub(crate) enum Added {
    /// What goes behind the file.
    Behind(Vec<u8>),
    /// All of the file, with the record within.
    Within(Vec<u8>),
}

/// What a reader found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// The main conversation first.
    pub(crate) conversations: Vec<Conversation>,
    /// What could not be read.
    pub(crate) problems: Vec<Problem>,
    /// The dialect that the agent spoke, where the file shows it.
    pub(crate) dialect: Option<Dialect>,
    /// The model that answered last.
    pub(crate) model: Option<Text>,
    /// The window that the agent says the model has.
    pub(crate) context_window: Option<Tokens>,
    /// The session's own id.
    pub(crate) session_id: Option<Text>,
    /// What the agent or its user called the session.
    pub(crate) title: Option<Text>,
    /// Set where the file is a sub-agent's.
    pub(crate) sub_agent_of: Option<SubAgentOf>,
    /// Other branches of a file that is a tree; the active one is the main conversation.
    pub(crate) branches: Vec<Conversation>,
    /// The record that the main conversation ends with, in formats whose records name the one
    /// before them.
    pub(crate) end: Option<End>,
}

/// The record that a conversation ends with.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Its bytes in the file.
    pub(crate) range: Range<usize>,
    /// Whether a record that names it is read as the next one.
    pub(crate) can_go_on: bool,
    /// Where the file's attachments are, by the names of their records: a compaction shows them as the
    /// file has them.
    pub(crate) attachments: HashMap<Text, Range<usize>>,
}

/// Whose sub-agent a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAgentOf {
    /// The id of the session that started it.
    pub session_id: Text,
    /// Its own name there.
    pub agent_id: Text,
}

/// A file or request, read: its bytes and what they mean. Both are shared.
#[derive(Clone, Debug)]
pub struct SessionFile {
    bytes: Arc<Vec<u8>>,
    contents: Arc<Contents>,
}

/// What a session says, for whoever does not need its bytes.
#[derive(Clone, Debug)]
pub struct Contents {
    format: Format,
    reading: Reading,
}

impl Deref for SessionFile {
    type Target = Contents;
    fn deref(&self) -> &Contents {
        &self.contents
    }
}

impl Committed<'_> {
    /// The line by which an agent's session file keeps the record of this compaction, to be appended before
    /// the agent writes the compaction itself; none where its format has another place for it. `like` is the
    /// file.
    pub fn record_line(&self, like: &SessionFile) -> Option<Vec<u8>> {
        match like.format {
            Format::ClaudeCode => Some(session::claude_code::rows::record_line(self, like)),
            _ => None,
        }
    }

    /// The record of the compaction, for an agent that stores such a thing beside a compaction of its own:
    /// read with that, it is what foldback would have written. JSON, an object.
    pub fn record(&self) -> String {
        Extension::new(&self.note, Vec::new()).json()
    }
}

impl Contents {
    fn new(format: Format, mut reading: Reading) -> Self {
        let left_at = reading.conversations.iter().chain(&reading.branches).filter_map(Conversation::left_at);
        let problems = left_at.map(|place| Problem {
            line: place.line,
            column: None,
            fault: Fault::NotUnderstood { reason: "more compactions than foldback follows".to_owned() },
        });
        reading.problems.extend(problems.collect::<Vec<_>>());
        Self { format, reading }
    }

    /// Reads a long file without holding its bytes, in the format that is given or that its beginning
    /// shows. None where that is not possible, or failed: [`SessionFile::read`] of all bytes then says why.
    pub fn read_from(source: &dyn Source, format: Option<Format>) -> Option<Self> {
        let format = match format {
            Some(format) => format,
            None => {
                let mut beginning = vec![0; source.byte_count().min(BEGINNING_BYTES)];
                source.read_at(&mut beginning, 0).ok()?;
                detect_by_beginning(&beginning)?
            }
        };
        Some(Self::new(format, format.codec().read_from(source)?))
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The conversations in it, the main one first.
    pub fn conversations(&self) -> &[Conversation] {
        &self.reading.conversations
    }

    /// The conversations that count: all that stand side by side, else the main one. Those of sub-agents
    /// begin in the middle, and are files of their own where they count.
    pub fn own_conversations(&self) -> &[Conversation] {
        let all = self.conversations();
        if self.format.holds_many() { all } else { &all[..all.len().min(1)] }
    }

    /// Branches that were left: a session that is a tree follows the one that is active.
    pub fn branches(&self) -> &[Conversation] {
        &self.reading.branches
    }

    /// What could not be read.
    pub fn problems(&self) -> &[Problem] {
        &self.reading.problems
    }

    /// The dialect that the agent spoke, where the format or the content shows it.
    pub fn dialect(&self) -> Option<Dialect> {
        self.format.dialect().or(self.reading.dialect)
    }

    /// The model that answered last.
    pub fn model(&self) -> Option<&str> {
        self.reading.model.as_deref()
    }

    /// The window that the agent says the model has, in formats that record it.
    pub fn context_window(&self) -> Option<Tokens> {
        self.reading.context_window
    }

    /// The session's own id.
    pub fn session_id(&self) -> Option<&str> {
        self.reading.session_id.as_deref()
    }

    /// What the agent or its user called the session, in formats that record a title.
    pub fn title(&self) -> Option<&str> {
        self.reading.title.as_deref()
    }

    /// Whose sub-agent it is.
    pub fn sub_agent_of(&self) -> Option<&SubAgentOf> {
        self.reading.sub_agent_of.as_ref()
    }

    /// A compaction of one of the conversations that led to `view`, to be written. The first `keeps`
    /// blocks of the view are those that stay in force of the conversation.
    pub fn committed<'a>(&self, conversation: &'a Conversation, view: &View, keeps: usize) -> Committed<'a> {
        let sent = self.format.codec().arrange(Sent::of(view, conversation));
        Committed { conversation, sent, note: Note::of(conversation, view, keeps) }
    }

    /// A fresh native file of these conversations, each with a compaction where there is one.
    pub fn compacted_native(
        &self,
        conversations: &[(&Conversation, Option<&Committed<'_>>)],
    ) -> Written<'static> {
        let file = session::native::write_compacted(self.dialect(), conversations);
        Written::fresh(Format::Native, file, Vec::new())
    }

    /// A long file with a compaction, of which only the end and what is attached to the items are read:
    /// what is added goes behind it. `None` where the format cannot say from that what to add, or
    /// the file cannot be read; [`SessionFile::compacted`] works on all of its bytes.
    pub fn compacted_behind(
        &self,
        source: &dyn Source,
        committed: &Committed<'_>,
    ) -> Option<Written<'static>> {
        let end = FileEnd::read(source, self.end()?.range.start).ok()?;
        let added = self.format.codec().append_behind(self, &end, committed)?;
        let written_as = WrittenAs::Appended(self.format);
        Some(Written { behind: Behind::File, added, written_as, losses: Vec::new() })
    }

    /// The record that the main conversation ends with, where the format says.
    pub(crate) fn end(&self) -> Option<&End> {
        self.reading.end.as_ref()
    }
}

impl SessionFile {
    /// Reads it in the format that its content shows.
    pub fn read(bytes: Vec<u8>) -> Result<Self, FormatError> {
        Self::read_as(detect(&bytes)?, bytes)
    }

    /// Reads it in this format.
    pub fn read_as(format: Format, bytes: Vec<u8>) -> Result<Self, FormatError> {
        let contents = Contents::new(format, format.codec().read(&bytes)?);
        Ok(Self { bytes: Arc::new(bytes), contents: Arc::new(contents) })
    }

    /// A session whose contents were [read](Contents::read_from) before its bytes: these.
    pub fn of(contents: Arc<Contents>, bytes: Arc<Vec<u8>>) -> Self {
        Self { bytes, contents }
    }

    /// Exactly the bytes it was read from.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The conversation that a record of this name ends, where the session is a tree that has it: an agent
    /// may stand elsewhere than at the end of its file.
    pub fn conversation_at(&self, record: &str) -> Option<Conversation> {
        self.format.codec().conversation_at(self.bytes(), record)
    }

    /// What it says, and its bytes.
    pub fn into_parts(self) -> (Arc<Contents>, Arc<Vec<u8>>) {
        (self.contents, self.bytes)
    }

    /// Ids for records that are added to it.
    pub(crate) fn new_ids(&self) -> NewIds {
        NewIds::for_file(&self.bytes)
    }

    /// The session with a compaction: added to the file where the format has a record for it, else a
    /// fresh file, in its own form or native.
    pub fn compacted(&self, committed: &Committed<'_>) -> Written<'_> {
        let codec = self.format.codec();
        if let Some(added) = codec.append(self, committed) {
            let (behind, added) = match added {
                Added::Behind(records) => (Behind::Bytes(self.bytes()), records),
                Added::Within(file) => (Behind::Nothing, file),
            };
            let written_as = WrittenAs::Appended(self.format);
            return Written { behind, added, written_as, losses: Vec::new() };
        }
        let own = match self.conversations() {
            [_] => codec.rewrite(self, committed),
            _ => None,
        };
        match own {
            Some((file, losses)) => Written::fresh(self.format, file, losses),
            None => self.compacted_native(&[(committed.conversation, Some(committed))]),
        }
    }
}

/// These items as a program takes them that asks for a compaction of what it holds: the messages of a
/// provider's request, or of an agent's module. `like` is what it sent.
pub fn messages(sent: &[Sent], like: &SessionFile) -> Result<Vec<u8>, FormatError> {
    match like.format {
        Format::ClaudeCode => Ok(session::claude_code::rows::messages(sent, like)),
        format => write(format, sent, Some(like)).map(|written| written.to_bytes()),
    }
}

/// A fresh file of these items.
pub fn write(
    format: Format,
    sent: &[Sent],
    like: Option<&SessionFile>,
) -> Result<Written<'static>, FormatError> {
    let like = like.filter(|session| session.format == format);
    let (file, losses) = format
        .codec()
        .write(sent, like)
        .ok_or(FormatError::NotWritable { format, reason: "foldback only reads it" })?;
    Ok(Written::fresh(format, file, losses))
}

/// A file that was written. Sessions are long and what a compaction adds is short, so the original
/// is not copied.
#[derive(Clone, Debug)]
pub struct Written<'a> {
    behind: Behind<'a>,
    added: Vec<u8>,
    /// How.
    pub written_as: WrittenAs,
    /// What the format could not hold.
    pub losses: Vec<Loss>,
}

/// What comes first in a file that was written.
#[derive(Clone, Copy, Debug)]
enum Behind<'a> {
    Nothing,
    /// The bytes of the session.
    Bytes(&'a [u8]),
    /// The same, where they are.
    File,
}

impl Written<'_> {
    fn fresh(format: Format, file: Vec<u8>, losses: Vec<Loss>) -> Self {
        Self { behind: Behind::Nothing, added: file, written_as: WrittenAs::Fresh(format), losses }
    }

    /// Whether it begins with all that the session was before.
    pub fn begins_with_session(&self) -> bool {
        !matches!(self.behind, Behind::Nothing)
    }

    /// What follows that, or all of it.
    pub fn added(&self) -> &[u8] {
        &self.added
    }

    /// All of it, as a copy; without the session where that was [not in memory](Contents::compacted_behind).
    pub fn to_bytes(&self) -> Vec<u8> {
        match self.behind {
            Behind::Bytes(session) => [session, &self.added].concat(),
            Behind::Nothing | Behind::File => self.added.clone(),
        }
    }
}

/// How a session was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenAs {
    /// Records were added after the untouched original.
    Appended(Format),
    /// A new file in this format.
    Fresh(Format),
}

/// Something that a format cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The item, by name.
    pub item_id: ItemId,
    /// What is lost of it, in a clause.
    pub what: String,
}
