//! A probe as one page that needs nothing but itself: the arms, and every answer with its grade.

use std::fmt::Write;

use super::questions::Kind;
use super::scores::{Bill, GradedAnswer, ProbedSession, Read, Total, tenth};
use crate::lab::page::{escaped, style, swatch};
use crate::lab::runs::share;
use crate::terminal::{counted, number};

/// Sessions whose answers are listed; the rest are in the totals.
const SESSIONS_MAX: usize = 50;

/// The page.
pub(crate) fn draw(sessions: &[ProbedSession], totals: &[Total], bill: &Bill, model: &str) -> String {
    let mut page = style::head("probe");
    let _ = writeln!(
        page,
        "<h1>Probe</h1>\n<p>{}. From each compacted view alone, {} answered the questions, and graded the answers \
         without knowing whose they were. A score is 1, 0.5 or 0 for a question; wrong answers contradict the key. \
         {}.</p>",
        counted(sessions.len(), "conversation"),
        escaped(model),
        escaped(&bill.told())
    );
    overview(&mut page, totals);
    page.push_str("<h2>Sessions</h2>\n");
    let names: Vec<&str> = totals.iter().map(|total| total.arm.arm.as_str()).collect();
    sessions.iter().take(SESSIONS_MAX).for_each(|session| section(&mut page, session, &names));
    let left = sessions.len().saturating_sub(SESSIONS_MAX);
    if left > 0 {
        let _ = writeln!(page, "<p>{left} more sessions are in the totals and not listed.</p>");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn overview(page: &mut String, totals: &[Total]) {
    page.push_str(
        "<h2>Arms</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">arm</th>\
         <th scope=\"col\">tokens</th><th scope=\"col\">score</th>",
    );
    for kind in Kind::ALL {
        let _ = write!(page, "<th scope=\"col\" title=\"{}\">{}</th>", kind.meaning(), kind.title());
    }
    page.push_str(
        "<th scope=\"col\">readable</th><th scope=\"col\">noise</th><th scope=\"col\">sure</th>\
         <th scope=\"col\">wrong</th><th scope=\"col\">could not be compacted</th></tr></thead>\n<tbody>\n",
    );
    for (index, total) in totals.iter().enumerate() {
        let _ = write!(
            page,
            "<tr><th scope=\"row\">{}{}</th><td>{}</td><td>{}{}</td>",
            swatch(index),
            escaped(&total.arm.arm),
            total.tokens.map_or_else(|| "-".to_owned(), number),
            share(total.score),
            meter(total.score, index)
        );
        for kind in Kind::ALL {
            let score = total.by_kind.get(kind.name()).copied();
            let _ = write!(page, "<td>{}{}</td>", share(score), meter(score, index));
        }
        let noise = total.noise_percent.map_or_else(|| "-".to_owned(), |noise| format!("{noise:.0}%"));
        let _ = writeln!(
            page,
            "<td>{}</td><td>{noise}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            tenth(total.readability),
            tenth(total.state_known),
            total.wrong,
            total.failed
        );
    }
    page.push_str("</tbody></table></div>\n");
}

/// A bar as long as a score.
fn meter(score: Option<f64>, index: usize) -> String {
    score.map_or_else(String::new, |score| {
        let (colour, percent) = (style::colour(index), score * 100.0);
        format!("<span class=\"meter\"><span class=\"{colour}\" style=\"width:{percent:.0}%\"></span></span>")
    })
}

fn section(page: &mut String, session: &ProbedSession, names: &[&str]) {
    let _ = writeln!(
        page,
        "<section><h3>{}</h3>\n<p>{}, {} tokens, cut behind {} items and {} tokens.</p>",
        escaped(&session.file),
        session.format,
        number(session.tokens),
        number(session.cut_index as u64),
        number(session.tokens_before)
    );
    for probed in &session.arms {
        if let Some(error) = &probed.error {
            let _ = writeln!(page, "<p>{}: {}</p>", escaped(&probed.arm.arm), escaped(error));
        }
    }
    let readers: Vec<(usize, &Read)> = session
        .arms
        .iter()
        .filter_map(|probed| {
            let index = names.iter().position(|name| *name == probed.arm.arm).unwrap_or(0);
            Some((index, probed.read.as_ref()?))
        })
        .collect();
    for (index, question) in session.questions.iter().enumerate() {
        let _ = writeln!(
            page,
            "<details><summary>{} · {}</summary>\n<div class=\"wide\"><table><tbody>\n\
             <tr><th scope=\"row\">key</th><td></td><td class=\"text\">{}</td></tr>",
            question.category.title(),
            escaped(&question.question),
            escaped(&question.answer)
        );
        for (arm, read) in &readers {
            let GradedAnswer { answer, grade, .. } = &read.answers[index];
            let wrong = if grade.wrong { " wrong" } else { "" };
            let _ = writeln!(
                page,
                "<tr><th scope=\"row\">{}{}</th><td>{}{wrong}</td><td class=\"text\">{}</td></tr>",
                swatch(*arm),
                escaped(names[*arm]),
                grade.score,
                escaped(answer)
            );
        }
        page.push_str("</tbody></table></div></details>\n");
    }
    page.push_str("</section>\n");
}

#[cfg(test)]
mod tests {
    use super::super::scores::{tests::session, totals};
    use super::*;

    #[test]
    fn nothing_that_a_session_or_a_model_says_becomes_markup() {
        let hostile = "<script>\"&";
        let mut one = session(hostile, &[("ladder 10%", Some(0.5)), ("ladder 5%", None)]);
        one.questions[0].question = hostile.to_owned();
        one.questions[1].answer = hostile.to_owned();
        one.arms[0].read.as_mut().unwrap().answers[0].answer = hostile.to_owned();
        one.arms[1].error = Some(hostile.to_owned());
        let sessions = [one];
        let page = draw(&sessions, &totals(&sessions), &Bill::default(), hostile);
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;&quot;&amp;").count(), 6, "{page}");
        assert!(page.contains("<title>foldback probe</title>") && page.ends_with("</html>\n"));
    }

    #[test]
    fn a_page_without_sessions_is_a_page() {
        let page = draw(&[], &[], &Bill::default(), "m");
        assert!(page.starts_with("<!doctype html>") && !page.contains("NaN"));
    }
}
