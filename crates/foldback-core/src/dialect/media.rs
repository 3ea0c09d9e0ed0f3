//! Media and files: where they may stand, how many, how large.

use super::Rule;
use super::demands::MediaDemands;
use super::pairing::CallPlace;
use crate::ids::Text;
use crate::item::{Item, ItemKind};
use crate::part::{Blob, File, Media, Part, ResultPart};

/// A media or file part that may not be sent, and why.
#[derive(Clone, Debug)]
pub(super) struct MediaFault {
    pub place: CallPlace,
    /// Where it is in a tool result's content.
    pub content_index: Option<usize>,
    pub rule: Rule,
    /// What it is called in messages and placeholders.
    pub label: Text,
    pub reason: String,
}

/// One that may be sent as far as it alone is concerned.
#[derive(Debug)]
struct Counted {
    place: CallPlace,
    content_index: Option<usize>,
    label: Text,
    is_image: bool,
    inline_bytes: usize,
}

/// Looks at every media and file part, then at all of them together.
#[derive(Debug)]
pub(super) struct MediaTally {
    demands: &'static MediaDemands,
    counted: Vec<Counted>,
    faults: Vec<MediaFault>,
}

impl MediaTally {
    pub(super) fn new(demands: &'static MediaDemands) -> Self {
        Self { demands, counted: Vec::new(), faults: Vec::new() }
    }

    /// Everything of `items` that may not be sent.
    pub(super) fn of(demands: &'static MediaDemands, items: &[&Item]) -> Vec<MediaFault> {
        let mut tally = Self::new(demands);
        for (item_index, item) in items.iter().enumerate() {
            for (part_index, part) in item.parts.iter().enumerate() {
                tally.push(CallPlace { item_index, part_index }, item.kind, part);
            }
        }
        tally.finish()
    }

    /// Looks at one part.
    pub(super) fn push(&mut self, place: CallPlace, kind: ItemKind, part: &Part) {
        match part {
            Part::Media(media) => self.count(place, None, kind, &Piece::of_media(media)),
            Part::File(file) => self.count(place, None, kind, &Piece::of_file(file)),
            Part::ToolResult(result) => {
                for (content_index, content) in result.content.iter().enumerate() {
                    let piece = match content {
                        ResultPart::Media(media) => Piece::of_media(media),
                        ResultPart::File(file) => Piece::of_file(file),
                        ResultPart::Text(_) | ResultPart::Structured(_) | ResultPart::Opaque(_) => continue,
                    };
                    self.count(place, Some(content_index), kind, &piece);
                }
            }
            Part::Text(_)
            | Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::Structured(_)
            | Part::Opaque(_) => {}
        }
    }

    fn count(&mut self, place: CallPlace, content_index: Option<usize>, kind: ItemKind, piece: &Piece<'_>) {
        let label = piece.label.clone();
        match self.fault_of(content_index, kind, piece) {
            Some((rule, reason)) => {
                self.faults.push(MediaFault { place, content_index, rule, label, reason })
            }
            None => {
                let (is_image, inline_bytes) = (piece.is_image(), piece.inline_bytes());
                self.counted.push(Counted { place, content_index, label, is_image, inline_bytes });
            }
        }
    }

    fn fault_of(
        &self,
        content_index: Option<usize>,
        kind: ItemKind,
        piece: &Piece<'_>,
    ) -> Option<(Rule, String)> {
        let demands = self.demands;
        if kind == ItemKind::Assistant && !demands.allowed_in_assistant {
            return Some((Rule::MediaNotAllowed, "not accepted from the assistant".to_owned()));
        }
        if content_index.is_some() && !demands.allowed_in_results {
            return Some((Rule::MediaNotAllowed, "tool results hold text only".to_owned()));
        }
        // An address has whatever type its server says it has.
        let is_judged = piece.is_media && matches!(piece.data, Blob::Base64(_));
        if is_judged && demands.types.is_some_and(|types| !types.contains(&piece.media_type)) {
            return Some((Rule::MediaNotAllowed, "type not accepted".to_owned()));
        }
        if piece.is_image() && piece.inline_bytes() > demands.image_bytes_max {
            let reason = format!("larger than {} bytes", demands.image_bytes_max);
            return Some((Rule::MediaOverLimit, reason));
        }
        None
    }

    /// All faults. Where there is too much, the newest is what the model is looking at, so the
    /// oldest is named.
    pub(super) fn finish(mut self) -> Vec<MediaFault> {
        let demands = self.demands;
        let (mut image_count, mut inline_bytes) = (0_usize, 0_usize);
        for counted in self.counted.into_iter().rev() {
            let bytes_with = inline_bytes.saturating_add(counted.inline_bytes);
            let reason = if counted.is_image && image_count >= demands.image_count_max {
                format!("more than {} images", demands.image_count_max)
            } else if bytes_with > demands.inline_bytes_max {
                format!("more than {} bytes inline", demands.inline_bytes_max)
            } else {
                image_count += usize::from(counted.is_image);
                inline_bytes = bytes_with;
                continue;
            };
            let Counted { place, content_index, label, .. } = counted;
            self.faults.push(MediaFault { place, content_index, rule: Rule::MediaOverLimit, label, reason });
        }
        self.faults
    }
}

/// What media and files have in common.
struct Piece<'a> {
    label: &'a Text,
    media_type: &'a str,
    data: &'a Blob,
    is_media: bool,
}

impl<'a> Piece<'a> {
    fn of_media(media: &'a Media) -> Self {
        Self { label: &media.media_type, media_type: &media.media_type, data: &media.data, is_media: true }
    }

    fn of_file(file: &'a File) -> Self {
        Self {
            label: file.name.as_ref().unwrap_or(&file.media_type),
            media_type: &file.media_type,
            data: &file.data,
            is_media: false,
        }
    }

    fn is_image(&self) -> bool {
        self.is_media && self.media_type.starts_with("image/")
    }

    fn inline_bytes(&self) -> usize {
        match self.data {
            Blob::Base64(data) => data.len(),
            Blob::Url(_) | Blob::Text(_) => 0,
        }
    }
}
