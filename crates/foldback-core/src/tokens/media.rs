//! What media and files cost, by dialect.
//!
//! Providers bill images by pixels, sound and video by seconds, documents by pages. Seconds and
//! pages are guessed from bytes; where a size is unknown, the dearest typical value stands, because
//! a context that overflows costs more than one that is folded a little early.

use base64::Engine;

use super::TokenCounter;
use crate::dialect::Dialect;
use crate::ids::Tokens;
use crate::part::{Blob, File, Media};

/// Anthropic scales images down to this long edge, in pixels.
const ANTHROPIC_LONG_EDGE_MAX: u64 = 1_568;
/// Pixels for each token of an anthropic image.
const ANTHROPIC_PIXELS_PER_TOKEN: u64 = 750;
/// What an anthropic image costs at most: it is scaled down to about 1.15 megapixels as well.
const ANTHROPIC_IMAGE_TOKENS_MAX: u64 = 1_600;

/// OpenAI first fits an image into a square of this edge.
const OPENAI_LONG_EDGE_MAX: u64 = 2_048;
/// Then it scales the short edge down to this.
const OPENAI_SHORT_EDGE_MAX: u64 = 768;
/// The edge of an openai tile.
const OPENAI_TILE_EDGE: u64 = 512;
/// What every openai image costs.
const OPENAI_IMAGE_TOKENS: u64 = 85;
/// What each tile of an openai image adds in high detail.
const OPENAI_TILE_TOKENS: u64 = 170;
/// Tiles of the dearest openai image: 2,048 by 768.
const OPENAI_TILE_COUNT_MAX: u64 = 8;

/// A gemini image up to this edge both ways is one tile.
const GEMINI_SMALL_EDGE_MAX: u64 = 384;
/// The edge of a gemini tile.
const GEMINI_TILE_EDGE: u64 = 768;
/// What each gemini tile costs.
const GEMINI_TILE_TOKENS: u64 = 258;
/// Gemini scales images down to this edge.
const GEMINI_EDGE_MAX: u64 = 3_072;
/// Tiles of a gemini image of unknown size: a full-screen capture of 1,920 by 1,080.
const GEMINI_TILE_COUNT_TYPICAL: u64 = 6;

/// Bytes of compressed sound for each second: a guess, 64 kbit/s.
const SOUND_BYTES_PER_SECOND: u64 = 8_000;
/// Bytes of uncompressed sound for each second: 16 kHz, 16 bit, one channel.
const WAVE_BYTES_PER_SECOND: u64 = 32_000;
/// Bytes of video for each second: a guess, 1 Mbit/s.
const VIDEO_BYTES_PER_SECOND: u64 = 125_000;
/// Length of sound or video behind an address.
const SECONDS_UNKNOWN: u64 = 60;
/// What gemini bills for a second of sound.
const GEMINI_SOUND_TOKENS_PER_SECOND: u64 = 32;
/// What openai bills for a second of sound: one token for each 100 ms.
const OPENAI_SOUND_TOKENS_PER_SECOND: u64 = 10;
/// What gemini bills for a second of video: one frame and its sound.
const GEMINI_VIDEO_TOKENS_PER_SECOND: u64 = 300;

/// Bytes of a PDF for each page: a guess on the low side, so that pages are not too few.
const PDF_BYTES_PER_PAGE: u64 = 40_000;
/// Pages of a document behind an address.
const PAGES_UNKNOWN: u64 = 20;
/// Anthropic reads a page twice: as text and as an image.
const ANTHROPIC_PAGE_TOKENS: u64 = 3_000;
/// OpenAI reads a page as text and as an image of two by two tiles.
const OPENAI_PAGE_TOKENS: u64 = 2_000;
/// Gemini reads a page as one tile.
const GEMINI_PAGE_TOKENS: u64 = 258;
/// Bytes of any other document for each token, as if it were plain text.
const OTHER_BYTES_PER_TOKEN: u64 = 4;

/// What an image, sound or video costs in `dialect`, or in the dearest one where none is given.
pub fn media_tokens(dialect: Option<Dialect>, media: &Media) -> Tokens {
    let kind = media.media_type.split('/').next().unwrap_or("");
    match kind {
        "audio" => sound_tokens(dialect, media),
        "video" => {
            let seconds = seconds(&media.data, VIDEO_BYTES_PER_SECOND);
            Tokens(seconds.saturating_mul(GEMINI_VIDEO_TOKENS_PER_SECOND))
        }
        _ if media.media_type.as_str() == "application/pdf" => pages_tokens(dialect, &media.data),
        // Whatever does not say what it is has been sent as an image.
        _ => {
            let size = media.dimensions();
            dearest(dialect, |dialect| image_tokens(dialect, size))
        }
    }
}

