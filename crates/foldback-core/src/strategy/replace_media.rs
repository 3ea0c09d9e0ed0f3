//! Replaces images, sound and documents by one-line placeholders.

use serde::{Deserialize, Serialize};

use super::Strategy;
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::holds::Holds;
use crate::ids::Text;
use crate::part::{Part, ResultPart, ToolResult};
use crate::placeholder::placeholder_text;

const ID: &str = "replace-media";

/// Replaces media and files by placeholders, except in the newest items that hold any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplaceMediaStrategy {
    keep: usize,
}

impl ReplaceMediaStrategy {
    /// Keeps the media of the newest `keep` items that hold any.
    pub fn new(keep: usize) -> Self {
        Self { keep }
    }
}

impl Strategy for ReplaceMediaStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let holding = draft.live_rev().filter(|&(position, _)| holds_media(draft, position));
        let older: Vec<usize> = holding.skip(self.keep).map(|(position, _)| position).collect();
        for position in older.into_iter().rev() {
            replace_media(draft, position, ID);
        }
    }

    fn describe(&self) -> String {
        format!("{ID}(keep {})", self.keep)
    }
}

fn holds_media(draft: &Draft<'_>, position: usize) -> bool {
    let is_media = |part: &Part| match part {
        Part::Media(_) | Part::File(_) => true,
        Part::ToolResult(result) => {
            result.content.iter().any(|part| matches!(part, ResultPart::Media(_) | ResultPart::File(_)))
        }
        Part::Text(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::Structured(_) | Part::Opaque(_) => {
            false
        }
    };
    let entry = draft.view().get(position);
    entry.is_some_and(|entry| entry.holds().contains(Holds::MEDIA))
        && draft.parts(position).any(|(_, part)| is_media(part))
}

/// Replaces everything that is not text at `position`.
pub(super) fn replace_media(draft: &mut Draft<'_>, position: usize, strategy: &'static str) {
    let replaced: Vec<_> = draft
        .parts(position)
        .filter_map(|(part_index, part)| {
            Some((part_index, without_media(draft, position, part_index, part)?))
        })
        .collect();
    for (part_index, part) in replaced {
        draft.rewrite(position, part_index, part, Reason::new(strategy, "media that was seen before"));
    }
}

/// The part with placeholders instead of media; none if it holds no media.
pub(super) fn without_media(
    draft: &Draft<'_>,
    position: usize,
    part_index: usize,
    part: &Part,
) -> Option<Part> {
    let handle = draft.part_handle(position, part_index);
    let tokens = draft.part_tokens(position, part_index);
    let line = |what: &str| -> Text { placeholder_text(&handle, what, tokens, "") };
    match part {
        Part::Media(media) => Some(Part::Text(line(&media.media_type))),
        Part::File(file) => Some(Part::Text(line(file.label()))),
        Part::ToolResult(result) => {
            let mut is_changed = false;
            let content = result.content.iter().map(|part| match part {
                ResultPart::Media(media) => {
                    is_changed = true;
                    ResultPart::Text(line(&media.media_type))
                }
                ResultPart::File(file) => {
                    is_changed = true;
                    ResultPart::Text(line(file.label()))
                }
                ResultPart::Text(_) | ResultPart::Structured(_) | ResultPart::Opaque(_) => part.clone(),
            });
            let content = content.collect();
            is_changed.then(|| Part::ToolResult(ToolResult { content, ..result.clone() }))
        }
        Part::Text(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::Structured(_) | Part::Opaque(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Item, ItemKind};
    use crate::part::{Blob, Media};
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;

    #[test]
    fn old_images_become_a_line_and_the_newest_stay() {
        let image = |id: &str| {
            let media = Media {
                media_type: "image/png".into(),
                data: Blob::Base64("AAAA".into()),
                pixels: Some((800, 600)),
            };
            Item::new(id, ItemKind::User, vec![Part::text("look"), Part::Media(media)])
        };
        let transcript: Transcript = [image("u1"), image("u2"), image("u3")].into_iter().collect();
        let compacted =
            plan(&View::of(&transcript), &ReplaceMediaStrategy::new(1), None).unwrap().apply_floor();
        let left: Vec<bool> =
            compacted.view.items().map(|item| matches!(item.parts[1], Part::Media(_))).collect();
        assert_eq!(left, [false, false, true]);
    }
}
