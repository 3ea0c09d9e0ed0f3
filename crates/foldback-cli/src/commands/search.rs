//! `foldback search`: finds what was said and done, folded or not.

use foldback_engine::session::{Secrets, search};
use foldback_engine::store::{SearchAnswer, SearchHit, SearchQuery};
use foldback_engine::{Store, StoreError};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::Shared;
use crate::args::sessions::Search;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupts;
use crate::output;
use crate::store::{self, time};
use crate::terminal::{FAINT, STRONG, counted, note, stderr_is_terminal, styled};

/// Items that are taken into the index at a time, and how often: what is more is left to the next search.
const BATCH_ITEMS: usize = 1_000;
const BATCHES_MAX: usize = 1_000;

/// How often a search goes on to older items by itself. A store looks at some thousands at a time.
const PAGES_MAX: usize = 2_000;

#[derive(Serialize)]
struct Found<'a> {
    session: &'a str,
    r#loop: &'a str,
    item: &'a str,
    item_index: usize,
    kind: &'static str,
    created_at: Option<String>,
    handle: &'a str,
    visible: bool,
    score: f64,
    excerpt: &'a str,
}

pub(crate) fn run(shared: &Shared, arguments: &Search) -> Result<Exit, Failure> {
    let mut query = query(arguments)?;
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Replaced };
    let (answer, ended) = store::block_on(async {
        let store = store::open_existing(&arguments.at).await?;
        if let Some(id) = &arguments.session {
            query.session = Some(store::find(&store, id).await?);
        }
        catch_up(shared, &*store).await?;
        search_on(shared, &*store, query, secrets).await
    })?;
    let mut text = String::new();
    for hit in &answer.hits {
        match shared.json {
            true => output::print_json(&found(hit))?,
            false => text.push_str(&line(hit)),
        }
    }
    output::print(&text)?;
    if !shared.quiet && answer.hits.is_empty() {
        note("nothing was found");
    }
    if !shared.quiet
        && let Some(rest) = rest(&answer, ended)
    {
        note(&rest);
    }
    Ok(if answer.hits.is_empty() { Exit::Negative } else { Exit::Success })
}

/// Searches, and goes on to older items where a store stops early, until there are as many hits as were asked
/// for. A person may be tired of waiting first: the key that interrupts ends the search, not what it found.
async fn search_on(
    shared: &Shared,
    store: &dyn Store,
    mut query: SearchQuery,
    secrets: Secrets,
) -> Result<(SearchAnswer, Ended), Failure> {
    let progress = progress(shared);
    let mut interrupts = Interrupts::new();
    let mut whole = SearchAnswer { hits: Vec::new(), is_complete: false, next: query.before };
    let mut ended = Ended::ByItself;
    for page in 1..=PAGES_MAX {
        let answer = tokio::select! {
            answer = search(store, &query, secrets) => answer?,
            () = interrupts.pressed() => {
                ended = Ended::Interrupted;
                break;
            }
        };
        query.limit -= answer.hits.len().min(query.limit);
        query.before = answer.next;
        whole.hits.extend(answer.hits);
        (whole.is_complete, whole.next) = (answer.is_complete, answer.next);
        if answer.next.is_none() || query.limit == 0 {
            break;
        }
        if let Some(progress) = &progress {
            let (found, page) = (counted(whole.hits.len(), "hit"), counted(page, "page"));
            progress.set_message(format!("{found} on {page}, going on to older items; ctrl-C ends it"));
            progress.tick();
        }
    }
    whole.hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    if let Some(progress) = progress {
        progress.finish_and_clear();
    }
    Ok((whole, ended))
}

/// How a search came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    ByItself,
    Interrupted,
}

/// Shown on a terminal, as long as it goes on.
fn progress(shared: &Shared) -> Option<ProgressBar> {
    let is_wanted = stderr_is_terminal() && !shared.quiet;
    is_wanted.then(|| {
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        ProgressBar::new_spinner().with_style(style.expect("the template is valid"))
    })
}

/// What there may be beside what was found, and how to come to it.
fn rest(answer: &SearchAnswer, ended: Ended) -> Option<String> {
    match (answer.is_complete, answer.next) {
        (true, _) => None,
        (false, Some(next)) if next.left.is_some() => {
            Some(format!("there is more than is shown; go on with --before {next}, or raise --limit"))
        }
        (false, Some(next)) => Some(format!(
            "only the newest items were looked at; go on with --before {next}, search for something rarer, or in one session"
        )),
        (false, None) if ended == Ended::Interrupted => {
            Some("the search was interrupted before it found anything; run it again, or search for something rarer".to_owned())
        }
        (false, None) => {
            Some("there may be more than is shown; raise --limit, or search for something rarer".to_owned())
        }
    }
}

/// Takes what is new into the index: a person waits for it once, and then finds everything.
async fn catch_up(shared: &Shared, store: &dyn Store) -> Result<(), Failure> {
    let mut is_told = shared.quiet;
    for _ in 0..BATCHES_MAX {
        match store.index(BATCH_ITEMS).await {
            Ok(0) | Err(StoreError::ReadOnly { .. }) => break,
            Ok(left) if !is_told => {
                note(&format!("taking {left} new items into the index"));
                is_told = true;
            }
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn query(arguments: &Search) -> Result<SearchQuery, Failure> {
    let text = (!arguments.words.is_empty()).then(|| arguments.words.join(" "));
    let is_open =
        text.is_none() && arguments.regex.is_none() && arguments.kind.is_none() && arguments.file.is_none();
    if is_open {
        return Err(Failure::usage("nothing to look for", "give words, --regex, --kind or --file"));
    }
    Ok(SearchQuery {
        text,
        regex: arguments.regex.clone(),
        fact_kind: arguments.kind,
        file: arguments.file.clone(),
        since: arguments.since,
        until: arguments.until,
        session: None,
        before: arguments.before,
        limit: arguments.limit,
    })
}

fn found(hit: &SearchHit) -> Found<'_> {
    Found {
        session: &hit.session,
        r#loop: &hit.loop_id,
        item: &hit.item_id,
        item_index: hit.item_index,
        kind: hit.kind.as_str(),
        created_at: hit.created_at.map(time),
        handle: hit.handle.as_str(),
        visible: hit.is_visible,
        score: hit.score,
        excerpt: &hit.excerpt,
    }
}

fn line(hit: &SearchHit) -> String {
    let when = hit.created_at.map_or_else(String::new, |at| format!("  {}", time(at)));
    let state = if hit.is_visible { "" } else { "  folded" };
    format!(
        "{}  {} {} of {}{when}{state}\n  {}\n",
        styled(STRONG, &hit.handle),
        hit.kind,
        hit.item_id,
        hit.session,
        styled(FAINT, &hit.excerpt)
    )
}
