//! How the page looks, on light and on dark.

use std::fmt::Write;

/// Policies that have a colour of their own. More than there are presets; after that they repeat.
const COLOUR_COUNT: usize = 48;

/// Degrees on the colour wheel from one policy to the next. Every sixteenth has the same hue.
const HUE_STEP: f64 = 67.5;
const HUE_FIRST: f64 = 215.0;

/// Lightness in percent that colours take in turn, on light and on dark: neighbours on the wheel differ in it.
const LIGHTNESS: [u32; 3] = [34, 60, 46];
const LIGHTNESS_ON_DARK: [u32; 3] = [80, 62, 71];

/// The class of the colour of a policy.
pub(in crate::lab) fn colour(index: usize) -> String {
    format!("c{}", index % COLOUR_COUNT)
}

/// Everything before the content of a page on `what`.
pub(in crate::lab) fn head(what: &str) -> String {
    HEAD.replacen(SUBJECT, what, 1).replacen(COLOURS, &colours(), 1)
}

/// A rule for each colour, on light and on dark.
fn colours() -> String {
    let mut rules = String::new();
    let mut on_dark = String::new();
    for index in 0..COLOUR_COUNT {
        let hue = (HUE_FIRST + HUE_STEP * index as f64) % 360.0;
        // Writing into a string cannot fail.
        let _ = writeln!(rules, ".c{index} {{ --c: {} }}", hsl(hue, LIGHTNESS[index % LIGHTNESS.len()]));
        let light = LIGHTNESS_ON_DARK[index % LIGHTNESS_ON_DARK.len()];
        let _ = writeln!(on_dark, "  .c{index} {{ --c: {} }}", hsl(hue, light));
    }
    format!("{rules}@media (prefers-color-scheme: dark) {{\n{on_dark}}}")
}

fn hsl(hue: f64, lightness: u32) -> String {
    format!("hsl({hue} 85% {lightness}%)")
}

/// Stands for the rules of the colours.
const COLOURS: &str = "{colours}";

/// Stands for what a page is on.
const SUBJECT: &str = "{subject}";

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>foldback {subject}</title>
<style>
:root { --ground: #ffffff; --ink: #1e293b; --faint: #64748b; --rule: #e2e8f0; --over: #dc2626; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0f172a; --ink: #e2e8f0; --faint: #94a3b8; --rule: #334155; --over: #f87171; } }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 26px; } h2 { margin-top: 40px; } h3 { margin: 36px 0 0; overflow-wrap: anywhere; }
a { color: inherit; }
svg { width: 100%; height: auto; font-size: 12px; }
.wide { overflow-x: auto; } .wide svg { min-width: 640px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 9px; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
thead th { color: var(--faint); font-weight: 500; white-space: normal; vertical-align: bottom; }
th:first-child, .text { text-align: left; } td.text { white-space: normal; min-width: 11em; }
.made td { border-bottom: 0; padding-bottom: 0; }
.legend { margin: 0; } .legend span:not(.swatch) { margin-right: 20px; white-space: nowrap; }
small { display: block; color: var(--faint); }
details { margin: 8px 0; } summary { cursor: pointer; }
.swatch { display: inline-block; width: 11px; height: 11px; margin-right: 8px; border-radius: 2px; }
.meter { display: block; height: 4px; background: var(--rule); } .meter span { display: block; height: 4px; }
.label { fill: var(--ink); } .axis { fill: var(--faint); } .grid { stroke: var(--rule); }
text.over { fill: var(--over); } .window { stroke: var(--over); stroke-dasharray: 6 4; }
.line { stroke-width: 1.6; } .pale { opacity: 0.55; }
{colours}
rect[class^=c], circle[class^=c] { fill: var(--c); }
path.line { fill: none; stroke: var(--c); }
span[class^=c], span.swatch { background: var(--c); }
</style>
</head>
<body>
<main>
";

#[cfg(test)]
mod tests {
    use foldback_core::Policy;

    use super::*;

    #[test]
    fn every_preset_has_a_colour_of_its_own() {
        let rules = colours();
        let (light, dark) = rules.split_once("@media").unwrap();
        for rules in [light, dark] {
            let shown = |index: usize| {
                let rule = rules.split_once(&format!(".{} {{ --c: ", colour(index))).unwrap().1;
                rule.split_once(" }").unwrap().0
            };
            // One more for the run without a policy.
            let mut colours: Vec<&str> = (0..=Policy::all().count()).map(shown).collect();
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), Policy::all().count() + 1, "{rules}");
        }
    }
}
