//! What a person types: something to say, or an order that begins with a slash.

use crate::values::similar;

pub(super) const HELP: &str = "\
/compact [focus]  fold the past now; summaries attend to the focus
/undo             take the newest compaction off
/context          how full the context is
/help             this
/quit             end; so does the end of the input, or ctrl-C at the prompt
ctrl-C stops a turn. What you type while the agent works, it reads next.";

const ORDERS: [&str; 5] = ["/compact", "/undo", "/context", "/help", "/quit"];

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Words<'l> {
    Nothing,
    Order(Order<'l>),
    /// An order that there is not.
    Unknown(&'l str),
    Said(&'l str),
}

/// What the person wants of the program itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order<'l> {
    Compact(Option<&'l str>),
    Undo,
    Context,
    Help,
    Quit,
}

impl<'l> Words<'l> {
    pub(super) fn of(line: &'l str) -> Self {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
        match name {
            "" => Self::Nothing,
            "/compact" => Self::Order(Order::Compact(rest)),
            "/undo" => Self::Order(Order::Undo),
            "/context" => Self::Order(Order::Context),
            "/help" | "/?" => Self::Order(Order::Help),
            "/quit" | "/exit" => Self::Order(Order::Quit),
            // Paths begin with a slash, too; they have another one.
            name if name.starts_with('/') && !name[1..].contains('/') => Self::Unknown(name),
            _ => Self::Said(line),
        }
    }
}

/// What to tell whoever gave an order that there is not.
pub(super) fn unknown(name: &str) -> String {
    match similar(name, ORDERS.into_iter()) {
        Some(meant) => format!("there is no {name}; did you mean {meant}?"),
        None => format!("there is no {name}; /help lists what there is"),
    }
}

/// Whether an answer to a question is a yes.
pub(super) fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_told_from_what_is_said() {
        assert_eq!(Words::of("  "), Words::Nothing);
        assert_eq!(Words::of("/compact the parser "), Words::Order(Order::Compact(Some("the parser"))));
        assert_eq!(Words::of("/compact"), Words::Order(Order::Compact(None)));
        assert_eq!(Words::of("/exit"), Words::Order(Order::Quit));
        assert_eq!(Words::of("/etc/hosts is what?"), Words::Said("/etc/hosts is what?"));
        assert_eq!(Words::of("/undoo"), Words::Unknown("/undoo"));
        assert_eq!(unknown("/undoo"), "there is no /undoo; did you mean /undo?");
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        assert!(is_yes("Y\n") && is_yes("yes"));
        assert!(!is_yes("") && !is_yes("yep") && !is_yes("no"));
    }
}
