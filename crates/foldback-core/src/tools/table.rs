//! The tools that are known, and what the fields of their inputs are called.

use std::sync::LazyLock;

use foldhash::HashMap;

/// What a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    Write,
    Edit,
    Delete,
    Search,
    List,
    Run,
    Todo,
    Agent,
    Fetch,
    Wait,
    /// One tool for several verbs, with a `command` that tells which.
    Editor,
    /// Nothing that has an action.
    Nothing,
}

/// Tools by the letters and digits of their names, sorted. Claude Code, Codex, Gemini CLI, opencode,
/// pi, Copilot, Cline, OpenHands, SWE-agent, Forge, Moatless, and names that many others share.
pub(super) const TOOLS: &[(&str, Verb)] = &[
    ("agent", Verb::Agent),
    ("applydiff", Verb::Edit),
    ("applypatch", Verb::Edit),
    ("bash", Verb::Run),
    ("bashoutput", Verb::Wait),
    ("cat", Verb::Read),
    ("codebasesearch", Verb::Search),
    ("create", Verb::Write),
    ("createfile", Verb::Write),
    ("delete", Verb::Delete),
    ("deletefile", Verb::Delete),
    ("edit", Verb::Edit),
    ("editfile", Verb::Edit),
    ("editor", Verb::Edit),
    ("exec", Verb::Run),
    ("execcommand", Verb::Run),
    ("executebash", Verb::Run),
    ("executecommand", Verb::Run),
    ("fetch", Verb::Fetch),
    ("fileeditor", Verb::Editor),
    ("filesearch", Verb::List),
    ("find", Verb::List),
    ("findfile", Verb::List),
    ("fspatch", Verb::Edit),
    ("fsread", Verb::Read),
    ("fsremove", Verb::Delete),
    ("fssearch", Verb::Search),
    ("fswrite", Verb::Write),
    ("getterminaloutput", Verb::Wait),
    ("glob", Verb::List),
    ("googlewebsearch", Verb::Search),
    ("grep", Verb::Search),
    ("grepsearch", Verb::Search),
    ("insert", Verb::Edit),
    ("inserteditintofile", Verb::Edit),
    ("killbash", Verb::Nothing),
    ("killshell", Verb::Nothing),
    ("list", Verb::List),
    ("listdir", Verb::List),
    ("listdirectory", Verb::List),
    ("listfiles", Verb::List),
    ("localshell", Verb::Run),
    ("ls", Verb::List),
    ("managetodolist", Verb::Todo),
    ("multiedit", Verb::Edit),
    ("multigrep", Verb::Search),
    ("navigate", Verb::Fetch),
    ("notebookedit", Verb::Edit),
    ("notebookread", Verb::Read),
    ("open", Verb::Read),
    ("patch", Verb::Edit),
    ("read", Verb::Read),
    ("readbash", Verb::Wait),
    ("readfile", Verb::Read),
    ("readfiles", Verb::Read),
    ("readmanyfiles", Verb::Read),
    ("remove", Verb::Delete),
    ("replace", Verb::Edit),
    ("replaceinfile", Verb::Edit),
    ("replacestringinfile", Verb::Edit),
    ("runcommand", Verb::Run),
    ("runcommands", Verb::Run),
    ("runinterminal", Verb::Run),
    ("runshellcommand", Verb::Run),
    ("sage", Verb::Agent),
    ("search", Verb::Search),
    ("searchdir", Verb::Search),
    ("searchfile", Verb::Search),
    ("searchfilecontent", Verb::Search),
    ("searchfiles", Verb::Search),
    ("semanticsearch", Verb::Search),
    ("shell", Verb::Run),
    ("shellcommand", Verb::Run),
    ("spawnagent", Verb::Agent),
    ("stopbash", Verb::Nothing),
    ("strreplacebasededittool", Verb::Editor),
    ("strreplaceeditor", Verb::Editor),
    ("task", Verb::Agent),
    ("taskoutput", Verb::Wait),
    ("tasktracker", Verb::Todo),
    ("terminal", Verb::Run),
    ("todowrite", Verb::Todo),
    ("updateplan", Verb::Todo),
    ("view", Verb::Read),
    ("viewcode", Verb::Read),
    ("viewimage", Verb::Read),
    ("wait", Verb::Wait),
    ("waitagent", Verb::Wait),
    ("webfetch", Verb::Fetch),
    ("websearch", Verb::Search),
    ("write", Verb::Write),
    ("writefile", Verb::Write),
    ("writestdin", Verb::Wait),
    ("writetodos", Verb::Todo),
    ("writetofile", Verb::Write),
];

