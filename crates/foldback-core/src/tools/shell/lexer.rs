//! A command line as programs with their words.

use std::iter::Peekable;
use std::str::Chars;

/// Programs of one command line.
const SEGMENTS_MAX: usize = 256;

/// How a program is joined to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    /// The next one reads what this one writes.
    Pipe,
    /// The next one runs after it, or there is none.
    Then,
}

/// One program with its arguments.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) words: Vec<String>,
    /// Files that its output goes to.
    pub(super) writes: Vec<String>,
    pub(super) joint: Joint,
}

/// Where the word being read goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sink {
    Word,
    /// A file that is written.
    Output,
    /// A file or a descriptor that does not matter.
    Nowhere,
    /// The word that ends a text within the command.
    HereEnd,
}

struct Lexer<'c> {
    chars: Peekable<Chars<'c>>,
    segments: Vec<Segment>,
    words: Vec<String>,
    writes: Vec<String>,
    word: Option<String>,
    sink: Sink,
    here_ends: Vec<String>,
}

/// The programs of a command line; nothing where it holds what is not understood: substitutions,
/// loops, functions, quotes that do not end.
pub(super) fn segments(command: &str) -> Option<Vec<Segment>> {
    let mut lexer = Lexer {
        chars: command.chars().peekable(),
        segments: Vec::new(),
        words: Vec::new(),
        writes: Vec::new(),
        word: None,
        sink: Sink::Word,
        here_ends: Vec::new(),
    };
    while let Some(c) = lexer.chars.next() {
        lexer.take(c)?;
    }
    lexer.end_segment(Joint::Then)?;
    lexer.here_ends.is_empty().then_some(lexer.segments)
}

impl Lexer<'_> {
    fn take(&mut self, c: char) -> Option<()> {
        match c {
            '\'' => self.quoted()?,
            '"' => self.double_quoted()?,
            '\\' => match self.chars.next()? {
                '\n' => {}
                c => self.push(c),
            },
            '`' | '(' | ')' => return None,
            '$' if matches!(self.chars.peek(), Some('(' | '{')) => return None,
            '#' if self.word.is_none() => while self.chars.next_if(|&c| c != '\n').is_some() {},
            '\n' => {
                self.end_segment(Joint::Then)?;
                self.skip_here_texts()?;
            }
            ';' => self.end_segment(Joint::Then)?,
            '|' => {
                let joint = if self.chars.next_if_eq(&'|').is_some() { Joint::Then } else { Joint::Pipe };
                self.end_segment(joint)?;
            }
            '&' => match self.chars.peek() {
                Some('&') => {
                    self.chars.next();
                    self.end_segment(Joint::Then)?;
                }
                Some('>') => {}
                _ => return None,
            },
            '>' => self.redirect(),
            '<' => self.input()?,
            c if c.is_whitespace() => self.end_word(),
            c => self.push(c),
        }
        Some(())
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn quoted(&mut self) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match self.chars.next()? {
                '\'' => return Some(()),
                c => self.push(c),
            }
        }
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match self.chars.next()? {
                '"' => return Some(()),
                '`' => return None,
                '$' if matches!(self.chars.peek(), Some('(' | '{')) => return None,
                '\\' => match self.chars.next()? {
                    c @ ('"' | '\\' | '$' | '`') => self.push(c),
                    '\n' => {}
                    c => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                c => self.push(c),
            }
        }
    }

    /// After a `>`. A number directly before it is a descriptor: of those, only the output matters.
    fn redirect(&mut self) {
        let is_number = |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let descriptor = self.word.take_if(|word| is_number(word));
        self.end_word();
        self.chars.next_if(|&c| c == '>' || c == '|');
        let is_output = descriptor.is_none_or(|number| number == "1");
        self.sink = if is_output { Sink::Output } else { Sink::Nowhere };
        if self.chars.next_if_eq(&'&').is_some() {
            self.sink = Sink::Nowhere;
        }
    }

    /// After a `<`.
    fn input(&mut self) -> Option<()> {
        self.end_word();
        self.sink = Sink::Nowhere;
        if self.chars.next_if_eq(&'<').is_some() && self.chars.next_if_eq(&'<').is_none() {
            self.chars.next_if_eq(&'-');
            self.sink = Sink::HereEnd;
        }
        // Reading from a file this way is rare, and from a program is not understood.
        (self.chars.peek() != Some(&'(')).then_some(())
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::replace(&mut self.sink, Sink::Word) {
            Sink::Word => self.words.push(word),
            Sink::Output if word == "/dev/null" => {}
            Sink::Output => self.writes.push(word),
            Sink::Nowhere => {}
            Sink::HereEnd => self.here_ends.push(word),
        }
    }

    fn end_segment(&mut self, joint: Joint) -> Option<()> {
        const RESERVED: &[&str] =
            &["for", "while", "until", "if", "case", "function", "{", "}", "!", "[[", "do", "then", "else"];
        self.end_word();
        let words = std::mem::take(&mut self.words);
        let writes = std::mem::take(&mut self.writes);
        if words.is_empty() && writes.is_empty() {
            return Some(());
        }
        let is_reserved = words.first().is_some_and(|word| RESERVED.contains(&word.as_str()));
        if is_reserved || self.segments.len() >= SEGMENTS_MAX {
            return None;
        }
        self.segments.push(Segment { words, writes, joint });
        Some(())
    }

    /// Skips the texts that stand within the command.
    fn skip_here_texts(&mut self) -> Option<()> {
        for end in std::mem::take(&mut self.here_ends) {
            loop {
                let mut line = String::new();
                self.chars.peek()?;
                while let Some(c) = self.chars.next_if(|&c| c != '\n') {
                    line.push(c);
                }
                self.chars.next();
                if line.trim() == end {
                    break;
                }
            }
        }
        Some(())
    }
}
