//! What every call of a session would have read, a curve for each policy.

use std::fmt::Write;

use super::super::runs::{Policy, Session};
use super::{escaped, style};
use crate::terminal::number;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 300.0;
/// Room for labels around the plot.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;

/// Lines across the plot.
const GRID_LINES: u64 = 4;

/// Points of a curve; of calls that fall on one point the largest prompt is drawn.
const POINTS_MAX: usize = 800;

/// Compactions that are marked on a curve.
const MARKS_MAX: usize = 200;

struct Scale {
    tokens_max: f64,
    calls_max: f64,
}

impl Scale {
    fn x(&self, call: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * call as f64 / self.calls_max
    }

    fn y(&self, tokens: u64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * tokens as f64 / self.tokens_max
    }
}

pub(super) fn draw(page: &mut String, index: usize, session: &Session, names: &[&str]) {
    let peak = session.policies.iter().map(|policy| policy.peak).max().unwrap_or(0).max(1);
    let calls = session.policies.iter().map(|policy| policy.calls).max().unwrap_or(0);
    let scale = Scale { tokens_max: peak as f64, calls_max: calls.saturating_sub(1).max(1) as f64 };
    let _ = writeln!(
        page,
        "<svg role=\"img\" aria-labelledby=\"curve-{index}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\
         <title id=\"curve-{index}\">Tokens that each of {calls} calls reads, by policy; circles are \
         compactions</title>"
    );
    grid(page, &scale, peak);
    if session.window < peak {
        let y = scale.y(session.window);
        let _ = writeln!(
            page,
            "<line class=\"window\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"><title>the window\
             </title></line>",
            WIDTH - RIGHT
        );
    }
    for policy in &session.policies {
        let colour = names.iter().position(|name| *name == policy.policy).map_or("c0", style::colour);
        curve(page, policy, colour, &scale);
    }
    page.push_str("</svg>\n");
}

fn grid(page: &mut String, scale: &Scale, peak: u64) {
    for line in 0..=GRID_LINES {
        let tokens = peak * line / GRID_LINES;
        let y = scale.y(tokens);
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            number(tokens)
        );
    }
    let _ = writeln!(page, "<text class=\"axis\" x=\"{LEFT}\" y=\"{:.1}\">calls →</text>", HEIGHT - 8.0);
}

fn curve(page: &mut String, policy: &Policy, colour: &str, scale: &Scale) {
    let step = policy.curve.len().div_ceil(POINTS_MAX).max(1);
    let mut path = String::new();
    for (index, points) in policy.curve.chunks(step).enumerate() {
        let prompt = points.iter().map(|point| point.prompt).max().unwrap_or(0);
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", scale.x(index * step), scale.y(prompt));
    }
    let name = escaped(&policy.policy);
    let _ = writeln!(
        page,
        "<path class=\"line {colour}\" d=\"{path}\"><title>{name}: {} tokens at most</title></path>",
        number(policy.peak)
    );
    for made in policy.compactions.iter().take(MARKS_MAX) {
        let _ = writeln!(
            page,
            "<circle class=\"{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{name} before call {}: {} → {} \
             tokens</title></circle>",
            scale.x(made.call),
            scale.y(made.tokens_after),
            made.call + 1,
            number(made.tokens_before),
            number(made.tokens_after)
        );
    }
}
