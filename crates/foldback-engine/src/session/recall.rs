//! Looking into the past: what a handle hides, and what a search finds.
//!
//! What goes to a model, a terminal or a log has its secrets replaced, in whole parts and before anything is
//! cut. Whoever wants the original bytes says so.

use std::borrow::Cow;
use std::sync::Arc;

use foldback_core::reading::text_of;
use foldback_core::{Handle, Item, LoopId, Part, Recalled, SessionId, redact_part};
use serde_json::Value;

use super::stored::StoredSession;
use crate::recall::{excerpt, first_place, redacted, shown, words_in};
use crate::store::{Page, SearchAnswer, SearchHit, SearchQuery, Store, StoreError, recall};

/// Sessions that are looked into for a handle where none is named.
const SESSIONS_MAX: usize = 10_000;

/// Whether secrets are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrets {
    /// `[secret: kind]` stands in their place.
    #[default]
    Replaced,
    /// They are shown: the user asked for it.
    Shown,
}

impl Secrets {
    fn of(self, recalled: &Recalled) -> Cow<'_, Recalled> {
        match self {
            Self::Replaced => Cow::Owned(redacted(recalled)),
            Self::Shown => Cow::Borrowed(recalled),
        }
    }
}

/// What a handle hides, as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Recollection {
    /// The handle.
    pub handle: Handle,
    /// The loop it was found in.
    pub loop_id: LoopId,
    /// The items, or the part.
    pub content: Recalled,
}

impl Recollection {
    /// What was hidden, to be read: who speaks, then what was said, called and answered.
    pub fn text(&self, secrets: Secrets) -> String {
        shown(&secrets.of(&self.content))
    }

    /// What was hidden in the native form: an array of items, or a part.
    pub fn json(&self, secrets: Secrets) -> Value {
        let value = match &*secrets.of(&self.content) {
            Recalled::Part(part) => serde_json::to_value(part),
            Recalled::Items(items) => {
                serde_json::to_value(items.iter().map(|item| &**item).collect::<Vec<_>>())
            }
        };
        value.expect("items and parts have string keys only")
    }
}

impl StoredSession {
    /// What a handle hides: in the current loop, else in any other, the newest first.
    pub async fn recall(&self, handle: &Handle) -> Result<Recollection, StoreError> {
        let loops = self.store().loops(self.id()).await?;
        let (current, others): (Vec<_>, Vec<_>) = loops.iter().partition(|info| info.id == *self.current());
        for info in current.into_iter().chain(others.into_iter().rev()) {
            let found = match recall(&**self.store(), self.id(), &info.id, handle).await {
                Err(StoreError::NotFound { .. }) => self.recall_as_older(info, handle).await?,
                found => Some(found?),
            };
            if let Some(content) = found {
                return Ok(Recollection { handle: handle.clone(), loop_id: info.id.clone(), content });
            }
        }
        Err(StoreError::NotFound { what: "content behind", id: handle.to_string() })
    }
}

/// What a handle hides: in this session or, where none is named, in any, the one that changed last
/// first.
pub async fn recollect(
    store: &Arc<dyn Store>,
    session: Option<&SessionId>,
    handle: &Handle,
) -> Result<Recollection, StoreError> {
    if let Some(session) = session {
        return StoredSession::open(Arc::clone(store), session).await?.recall(handle).await;
    }
    for info in store.sessions(&Page::first(SESSIONS_MAX)).await? {
        match StoredSession::open(Arc::clone(store), &info.id).await?.recall(handle).await {
            Err(StoreError::NotFound { .. }) => {}
            found => return found,
        }
    }
    Err(StoreError::NotFound { what: "content behind", id: handle.to_string() })
}

/// Finds items in a store, the best first. What is found is given with its surroundings and a handle
/// that recalls it.
pub async fn search(
    store: &dyn Store,
    query: &SearchQuery,
    secrets: Secrets,
) -> Result<SearchAnswer, StoreError> {
    let mut answer = store.search(query).await?;
    if secrets == Secrets::Replaced {
        for hit in &mut answer.hits {
            conceal(store, query, hit).await?;
        }
    }
    Ok(answer)
}

/// Takes an excerpt from the text of its item without the secrets, where the item has any: an excerpt that is
/// cut first may show half of one.
async fn conceal(store: &dyn Store, query: &SearchQuery, hit: &mut SearchHit) -> Result<(), StoreError> {
    let range = hit.item_index..hit.item_index + 1;
    let items: Vec<Arc<Item>> = store.items(&hit.session, &hit.loop_id, range).await?;
    let parts: Vec<Cow<'_, Part>> = items.iter().flat_map(|item| &item.parts).map(redact_part).collect();
    if parts.iter().all(|part| matches!(part, Cow::Borrowed(_))) {
        return Ok(());
    }
    let text = parts.iter().map(|part| text_of(part)).collect::<Vec<_>>().join("\n");
    let words = words_in(query.text.as_deref().unwrap_or_default());
    let place = first_place(&text, &text.to_lowercase(), words.iter().map(String::as_str));
    hit.excerpt = excerpt(&text, &place.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::ToolResult;

    /// Put together here, so that no scanner takes this file for a leak.
    fn key() -> String {
        ["gh", "p_", "aB3dE7fG1hJ9kLmN0pQ2rS5tUvW8xYz4aB3d"].concat()
    }

    fn recollection() -> Recollection {
        let items = vec![
            Arc::new(Item::user("u", "the key is in the environment")),
            Arc::new(Item::tool("t", ToolResult::text("c", format!("KEY={}", key())))),
        ];
        let handle = Handle::of_item(0, &"u".into());
        Recollection { handle, loop_id: "l".into(), content: Recalled::Items(items) }
    }

    #[test]
    fn secrets_are_replaced_unless_asked_for() {
        let recalled = recollection();
        for hidden in [recalled.text(Secrets::default()), recalled.json(Secrets::default()).to_string()] {
            assert!(!hidden.contains(&key()), "{hidden}");
            assert!(hidden.contains("the key is in the environment"));
        }
        assert!(recalled.text(Secrets::Shown).contains(&key()));
        assert!(recalled.json(Secrets::Shown).to_string().contains(&key()));
    }
}
