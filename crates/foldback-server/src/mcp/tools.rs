//! The two tools: what they take, what they answer.

use std::fmt::Write;
use std::sync::Arc;

use foldback_core::{FactKind, SessionId, Timestamp};
use foldback_engine::recall::{handles_in, page, passages};
use foldback_engine::session::{recollect, search};
use foldback_engine::store::{SearchCursor, SearchHit, SearchQuery};
use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::McpServer;

pub(super) const RECALL: &str = "recall";
pub(super) const SEARCH: &str = "search";

/// Bytes of one answer: what was folded may be larger than a context window.
const ANSWER_BYTES_MAX: usize = 20_000;

/// Bytes of a text among the arguments, and of the name of one.
const TEXT_BYTES_MAX: usize = 4_096;
const NAME_BYTES_MAX: usize = 64;

/// Hits of one answer.
const HITS_MAX: usize = 50;

/// Hits where nobody says how many.
const HITS_DEFAULT: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recall {
    handle: String,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    offset: usize,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Search {
    query: Option<String>,
    regex: Option<String>,
    kind: Option<String>,
    file: Option<String>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    session: Option<String>,
    before: Option<Before>,
    limit: Option<usize>,
}

/// Where to go on. Models write a number without quotes, whatever they were told.
#[derive(Deserialize)]
#[serde(untagged)]
enum Before {
    Number(u64),
    Place(String),
}

impl Before {
    fn cursor(self) -> Result<SearchCursor, String> {
        match self {
            Self::Number(reached) => Ok(SearchCursor::at(reached)),
            Self::Place(text) => text.trim().parse().map_err(|error| format!("before {text}: {error}")),
        }
    }
}

/// Both tools, as a client lists them.
pub(super) fn all() -> Vec<Tool> {
    let kinds: Vec<&str> = FactKind::ALL.iter().map(|kind| kind.name()).collect();
    let text = |what: &str| json!({"type": "string", "description": what});
    let recall = json!({
        "type": "object",
        "properties": {
            "handle": text("The handle as printed in a summary or placeholder, such as @6hjhb91nxq"),
            "session": text("The session it belongs to; all are looked into without it"),
            "query": text("Words to find inside of what the handle stands for; without them all of it is read"),
            "offset": {"type": "integer", "minimum": 0, "description": "Go on at this byte of a long answer"},
        },
        "required": ["handle"],
        "additionalProperties": false,
    });
    let find = json!({
        "type": "object",
        "properties": {
            "query": text("Words; what stands in quotes stands together"),
            "regex": text("A regular expression"),
            "kind": {"type": "string", "enum": kinds, "description": "Only facts of this kind"},
            "file": text("The name of a file, or the end of its path"),
            "since_ms": {"type": "integer", "description": "Recorded at or after, in milliseconds since 1970"},
            "until_ms": {"type": "integer", "description": "Recorded before, in milliseconds since 1970"},
            "session": text("Only in this session"),
            "before": text("Go on where an earlier search stopped, which says this place"),
            "limit": {"type": "integer", "minimum": 1, "maximum": HITS_MAX},
        },
        "additionalProperties": false,
    });
    vec![
        tool(RECALL, "The original content behind a handle of something that was folded away.", recall),
        tool(SEARCH, "Finds what was said and done in earlier parts of sessions, folded or not.", find),
    ]
}

fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { unreachable!("both schemas are objects") };
    let read_only = ToolAnnotations::from_raw(None, Some(true), Some(false), Some(true), Some(false));
    let mut tool = Tool::new(name, description, Arc::new(schema));
    tool.annotations = Some(read_only);
    tool
}

/// Reads arguments, none of which is longer than a person or a model writes one: an error may repeat it.
fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    for (name, value) in arguments.as_object().into_iter().flatten() {
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("the name of an argument has {} bytes", name.len()));
        }
        if let Some(length) = value.as_str().map(str::len).filter(|&length| length > TEXT_BYTES_MAX) {
            return Err(format!(
                "{name} has {length} bytes, at most {TEXT_BYTES_MAX} are read; say it shorter"
            ));
        }
    }
    serde_json::from_value(arguments).map_err(|error| format!("the arguments cannot be read: {error}"))
}

