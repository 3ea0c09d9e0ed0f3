//! A session as a picture: what the context held as it went on, by kind, and where it was
//! compacted.

use std::fmt::Write;

use foldback_core::ItemKind;

use crate::axis;
use crate::stats::{Point, Stats};
use crate::terminal::number;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
/// Room for labels around the plot.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 64.0;
/// Room for the word at a compaction: nearer ones have only their line.
const WORD: f64 = 64.0;

/// Characters of a title; of a longer one its end is shown, where the name of a file stands.
const TITLE_CHARS_MAX: usize = 96;

/// A colour for each kind, in the order of [`ItemKind::ALL`].
const COLOURS: [&str; 7] = ["#64748b", "#94a3b8", "#16a34a", "#2563eb", "#f59e0b", "#a855f7", "#ec4899"];

/// The picture of one conversation.
pub(crate) fn draw(title: &str, stats: &Stats) -> String {
    let points = &stats.over_time;
    let tokens_max = points.iter().map(|point| point.tokens).max().unwrap_or(0).max(1);
    let items_max = points.last().map_or(1, |point| point.item.max(1));
    let marks = axis::marks(tokens_max);
    let tokens_max = marks.last().copied().unwrap_or(tokens_max);
    let scale = Scale { tokens_max: tokens_max as f64, items_max: items_max as f64 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{}</text>\n",
        escaped(&shown_title(title))
    );
    grid(&mut svg, &scale, &marks, items_max);
    for (kind_index, colour) in COLOURS.iter().enumerate() {
        if points.iter().any(|point| point.by_kind[kind_index] > 0) {
            let _ = writeln!(svg, "<path d=\"{}\" fill=\"{colour}\"/>", band(points, kind_index, &scale));
        }
    }
    drops(&mut svg, points, &scale);
    legend(&mut svg, points);
    svg.push_str("</svg>\n");
    svg
}

struct Scale {
    tokens_max: f64,
    items_max: f64,
}

impl Scale {
    fn x(&self, item: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * item as f64 / self.items_max
    }

    fn y(&self, tokens: u64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * tokens as f64 / self.tokens_max
    }
}

fn shown_title(title: &str) -> String {
    let left_out = title.chars().count().saturating_sub(TITLE_CHARS_MAX);
    match left_out {
        0 => title.to_owned(),
        _ => ['…'].into_iter().chain(title.chars().skip(left_out + 1)).collect(),
    }
}

fn grid(svg: &mut String, scale: &Scale, marks: &[u64], items_max: usize) {
    for &tokens in marks {
        let y = scale.y(tokens);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#475569\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            number(tokens)
        );
    }
    let (x, y) = (LEFT, HEIGHT - BOTTOM + 18.0);
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" fill=\"#475569\">items →</text>\
         <text x=\"16\" y=\"{TOP}\" fill=\"#475569\" transform=\"rotate(-90 16 {TOP})\" text-anchor=\"end\">tokens</text>"
    );
    // The word stands where the first number would.
    for item in axis::marks(items_max as u64).into_iter().skip(1).filter(|item| *item <= items_max as u64) {
        let x = scale.x(item as usize);
        let anchor = if x > WIDTH - RIGHT - 20.0 { "end" } else { "middle" };
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#475569\">{}</text>",
            number(item)
        );
    }
}

/// The area between a kind and those below it.
fn band(points: &[Point], kind_index: usize, scale: &Scale) -> String {
    let below = |point: &Point| point.by_kind[..kind_index].iter().sum::<u64>();
    let above = |point: &Point| below(point) + point.by_kind[kind_index];
    let mut path = String::new();
    for (index, point) in points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", scale.x(point.item), scale.y(above(point)));
    }
    for point in points.iter().rev() {
        let _ = write!(path, "L{:.1} {:.1}", scale.x(point.item), scale.y(below(point)));
    }
    path.push('Z');
    path
}

/// A line wherever the context got smaller.
fn drops(svg: &mut String, points: &[Point], scale: &Scale) {
    let mut free_from = LEFT;
    for pair in points.windows(2).filter(|pair| pair[1].tokens < pair[0].tokens) {
        let x = scale.x(pair[1].item);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" stroke=\"#dc2626\" \
             stroke-dasharray=\"4 3\"/>",
            HEIGHT - BOTTOM
        );
        if x < free_from {
            continue;
        }
        let (at, anchor) = if x + WORD > WIDTH { (x - 4.0, "end") } else { (x + 4.0, "start") };
        let y = TOP + 10.0;
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#dc2626\">compacted</text>"
        );
        free_from = x + WORD;
    }
}

fn legend(svg: &mut String, points: &[Point]) {
    let mut x = LEFT;
    let y = HEIGHT - 16.0;
    for (kind, colour) in ItemKind::ALL.into_iter().zip(COLOURS) {
        if points.iter().any(|point| point.by_kind[kind as usize] > 0) {
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"11\" height=\"11\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{y}\">{kind}</text>",
                y - 10.0,
                x + 16.0
            );
            x += 105.0;
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