/// Longer names are nobody's tools.
const NAME_BYTES_MAX: usize = 48;

/// The verb of a known tool. Servers put their own name before that of the tool.
pub(super) fn verb_of(name: &str) -> Option<Verb> {
    let name = name.rsplit_once("__").map_or(name, |(_, name)| name);
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    let letters: smallvec::SmallVec<[u8; NAME_BYTES_MAX]> = letters.collect();
    static BY_NAME: LazyLock<HashMap<&[u8], Verb>> =
        LazyLock::new(|| TOOLS.iter().map(|(known, verb)| (known.as_bytes(), *verb)).collect());
    BY_NAME.get(&*letters).copied()
}

/// Verbs in the names of tools that nobody told us about, the surest sign first.
const VERBS: &[(&[&str], Verb)] = &[
    (&["delete", "remove", "unlink"], Verb::Delete),
    (&["edit", "replace", "insert", "patch", "update", "append", "modify"], Verb::Edit),
    (&["write", "create", "save", "overwrite"], Verb::Write),
    (&["read", "view", "cat", "open", "show"], Verb::Read),
    (&["run", "exec", "execute", "shell", "bash", "terminal", "command"], Verb::Run),
];

/// The verb in the name of an unknown tool.
pub(super) fn likely_verb_of(name: &str) -> Option<Verb> {
    let is_word = |word: &str| words(name).any(|part| part.eq_ignore_ascii_case(word));
    let found = VERBS.iter().find(|(names, _)| names.iter().any(|name| is_word(name)));
    found.map(|&(_, verb)| verb)
}

/// The words of a name, told apart by joints and by capitals.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let is_joint = |c: char| !c.is_ascii_alphanumeric();
    name.split(is_joint).flat_map(|word| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let end = rest.char_indices().skip(1).find(|(_, c)| c.is_ascii_uppercase());
            let (first, other) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
            rest = other;
            (!first.is_empty()).then_some(first)
        })
    })
}

// Names of fields, as `Input` wants them: lower case, without joints.

pub(super) const PATH: &[&str] = &[
    "filepath",
    "path",
    "file",
    "filename",
    "absolutepath",
    "targetfile",
    "relativeworkspacepath",
    "relativepath",
    "notebookpath",
    "uri",
];
pub(super) const PATHS: &[&str] = &["files", "paths", "filepaths", "include"];
pub(super) const FIRST_LINE: &[&str] =
    &["offset", "startline", "startlineonebased", "linestart", "linenumber", "viewrange"];
pub(super) const LAST_LINE: &[&str] =
    &["limit", "endline", "endlineonebased", "lineend", "endlineoneinclusive"];
pub(super) const COMMAND: &[&str] = &["command", "cmd", "commands", "commandline", "script"];
pub(super) const FOLDER: &[&str] = &["workdir", "cwd", "workingdirectory", "directory", "dirpath"];
pub(super) const PATCH: &[&str] = &["patchtext", "patch", "input", "diff"];
pub(super) const PATTERN: &[&str] =
    &["pattern", "query", "regex", "patterns", "searchterm", "search", "queries"];
pub(super) const TODOS: &[&str] = &["todos", "plan", "todolist", "tasklist", "tasks", "items"];
pub(super) const TASK: &[&str] = &["description", "task", "tasks", "prompt", "message"];
pub(super) const JOB: &[&str] =
    &["sessionid", "bashid", "shellid", "taskid", "targets", "target", "id", "ids", "agentid", "terminalid"];