impl McpServer {
    /// The session that is asked for, as far as it is served.
    fn served(&self, asked: Option<&str>) -> Result<Option<SessionId>, String> {
        match (&self.session, asked) {
            (Some(served), Some(asked)) if **served != *asked => {
                Err(format!("only session {served} is served here"))
            }
            (Some(served), _) => Ok(Some(served.clone())),
            (None, asked) => Ok(asked.map(SessionId::from)),
        }
    }

    pub(super) async fn recall(&self, arguments: Value) -> Result<String, String> {
        let asked: Recall = read(arguments)?;
        let no_handle = || format!("{} is no handle: it is @ and ten letters or digits", asked.handle);
        let handle = handles_in(&asked.handle).into_iter().next().ok_or_else(no_handle)?;
        let session = self.served(asked.session.as_deref())?;
        let recalled = recollect(&self.store, session.as_ref(), &handle).await;
        let text = recalled.map_err(|error| error.to_string())?.text(self.secrets);
        if let Some(query) = asked.query.filter(|query| !query.trim().is_empty()) {
            let nothing = || {
                format!(
                    "nothing behind {handle} mentions {query:?}; without a query its {} bytes are read in pages",
                    text.len()
                )
            };
            return Ok(passages(&text, &query, ANSWER_BYTES_MAX).unwrap_or_else(nothing));
        }
        page(&text, asked.offset, ANSWER_BYTES_MAX).map_err(|error| error.to_string())
    }

    pub(super) async fn search(&self, arguments: Value) -> Result<String, String> {
        let asked: Search = read(arguments)?;
        let kind = match asked.kind.as_deref() {
            Some(name) => {
                let found = FactKind::ALL.into_iter().find(|kind| kind.name() == name);
                Some(found.ok_or_else(|| format!("there is no kind of fact {name}"))?)
            }
            None => None,
        };
        if asked.query.is_none() && asked.regex.is_none() && kind.is_none() && asked.file.is_none() {
            return Err("nothing to look for: give query, regex, kind or file".to_owned());
        }
        let query = SearchQuery {
            text: asked.query,
            regex: asked.regex,
            fact_kind: kind,
            file: asked.file,
            since: asked.since_ms.map(Timestamp),
            until: asked.until_ms.map(Timestamp),
            session: self.served(asked.session.as_deref())?,
            before: asked.before.map(Before::cursor).transpose()?,
            limit: asked.limit.unwrap_or(HITS_DEFAULT).clamp(1, HITS_MAX),
        };
        let answer = search(&*self.store, &query, self.secrets).await.map_err(|error| error.to_string())?;
        let mut text = String::new();
        answer.hits.iter().for_each(|hit| write_hit(&mut text, hit));
        if answer.hits.is_empty() {
            text.push_str("nothing was found\n");
        }
        match (answer.is_complete, answer.next) {
            (true, _) => {}
            (false, Some(next)) if next.left.is_some() => {
                writeln!(text, "there is more than is shown; search again with before {next} for the next hits")
                    .expect("a string takes what is written");
            }
            (false, Some(next)) => writeln!(
                text,
                "only the newest items were looked at; search again with before {next} for older ones, or for something rarer"
            )
            .expect("a string takes what is written"),
            (false, None) => text.push_str("there is more than is shown; raise limit, or look for something rarer\n"),
        }
        Ok(text)
    }
}

fn write_hit(text: &mut String, hit: &SearchHit) {
    let state = if hit.is_visible { "in context" } else { "folded" };
    let (handle, kind, item, session, excerpt) =
        (&hit.handle, hit.kind, &hit.item_id, &hit.session, &hit.excerpt);
    writeln!(text, "{handle} ({kind} {item} of session {session}, {state})\n  {excerpt}")
        .expect("a string takes what is written");
}
