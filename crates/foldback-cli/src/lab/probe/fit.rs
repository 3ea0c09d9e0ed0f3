//! A session made to fit the window of the model that writes the questions. Nothing here changes what
//! readers see.

use std::sync::Arc;

use foldback_core::{Item, ItemKind, Meter, Part, ResultPart, Text, Tokens, ToolCall, ToolInput};

/// What long texts are cut to, in turn, until everything fits.
const CHARACTERS_MAX: [usize; 3] = [8_000, 2_000, 500];

/// Where even that is too much: what the continuation may take, and what the beginning of the past may take
/// of the rest. The others are the newest items before the cut.
const AFTER_PERCENT: u64 = 30;
const BEGINNING_PERCENT: u64 = 20;

/// The items before the cut and those after it, in at most about so many tokens.
pub(crate) fn fitted(
    past: &[Arc<Item>],
    after: &[Arc<Item>],
    room: Tokens,
    meter: &Meter,
) -> [Vec<Arc<Item>>; 2] {
    let mut both = [past.to_vec(), after.to_vec()];
    for characters_max in CHARACTERS_MAX {
        if tokens(both.iter().flatten(), meter) <= room {
            return both;
        }
        for item in both.iter_mut().flatten() {
            *item = Arc::new(shortened(item, characters_max));
        }
    }
    if tokens(both.iter().flatten(), meter) <= room {
        return both;
    }
    let [past, after] = both;
    let share = |room: Tokens, percent: u64| Tokens(room.0 * percent / 100);
    let after_count = count_within(after.iter(), share(room, AFTER_PERCENT), meter);
    let room = room.saturating_sub(tokens(&after[..after_count], meter));
    let head_count = count_within(past.iter(), share(room, BEGINNING_PERCENT), meter);
    let room = room.saturating_sub(tokens(&past[..head_count], meter));
    let tail_count = count_within(past[head_count..].iter().rev(), room, meter);
    let tail = past.len() - tail_count;
    let mut kept = past[..head_count].to_vec();
    if head_count < tail {
        let left_out = format!("({} items are left out here)", tail - head_count);
        kept.push(Arc::new(Item::text("left-out", ItemKind::Context, left_out)));
    }
    kept.extend_from_slice(&past[tail..]);
    [kept, after[..after_count].to_vec()]
}

fn tokens<'i>(items: impl IntoIterator<Item = &'i Arc<Item>>, meter: &Meter) -> Tokens {
    items.into_iter().map(|item| meter.item(item).total).sum()
}

/// How many items from the first on fit.
fn count_within<'i>(items: impl Iterator<Item = &'i Arc<Item>>, room: Tokens, meter: &Meter) -> usize {
    let mut taken = Tokens::ZERO;
    let fits = |item: &&Arc<Item>| {
        taken += meter.item(item).total;
        taken <= room
    };
    items.take_while(fits).count()
}

fn shortened(item: &Item, characters_max: usize) -> Item {
    let mut item = item.clone();
    for part in &mut item.parts {
        match part {
            Part::Text(text) => cut(text, characters_max),
            Part::ToolCall(ToolCall { input, .. }) => {
                if let Some(text) = around_middle(input.as_str(), characters_max) {
                    *input = ToolInput::Text(text.into());
                }
            }
            Part::ToolResult(result) => {
                for piece in &mut result.content {
                    match piece {
                        ResultPart::Text(text) => cut(text, characters_max),
                        ResultPart::Structured(json) => {
                            if let Some(text) = around_middle(json.as_str(), characters_max) {
                                *piece = ResultPart::Text(text.into());
                            }
                        }
                        ResultPart::Media(_) | ResultPart::File(_) | ResultPart::Opaque(_) => {}
                    }
                }
            }
            // The prompt quotes little of the one and names the others.
            Part::Reasoning(_) | Part::Structured(_) | Part::Media(_) | Part::File(_) | Part::Opaque(_) => {}
        }
    }
    item
}

fn cut(text: &mut Text, characters_max: usize) {
    if let Some(shorter) = around_middle(text, characters_max) {
        *text = shorter.into();
    }
}

/// The beginning and the end of a text; none where it is short enough.
fn around_middle(text: &str, characters_max: usize) -> Option<String> {
    let count = if text.len() <= characters_max { 0 } else { text.chars().count() };
    if count <= characters_max {
        return None;
    }
    let place = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte);
    let half = characters_max / 2;
    let (head, tail) = (&text[..place(half)], &text[place(count - half)..]);
    Some(format!("{head}\n[… {} characters left out …]\n{tail}", count - 2 * half))
}

#[cfg(test)]
mod tests {
    use foldback_core::{EstimatingCounter, ToolResult};

    use super::*;

    fn meter() -> Meter {
        foldback_core::Transcript::new(Arc::new(EstimatingCounter)).meter().clone()
    }

    fn session(count: usize, words: usize) -> Vec<Arc<Item>> {
        let one = |index: usize| {
            let call = format!("c{index}");
            let text = format!("line {index} ") + &"ähm and so on ".repeat(words);
            [
                Item::assistant(
                    format!("a{index}"),
                    vec![Part::call(&*call, "sh", &serde_json::json!({"cmd": text}))],
                ),
                Item::tool(format!("t{index}"), ToolResult::text(&*call, text)),
            ]
        };
        (0..count).flat_map(one).map(Arc::new).collect()
    }

    #[test]
    fn what_fits_is_not_touched_and_what_does_not_is_made_to_fit_from_its_long_texts_on() {
        let (past, after) = (session(20, 400), session(10, 400));
        let all = tokens(past.iter().chain(&after), &meter());
        assert_eq!(fitted(&past, &after, all, &meter()), [past.clone(), after.clone()]);
        for percent in [60, 20, 5, 1] {
            let room = Tokens(all.0 * percent / 100);
            let [short_past, short_after] = fitted(&past, &after, room, &meter());
            let taken = tokens(short_past.iter().chain(&short_after), &meter());
            assert!(taken <= room + Tokens(32), "{percent}%: {taken} of {room}");
            if percent >= 20 {
                assert_eq!((short_past.len(), short_after.len()), (past.len(), after.len()), "{percent}%");
            }
        }
    }

    #[test]
    fn where_items_are_left_out_the_newest_before_the_cut_and_the_first_after_it_stay() {
        let (past, after) = (session(200, 1), session(100, 1));
        let room = Tokens(tokens(past.iter().chain(&after), &meter()).0 / 4);
        let [kept, next] = fitted(&past, &after, room, &meter());
        assert_eq!((kept.first(), kept.last()), (past.first(), past.last()));
        assert_eq!(next.first(), after.first());
        assert!(next.len() < after.len() && kept.iter().any(|item| item.id == "left-out".into()));
    }

    #[test]
    fn nothing_is_left_where_there_is_no_room_at_all() {
        let [past, after] = fitted(&session(3, 1), &session(3, 1), Tokens::ZERO, &meter());
        assert_eq!((past.len(), after.len()), (1, 0), "only the note that items are left out");
    }
}
