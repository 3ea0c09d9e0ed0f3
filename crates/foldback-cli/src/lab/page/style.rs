//! How the page looks, on light and on dark.

/// Colours that policies take in turn.
const COLOURS: [&str; 10] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];

pub(in crate::lab) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Everything before the content of a page on `what`.
pub(in crate::lab) fn head(what: &str) -> String {
    HEAD.replacen(SUBJECT, what, 1)
}

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
:root { --ground: #ffffff; --ink: #1e293b; --faint: #64748b; --rule: #e2e8f0; --over: #dc2626;
  --c0: #2563eb; --c1: #d97706; --c2: #16a34a; --c3: #9333ea; --c4: #db2777;
  --c5: #0891b2; --c6: #65a30d; --c7: #78716c; --c8: #dc2626; --c9: #4f46e5; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0f172a; --ink: #e2e8f0; --faint: #94a3b8; --rule: #334155; --over: #f87171;
    --c0: #60a5fa; --c1: #fbbf24; --c2: #4ade80; --c3: #c084fc; --c4: #f472b6;
    --c5: #22d3ee; --c6: #a3e635; --c7: #a8a29e; --c8: #f87171; --c9: #a5b4fc; } }
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
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.c8 { --c: var(--c8); } .c9 { --c: var(--c9); }
rect[class^=c], circle[class^=c] { fill: var(--c); }
path.line { fill: none; stroke: var(--c); }
span[class^=c], span.swatch { background: var(--c); }
</style>
</head>
<body>
<main>
";
