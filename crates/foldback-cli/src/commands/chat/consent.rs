//! Asking the person before something is changed or run.

use std::fmt;
use std::sync::Arc;

use foldback_loop::ToolError;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::terminal::harmless;

/// What a tool wants to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask<'a> {
    /// Run a command.
    Run { command: &'a str },
    /// Write to a file.
    Write { path: &'a str, bytes: usize },
}

/// All of a text on one line, with what is hidden in it as escapes: what is agreed to must be what is seen.
impl fmt::Display for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { command } => write!(f, "run `{}`", harmless(command)),
            Self::Write { path, bytes } => write!(f, "write {bytes} bytes to {}", harmless(path)),
        }
    }
}

/// One question to the person.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) text: String,
    pub(super) answer: oneshot::Sender<bool>,
}

/// Who says yes.
#[derive(Clone, Debug)]
pub(super) enum Consent {
    /// The person said yes to everything, with `--yes`.
    Given,
    /// The person is asked, one question at a time.
    Asked(Arc<Mutex<mpsc::Sender<Question>>>),
    /// Nobody can be asked: stdin is no terminal.
    Nobody,
}

impl Consent {
    /// Where questions go.
    pub(super) fn asked(questions: mpsc::Sender<Question>) -> Self {
        Self::Asked(Arc::new(Mutex::new(questions)))
    }

    /// Waits for a yes.
    pub(super) async fn ask(&self, what: Ask<'_>) -> Result<(), ToolError> {
        let questions = match self {
            Self::Given => return Ok(()),
            Self::Nobody => {
                let why = "nobody can be asked for permission here; foldback was started without --yes";
                return Err(ToolError::new(why));
            }
            Self::Asked(questions) => questions.lock().await,
        };
        let (answer, said) = oneshot::channel();
        let question = Question { text: what.to_string(), answer };
        let is_yes = match questions.send(question).await {
            Ok(()) => said.await.unwrap_or(false),
            Err(_) => false,
        };
        match is_yes {
            true => Ok(()),
            false => Err(ToolError::new("the person said no; ask what to do instead")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_cannot_hide_what_it_does_from_whoever_is_asked() {
        let asked = Ask::Run { command: "rm -rf /\u{1b}[2K\r\u{202e}echo\u{200b} hello\n" }.to_string();
        let asked = anstream::adapter::strip_str(&asked).to_string();
        assert_eq!(asked, "run `rm -rf /\\u{1b}[2K\\r\\u{202e}echo\\u{200b} hello\\n`");
    }

    #[tokio::test]
    async fn what_nobody_agreed_to_is_not_done() {
        let ask = Ask::Write { path: "a", bytes: 1 };
        assert!(Consent::Given.ask(ask).await.is_ok());
        assert!(Consent::Nobody.ask(ask).await.is_err());
        let (sender, mut questions) = mpsc::channel::<Question>(1);
        let answers = tokio::spawn(async move {
            for answer in [true, false] {
                questions.recv().await.unwrap().answer.send(answer).unwrap();
            }
        });
        let consent = Consent::asked(sender);
        assert!(consent.ask(ask).await.is_ok());
        assert!(consent.ask(ask).await.is_err());
        answers.await.unwrap();
        assert!(consent.ask(ask).await.is_err(), "nobody listens any more");
    }
}
