//! Cuts long texts into segments that can be counted one by one.
//!
//! A tokenizer first splits text into pieces (words, numbers, runs of punctuation or of white
//! space) and merges bytes within each. Nothing bounds a piece: two megabytes of one letter are
//! one, and merging it takes seconds, or overflows a stack, in every implementation there is. So
//! text is handed over in segments of at most [`SEGMENT_BYTES_MAX`], which also keeps the
//! tokenizer's buffers small and lets several threads share one text.
//!
//! A cut where both encodings end a piece anyway is free: the counts of both sides add up to the
//! count of the whole. Only where a whole segment holds no such place is it cut at a character,
//! and only there can the sum differ from the count of the whole, by the token or two that would
//! have spanned the cut.

/// The longest text the tokenizer is given at once, and so the longest run without a free cut that
/// is counted exactly. Beyond it, every `SEGMENT_BYTES_MAX` of such a run can add or take away a
/// token or two, of hundreds or thousands.
pub const SEGMENT_BYTES_MAX: usize = 32 * 1024;

/// A stretch of this length without a free cut may be one long piece. Ordinary text has none.
pub(crate) const LONG_RUN_BYTES: usize = 512;

/// The segments of `text`, in order; together they are the text.
pub(crate) fn segments(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (segment, after) = rest.split_at(segment_end(rest));
        rest = after;
        Some(segment)
    })
}

/// How many bytes of `text` are in stretches that may be long pieces.
pub(crate) fn long_run_bytes(text: &str) -> usize {
    let mut rest = text;
    let mut bytes = 0;
    while rest.len() > LONG_RUN_BYTES {
        let end = last_free_cut(rest, LONG_RUN_BYTES).unwrap_or_else(|| {
            let end = rest.floor_char_boundary(LONG_RUN_BYTES);
            bytes += end;
            end
        });
        rest = &rest[end..];
    }
    bytes
}

/// Where the first segment of `text` ends.
fn segment_end(text: &str) -> usize {
    if text.len() <= SEGMENT_BYTES_MAX {
        return text.len();
    }
    last_free_cut(text, SEGMENT_BYTES_MAX).unwrap_or_else(|| text.floor_char_boundary(SEGMENT_BYTES_MAX))
}

/// The last free cut of `text` at or before `bytes_max`, which lies within the text. Ordinary text
/// has one a few characters before it, so only those are looked at.
fn last_free_cut(text: &str, bytes_max: usize) -> Option<usize> {
    let end = text.floor_char_boundary(bytes_max);
    let mut after = text[end..].chars().next()?;
    for (index, before) in text[..end].char_indices().rev() {
        if is_free_cut(before, after) {
            return Some(index + before.len_utf8());
        }
        after = before;
    }
    None
}

/// Whether every piece of both encodings ends between these two characters, whatever surrounds
/// them.
///
/// From the patterns that define the pieces: letters, digits and punctuation never precede white
/// space within a piece, except line ends after punctuation; a line end is only ever followed by
/// more white space, or by a slash; a run of letters goes on with letters, marks or a contraction
/// (`'s`); digits only with digits. No pattern looks back, and only a run of white space looks
/// ahead, which is why a cut after white space must be after a line end.
fn is_free_cut(before: char, after: char) -> bool {
    match (before, after) {
        (_, ' ' | '\t') => !before.is_whitespace(),
        ('\n', _) => !after.is_whitespace() && after != '/',
        ('a'..='z' | 'A'..='Z', _) => after.is_ascii() && !after.is_ascii_alphabetic() && after != '\'',
        ('0'..='9', _) => after.is_ascii() && !after.is_ascii_digit(),
        _ => is_cjk_letter(before) && is_cjk_punctuation(after),
    }
}

/// Letters of Chinese, Japanese and Korean: texts that can go on for long without a space.
fn is_cjk_letter(c: char) -> bool {
    matches!(c, 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '一'..='\u{9fff}' | '가'..='힣')
}

fn is_cjk_punctuation(c: char) -> bool {
    matches!(
        c,
        '、' | '。' | '「' | '」' | '『' | '』' | '！' | '，' | '．' | '：' | '；' | '？' | '（' | '）'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, peers};

    /// Cuts at every free place, not only at the ones a cap happens to choose.
    fn cut_everywhere(text: &str) -> Vec<&str> {
        let mut start = 0;
        let mut pieces = Vec::new();
        let nexts = text.char_indices().skip(1);
        for ((_, before), (index, after)) in text.char_indices().zip(nexts) {
            if is_free_cut(before, after) {
                pieces.push(&text[start..index]);
                start = index;
            }
        }
        pieces.push(&text[start..]);
        pieces
    }

    #[test]
    fn cutting_at_every_free_place_changes_no_count() {
        for text in Corpus::new(0xc07).chunks(4_000) {
            for (encoding, peer) in peers() {
                let cut: usize = cut_everywhere(&text).into_iter().map(|piece| peer.count(piece)).sum();
                assert_eq!(cut, peer.count(text.as_str()), "{encoding}: {text:?}");
            }
        }
    }

    #[test]
    fn cutting_at_every_free_place_of_hostile_character_pairs_changes_no_count() {
        let alphabet: Vec<char> =
            " \t\n\r/'’!-.aAsStTdé1²٣Ⅷ你ー。，、\u{301}\u{e31}\u{200d}\u{a0}\u{2028}\u{85}\u{b}🙂ǅʰ_"
                .chars()
                .collect();
        let mut corpus = Corpus::new(0xa1f);
        for _ in 0..40_000 {
            let text = corpus.draw_from(&alphabet, 12);
            for (encoding, peer) in peers() {
                let cut: usize = cut_everywhere(&text).into_iter().map(|piece| peer.count(piece)).sum();
                assert_eq!(cut, peer.count(text.as_str()), "{encoding}: {text:?}");
            }
        }
    }

    #[test]
    fn segments_stay_within_the_cap_and_make_up_the_text() {
        let mut texts: Vec<String> = ["a", " ", "\n", "你", "🙂", "e\u{301}", "1", "a ", ""]
            .iter()
            .map(|unit| unit.repeat(200_000))
            .collect();
        texts.push(Corpus::new(3).chunks(200).collect());
        for text in texts {
            let all: Vec<&str> = segments(&text).collect();
            assert_eq!(all.concat(), text);
            assert!(all.iter().all(|segment| (1..=SEGMENT_BYTES_MAX).contains(&segment.len())));
        }
    }

    #[test]
    fn only_text_without_free_cuts_is_a_long_run() {
        let words = "a few ordinary words, ".repeat(1_000);
        assert_eq!(long_run_bytes(&words), 0);
        assert_eq!(long_run_bytes(&words[..LONG_RUN_BYTES]), 0);
        let run = "字".repeat(1_000);
        let found = long_run_bytes(&format!("{words}{run} {words}"));
        assert!((run.len() - LONG_RUN_BYTES..=run.len()).contains(&found), "{found}");
    }

    #[test]
    fn text_with_free_cuts_is_only_cut_there() {
        let text: String = Corpus::new(4).chunks(300).map(|chunk| chunk + "\nnext ").collect();
        let mut end = 0;
        for segment in segments(&text) {
            end += segment.len();
            if let (Some(before), Some(after)) = (text[..end].chars().next_back(), text[end..].chars().next())
            {
                assert!(is_free_cut(before, after), "cut between {before:?} and {after:?}");
            }
        }
    }
}