/// What a document costs in `dialect`, or in the dearest one where none is given. Text is counted
/// by `counter`.
pub(crate) fn file_tokens(counter: &dyn TokenCounter, dialect: Option<Dialect>, file: &File) -> Tokens {
    let is_text = is_text(&file.media_type);
    match &file.data {
        Blob::Text(text) => counter.count(text),
        Blob::Base64(data) if is_text => match decoded_text(data) {
            Some(text) => counter.count(&text),
            None => Tokens(decoded_len(data).div_ceil(OTHER_BYTES_PER_TOKEN)),
        },
        Blob::Base64(data) if file.media_type.as_str() != "application/pdf" => {
            Tokens(decoded_len(data).div_ceil(OTHER_BYTES_PER_TOKEN))
        }
        Blob::Base64(_) | Blob::Url(_) => pages_tokens(dialect, &file.data),
    }
}

fn dearest(dialect: Option<Dialect>, tokens: impl Fn(Dialect) -> u64) -> Tokens {
    Tokens(match dialect {
        Some(dialect) => tokens(dialect),
        None => Dialect::ALL.into_iter().map(tokens).max().unwrap_or(0),
    })
}

fn image_tokens(dialect: Dialect, size: Option<(u32, u32)>) -> u64 {
    let size = size.map(|(width, height)| (u64::from(width).max(1), u64::from(height).max(1)));
    match (dialect, size) {
        (Dialect::Anthropic, None) => ANTHROPIC_IMAGE_TOKENS_MAX,
        (Dialect::Anthropic, Some(size)) => {
            let (width, height) = scaled_to_long_edge(size, ANTHROPIC_LONG_EDGE_MAX);
            (width * height).div_ceil(ANTHROPIC_PIXELS_PER_TOKEN).min(ANTHROPIC_IMAGE_TOKENS_MAX)
        }
        (Dialect::OpenaiChat | Dialect::OpenaiResponses, None) => {
            OPENAI_IMAGE_TOKENS + OPENAI_TILE_TOKENS * OPENAI_TILE_COUNT_MAX
        }
        (Dialect::OpenaiChat | Dialect::OpenaiResponses, Some(size)) => {
            let size = scaled_to_long_edge(size, OPENAI_LONG_EDGE_MAX);
            let (width, height) = scaled_to_short_edge(size, OPENAI_SHORT_EDGE_MAX);
            let tile_count = width.div_ceil(OPENAI_TILE_EDGE) * height.div_ceil(OPENAI_TILE_EDGE);
            OPENAI_IMAGE_TOKENS + OPENAI_TILE_TOKENS * tile_count
        }
        (Dialect::Gemini, None) => GEMINI_TILE_TOKENS * GEMINI_TILE_COUNT_TYPICAL,
        (Dialect::Gemini, Some((width, height)))
            if width <= GEMINI_SMALL_EDGE_MAX && height <= GEMINI_SMALL_EDGE_MAX =>
        {
            GEMINI_TILE_TOKENS
        }
        (Dialect::Gemini, Some(size)) => {
            let (width, height) = scaled_to_long_edge(size, GEMINI_EDGE_MAX);
            GEMINI_TILE_TOKENS * width.div_ceil(GEMINI_TILE_EDGE) * height.div_ceil(GEMINI_TILE_EDGE)
        }
    }
}

fn scaled_to_long_edge((width, height): (u64, u64), edge_max: u64) -> (u64, u64) {
    let long_edge = width.max(height);
    if long_edge <= edge_max {
        return (width, height);
    }
    ((width * edge_max).div_ceil(long_edge), (height * edge_max).div_ceil(long_edge))
}

fn scaled_to_short_edge((width, height): (u64, u64), edge_max: u64) -> (u64, u64) {
    let short_edge = width.min(height);
    if short_edge <= edge_max {
        return (width, height);
    }
    ((width * edge_max).div_ceil(short_edge), (height * edge_max).div_ceil(short_edge))
}

fn sound_tokens(dialect: Option<Dialect>, media: &Media) -> Tokens {
    let is_wave =
        ["audio/wav", "audio/x-wav", "audio/wave", "audio/pcm"].contains(&media.media_type.as_str());
    let bytes_per_second = if is_wave { WAVE_BYTES_PER_SECOND } else { SOUND_BYTES_PER_SECOND };
    let seconds = seconds(&media.data, bytes_per_second);
    dearest(dialect, |dialect| {
        seconds.saturating_mul(match dialect {
            Dialect::OpenaiChat | Dialect::OpenaiResponses => OPENAI_SOUND_TOKENS_PER_SECOND,
            // Anthropic takes no sound: whatever a host makes of it, gemini's price is the dearer.
            Dialect::Anthropic | Dialect::Gemini => GEMINI_SOUND_TOKENS_PER_SECOND,
        })
    })
}

fn seconds(data: &Blob, bytes_per_second: u64) -> u64 {
    match data {
        Blob::Base64(data) => decoded_len(data).div_ceil(bytes_per_second),
        Blob::Text(text) => (text.len() as u64).div_ceil(bytes_per_second),
        Blob::Url(_) => SECONDS_UNKNOWN,
    }
}

