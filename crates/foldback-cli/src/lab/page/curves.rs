//! What every call of a session would have read, a curve for each policy.

use std::fmt::Write;

use super::super::runs::{Policy, ReplayedSession};
use super::{escaped, style};
use crate::axis;
use crate::terminal::number;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 300.0;
/// Room for labels around the plot.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;

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

pub(super) fn draw(page: &mut String, index: usize, session: &ReplayedSession, names: &[&str]) {
    let peak = session.policies.iter().map(|policy| policy.peak).max().unwrap_or(0).max(1);
    let calls = session.policies.iter().map(|policy| policy.calls).max().unwrap_or(0);
    let marks = axis::marks(peak);
    let tokens_max = marks.last().copied().unwrap_or(peak).max(1);
    let scale = Scale { tokens_max: tokens_max as f64, calls_max: calls.saturating_sub(1).max(1) as f64 };
    let _ = writeln!(
        page,
        "<div class=\"wide\"><svg role=\"img\" aria-labelledby=\"curve-{index}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\"><title id=\"curve-{index}\">Tokens that each of {calls} calls \
         reads, by policy; circles are compactions</title>"
    );
    grid(page, &scale, &marks, calls);
    if session.window <= tokens_max {
        let y = scale.y(session.window);
        let _ = writeln!(
            page,
            "<line class=\"window\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"axis over\" x=\"{:.1}\" y=\"{:.1}\">the window</text>",
            WIDTH - RIGHT,
            LEFT + 6.0,
            if y < TOP + 14.0 { y + 14.0 } else { y - 5.0 }
        );
    }
    for policy in &session.policies {
        curve(page, policy, &colour_of(policy, names), &scale);
    }
    page.push_str("</svg></div>\n");
    legend(page, session, names);
}

fn colour_of(policy: &Policy, names: &[&str]) -> String {
    style::colour(names.iter().position(|name| *name == policy.policy).unwrap_or(0))
}

/// Which colour is which policy; those that never compact are in no list below.
fn legend(page: &mut String, session: &ReplayedSession, names: &[&str]) {
    page.push_str("<p class=\"legend\">");
    for policy in &session.policies {
        let colour = colour_of(policy, names);
        let name = escaped(&policy.policy);
        let _ =
            write!(page, "<span><span class=\"swatch {colour}\" aria-hidden=\"true\"></span>{name}</span> ");
    }
    page.push_str("</p>\n");
}

fn grid(page: &mut String, scale: &Scale, marks: &[u64], calls: usize) {
    for &tokens in marks {
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
    let y = HEIGHT - 8.0;
    let _ = writeln!(page, "<text class=\"axis\" x=\"{LEFT}\" y=\"{y:.1}\">calls →</text>");
    // The word stands where the first number would.
    for call in axis::marks(calls as u64).into_iter().skip(1).filter(|call| *call <= calls as u64) {
        let x = scale.x(call.saturating_sub(1) as usize);
        let anchor = if x > WIDTH - RIGHT - 20.0 { "end" } else { "middle" };
        let _ = writeln!(
            page,
            "<text class=\"axis\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            number(call)
        );
    }
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
