//! A replay as one page that needs nothing but itself: curves, costs, retention, every compaction.

mod curves;
pub(super) mod style;

use std::fmt::Write;

use super::pricing;
use super::runs::{Compaction, Fate, Policy, ReplayedSession, Total, dollars, share};
use crate::terminal::{counted, number};

/// Sessions that are drawn; the rest are in the totals.
const SESSIONS_MAX: usize = 100;

/// Compactions that are listed for one policy in one session; the rest are counted.
const COMPACTIONS_MAX: usize = 40;

/// Width of a bar that stands for the most expensive policy, in pixels.
const BAR: f64 = 480.0;

/// Height of a row of bars.
const ROW: f64 = 26.0;

/// Room for names beside bars.
const NAMES: f64 = 130.0;

/// The page.
pub(crate) fn draw(sessions: &[ReplayedSession], totals: &[Total]) -> String {
    let names: Vec<&str> = totals.iter().map(|total| total.policy.as_str()).collect();
    let mut page = style::head("replay");
    heading(&mut page, sessions);
    overview(&mut page, totals);
    costs(&mut page, totals);
    kinds(&mut page, totals);
    page.push_str("<h2>Sessions</h2>\n");
    let drawn = sessions.iter().filter(|session| session.policies.iter().any(|policy| policy.calls > 0));
    for (index, session) in drawn.clone().take(SESSIONS_MAX).enumerate() {
        section(&mut page, index, session, &names);
    }
    let left = drawn.count().saturating_sub(SESSIONS_MAX);
    if left > 0 {
        let _ = writeln!(page, "<p>{left} more sessions are in the totals and not drawn.</p>");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn heading(page: &mut String, sessions: &[ReplayedSession]) {
    let tokens = sessions.iter().map(|session| session.tokens).sum();
    let _ = writeln!(
        page,
        "<h1>Replay</h1>\n<p>{}, {} tokens, run again call by call under each policy. \
         {}</p>",
        counted(sessions.len(), "conversation"),
        number(tokens),
        prices(sessions)
    );
    page.push_str(
        "<p>Retention is the share of what the agent wrote after a compaction, had known before it and was \
         not told again, that is still in its context. In context counts only what stands in 40 \
         characters of a line that held it. A dash means that there was nothing to measure.</p>\n",
    );
}

/// What calls are counted at, and where the prices were read.
fn prices(sessions: &[ReplayedSession]) -> String {
    let mut sources: Vec<&str> = pricing::used(sessions).iter().map(|used| used.prices.source).collect();
    if sources.is_empty() {
        return String::new();
    }
    sources.sort_unstable();
    sources.dedup();
    let link = |source: &&str| format!("<a href=\"{0}\">{0}</a>", escaped(source));
    let links = sources.iter().map(link).collect::<Vec<_>>().join(", ");
    format!("Prices of {}, read from {links}.", escaped(&pricing::told(sessions)))
}

fn overview(page: &mut String, totals: &[Total]) {
    page.push_str(
        "<h2>Policies</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">policy</th>\
         <th scope=\"col\">cost</th><th scope=\"col\">of it summaries</th><th scope=\"col\">compactions</th>\
         <th scope=\"col\">largest prompt</th><th scope=\"col\">from the cache</th>\
         <th scope=\"col\">retention</th>\
         <th scope=\"col\">calls over the window</th><th scope=\"col\">failed</th></tr></thead>\n<tbody>\n",
    );
    for (index, total) in totals.iter().enumerate() {
        let cached = total.cached_tokens as f64 / total.prompt_tokens.max(1) as f64 * 100.0;
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{cached:.0}%</td>\
             <td>{}</td><td>{}</td><td>{}</td></tr>",
            swatch(index),
            escaped(&total.policy),
            dollars(total.cost),
            dollars(total.summary_cost),
            total.compactions,
            number(total.peak),
            share(total.retention),
            total.overflows,
            total.failures
        );
    }
    page.push_str("</tbody></table></div>\n");
}

pub(super) fn swatch(index: usize) -> String {
    format!("<span class=\"swatch {}\" aria-hidden=\"true\"></span>", style::colour(index))
}

fn costs(page: &mut String, totals: &[Total]) {
    let most = totals.iter().map(|total| total.cost).fold(f64::MIN_POSITIVE, f64::max);
    let height = ROW * totals.len() as f64 + 8.0;
    let _ = writeln!(
        page,
        "<h2>Cost</h2>\n<div class=\"wide\"><svg role=\"img\" aria-labelledby=\"cost-title\" viewBox=\"0 0 {} {height}\">\
         <title id=\"cost-title\">What each policy costs over all sessions; the lighter end is for \
         summaries</title>",
        NAMES + BAR + 110.0
    );
    for (index, total) in totals.iter().enumerate() {
        let y = ROW * index as f64 + 4.0;
        let calls = BAR * (total.cost - total.summary_cost) / most;
        let summaries = BAR * total.summary_cost / most;
        let colour = style::colour(index);
        let (cost, name) = (dollars(total.cost), escaped(&total.policy));
        let _ = writeln!(
            page,
            "<g><title>{name}: {cost}, of it {} for summaries</title>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
             <rect class=\"{colour}\" x=\"{NAMES}\" y=\"{y:.1}\" width=\"{calls:.1}\" height=\"18\"/>\
             <rect class=\"{colour} pale\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{summaries:.1}\" height=\"18\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{cost}</text></g>",
            dollars(total.summary_cost),
            NAMES - 8.0,
            y + 13.0,
            NAMES + calls,
            NAMES + calls + summaries + 6.0,
            y + 13.0
        );
    }
    page.push_str("</svg></div>\n");
}

fn kinds(page: &mut String, totals: &[Total]) {
    let mut names: Vec<&str> = totals.iter().flat_map(|total| total.by_kind.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    page.push_str("<h2>Retention by kind</h2>\n");
    if names.is_empty() {
        page.push_str("<p>Not measurable: no compaction hid anything that was needed afterwards.</p>\n");
        return;
    }
    page.push_str("<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">policy</th>");
    names.iter().for_each(|name| {
        let _ = write!(page, "<th scope=\"col\">{name}</th>");
    });
    page.push_str("</tr></thead>\n<tbody>\n");
    for (index, total) in totals.iter().enumerate() {
        let _ = write!(page, "<tr><th scope=\"row\">{}{}</th>", swatch(index), escaped(&total.policy));
        for name in &names {
            let Some(kind) = total.by_kind.get(name).filter(|kind| kind.needed > 0) else {
                page.push_str("<td>-</td>");
                continue;
            };
            let of = |part: usize| part as f64 / kind.needed as f64 * 100.0;
            let retention = of(kind.told);
            let _ = write!(
                page,
                "<td title=\"{} of {}\">{retention:.0}%<span class=\"meter\">\
                 <span class=\"{}\" style=\"width:{retention:.0}%\"></span></span></td>",
                kind.told,
                kind.needed,
                style::colour(index)
            );
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn section(page: &mut String, index: usize, session: &ReplayedSession, names: &[&str]) {
    let _ = writeln!(
        page,
        "<section aria-labelledby=\"session-{index}\"><h3 id=\"session-{index}\">{}</h3>\n\
         <p>{}, {} items, {} tokens, replayed at a window of {}.</p>",
        escaped(&session.file),
        session.format,
        number(session.items as u64),
        number(session.tokens),
        number(session.window)
    );
    curves::draw(page, index, session, names);
    for policy in session.policies.iter().filter(|policy| !policy.compactions.is_empty()) {
        compactions(page, policy, names);
    }
    page.push_str("</section>\n");
}

fn compactions(page: &mut String, policy: &Policy, names: &[&str]) {
    let index = names.iter().position(|name| *name == policy.policy).unwrap_or(0);
    let _ = writeln!(
        page,
        "<details><summary>{}{}: {}, {}, retention {}</summary>\n<div class=\"wide\"><table>\n\
         <thead><tr><th scope=\"col\">before call</th><th scope=\"col\" class=\"text\">why</th>\
         <th scope=\"col\">tokens</th><th scope=\"col\">items kept</th><th scope=\"col\">shortened</th>\
         <th scope=\"col\">folded</th><th scope=\"col\">dropped</th><th scope=\"col\">prefix kept</th>\
         <th scope=\"col\">pays after</th><th scope=\"col\">retention</th>\
         </tr></thead>\n<tbody>",
        swatch(index),
        escaped(&policy.policy),
        counted(policy.compactions.len(), "compaction"),
        dollars(policy.cost),
        share(policy.retention)
    );
    policy.compactions.iter().take(COMPACTIONS_MAX).for_each(|made| row(page, made));
    page.push_str("</tbody></table></div>\n");
    let left = policy.compactions.len().saturating_sub(COMPACTIONS_MAX);
    if left > 0 {
        let _ = writeln!(page, "<p>and {left} more</p>");
    }
    page.push_str("</details>\n");
}

/// Columns of a table of compactions.
const COLUMNS: usize = 10;

fn row(page: &mut String, made: &Compaction) {
    let pays = made.break_even.map_or_else(|| "never".to_owned(), counted_calls);
    let items = made.items;
    let _ = writeln!(
        page,
        "<tr class=\"made\"><td>{}</td><td class=\"text\">{}</td><td>{} → {}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td>{pays}</td><td>{}</td></tr>",
        made.call + 1,
        escaped(&made.reason),
        number(made.tokens_before),
        number(made.tokens_after),
        number(items.kept as u64),
        number(items.shortened as u64),
        number(items.folded as u64),
        number(items.dropped as u64),
        number(made.prefix_kept),
        share(made.retention)
    );
    let _ = writeln!(
        page,
        "<tr><td class=\"text\" colspan=\"{COLUMNS}\"><small>{}</small></td></tr>",
        told(made)
    );
}

fn counted_calls(calls: u64) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{} calls", number(calls)) }
}

/// What became of what the view told, in words.
fn told(made: &Compaction) -> String {
    let fate = |what: &str, fate: Fate| {
        let told = [(fate.kept, "kept"), (fate.recoverable, "recoverable"), (fate.lost, "lost")];
        let told = told.iter().filter(|(count, _)| *count > 0);
        let told: Vec<String> = told.map(|(count, how)| format!("{} {how}", number(*count as u64))).collect();
        (!told.is_empty()).then(|| format!("{what}: {}", told.join(", ")))
    };
    let by_kind = made.names.iter().filter_map(|(kind, one)| fate(kind, *one));
    let percent =
        |what: &str, share: Option<f64>| share.map(|share| format!("{what}: {:.0}% told", share * 100.0));
    let last_error =
        made.last_error.map(|is_kept| format!("last error: {}", if is_kept { "told" } else { "not told" }));
    let rest =
        [percent("the user's rules", made.constraints), percent("changed files", made.files), last_error];
    let all = fate("all names", made.all_names());
    let told: Vec<String> = all.into_iter().chain(by_kind).chain(rest.into_iter().flatten()).collect();
    told.join(" · ")
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::runs::Items;
    use super::*;

    fn example() -> pricing::Pricing {
        pricing::Pricing { prices: &foldback_core::Prices::ALL[0], from: pricing::PricesFrom::Assumed }
    }

    #[test]
    fn nothing_in_a_name_becomes_markup() {
        let session = ReplayedSession {
            file: "<script>\"&".to_owned(),
            format: "native",
            window: 1,
            tokens: 0,
            items: 0,
            prices: example(),
            policies: Vec::new(),
        };
        let mut page = String::new();
        section(&mut page, 0, &session, &[]);
        assert!(page.contains("&lt;script&gt;&quot;&amp;"), "{page}");
        assert!(!page.contains("<script"));
    }

    fn compacted() -> Compaction {
        let items = Items { kept: 5, shortened: 2, folded: 1_300, dropped: 0 };
        Compaction {
            call: 38,
            item: 80,
            reason: "full".to_owned(),
            tokens_before: 900,
            tokens_after: 100,
            first_changed: Some(1),
            prefix_kept: 10,
            break_even: Some(1),
            retention: Some(0.5),
            constraints: Some(1.0),
            files: None,
            last_error: Some(false),
            items,
            names: [("path", Fate { kept: 12, recoverable: 3, lost: 0 })].into_iter().collect(),
        }
    }

    #[test]
    fn a_compaction_tells_what_was_kept_folded_and_lost_without_pointing_at_it() {
        let mut page = String::new();
        row(&mut page, &compacted());
        let cells = "<td>5</td><td>2</td><td>1,300</td><td>0</td><td>10</td><td>1 call</td>";
        assert!(page.contains(cells), "{page}");
        let names = "all names: 12 kept, 3 recoverable · path: 12 kept, 3 recoverable · \
                     the user's rules: 100% told · last error: not told";
        assert!(page.contains(names), "{page}");
        assert_eq!(page.matches("<td>").count() + 1, COLUMNS);
    }

    #[test]
    fn a_curve_has_a_legend_and_the_window() {
        let policy = Policy {
            policy: "still".to_owned(),
            calls: 2,
            peak: 900,
            prompt_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            cost: 0.0,
            summary_cost: 0.0,
            retention: None,
            by_kind: <_>::default(),
            overflows: 0,
            failures: 0,
            failed: Vec::new(),
            compactions: Vec::new(),
            curve: Vec::new(),
        };
        let mut session = ReplayedSession {
            file: "f".to_owned(),
            format: "native",
            window: 950,
            tokens: 0,
            items: 0,
            prices: example(),
            policies: vec![policy],
        };
        let drawn = |session: &ReplayedSession| {
            let mut page = String::new();
            section(&mut page, 0, session, &["still"]);
            page
        };
        assert!(drawn(&session).contains("</span>still</span>"), "those that never compact, too");
        assert!(drawn(&session).contains(">the window<") && drawn(&session).contains(">1,000<"));
        session.window = 2_000;
        assert!(!drawn(&session).contains(">the window<"), "it is above the picture");
    }

    #[test]
    fn a_page_without_sessions_is_a_page() {
        let page = draw(&[], &[]);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("Not measurable") && !page.contains("NaN"));
    }
}