fn pages_tokens(dialect: Option<Dialect>, data: &Blob) -> Tokens {
    let page_count = match data {
        Blob::Base64(data) => decoded_len(data).div_ceil(PDF_BYTES_PER_PAGE),
        Blob::Text(text) => (text.len() as u64).div_ceil(PDF_BYTES_PER_PAGE),
        Blob::Url(_) => PAGES_UNKNOWN,
    };
    dearest(dialect, |dialect| {
        page_count.saturating_mul(match dialect {
            Dialect::Anthropic => ANTHROPIC_PAGE_TOKENS,
            Dialect::OpenaiChat | Dialect::OpenaiResponses => OPENAI_PAGE_TOKENS,
            Dialect::Gemini => GEMINI_PAGE_TOKENS,
        })
    })
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || ["json", "xml", "yaml", "toml", "javascript", "csv"].iter().any(|kind| media_type.contains(kind))
            && !media_type.contains("openxml")
}

fn decoded_len(base64: &str) -> u64 {
    base64.len() as u64 / 4 * 3
}

fn decoded_text(base64: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::EstimatingCounter;

    fn image(pixels: Option<(u32, u32)>) -> Media {
        Media { media_type: "image/png".into(), data: Blob::Url("https://example.com/a.png".into()), pixels }
    }

    fn cost(dialect: Dialect, width: u32, height: u32) -> u64 {
        media_tokens(Some(dialect), &image(Some((width, height)))).0
    }

    #[test]
    fn images_cost_what_the_providers_publish() {
        assert_eq!(cost(Dialect::Anthropic, 200, 200), 54);
        assert_eq!(cost(Dialect::Anthropic, 1_000, 1_000), 1_334);
        assert_eq!(cost(Dialect::Anthropic, 8_000, 8_000), 1_600);
        assert_eq!(cost(Dialect::OpenaiChat, 1_024, 1_024), 765);
        assert_eq!(cost(Dialect::OpenaiResponses, 2_048, 4_096), 1_105);
        assert_eq!(cost(Dialect::OpenaiChat, 512, 512), 255);
        assert_eq!(cost(Dialect::Gemini, 384, 384), 258);
        assert_eq!(cost(Dialect::Gemini, 1_536, 768), 516);
    }

    #[test]
    fn an_image_of_unknown_size_costs_no_less_than_a_full_screen_capture() {
        for dialect in Dialect::ALL {
            let unknown = media_tokens(Some(dialect), &image(None)).0;
            assert!(unknown >= cost(dialect, 1_920, 1_080), "{dialect:?}");
        }
    }

    #[test]
    fn without_a_dialect_the_dearest_one_counts() {
        for pixels in [None, Some((64, 64)), Some((1_024, 1_024)), Some((3_000, 500))] {
            let any = media_tokens(None, &image(pixels));
            let each = Dialect::ALL.map(|dialect| media_tokens(Some(dialect), &image(pixels)));
            assert_eq!(Some(any), each.into_iter().max(), "{pixels:?}");
        }
    }

    #[test]
    fn extreme_sizes_neither_panic_nor_come_for_free() {
        for dialect in Dialect::ALL {
            for (width, height) in [(0, 0), (1, u32::MAX), (u32::MAX, u32::MAX)] {
                assert!(cost(dialect, width, height) >= 1, "{dialect:?} {width} by {height}");
            }
        }
    }

    #[test]
    fn a_text_file_costs_the_same_plain_or_in_base64() {
        let text = "name,size\nalpha,12\nbeta,7\n";
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        let file = |data| File { name: None, media_type: "text/csv".into(), data };
        let count = |data| file_tokens(&EstimatingCounter, None, &file(data));
        assert_eq!(count(Blob::Text(text.into())), count(Blob::Base64(encoded.into())));
    }

    #[test]
    fn documents_and_sound_cost_by_length_and_never_nothing() {
        let pdf = |len: usize| File {
            name: None,
            media_type: "application/pdf".into(),
            data: Blob::Base64("A".repeat(len).into()),
        };
        let cost = |len| file_tokens(&EstimatingCounter, Some(Dialect::Anthropic), &pdf(len)).0;
        assert_eq!(cost(4_000), 3_000);
        assert!(cost(4_000_000) > 50 * cost(4_000));
        let sound = |data| Media { media_type: "audio/mpeg".into(), data, pixels: None };
        let minute = Blob::Base64("A".repeat(640_000).into());
        assert_eq!(media_tokens(Some(Dialect::Gemini), &sound(minute)), Tokens(60 * 32));
        assert_eq!(
            media_tokens(None, &sound(Blob::Url("https://example.com/a.mp3".into()))),
            Tokens(60 * 32)
        );
    }
}
