//! Inputs for repeatable fuzzing: the committed seeds of a target, cut, changed and put together.
//!
//! libFuzzer cannot repeat a run, not even with its own seed fixed: it goes by coverage and by the
//! values compared, and both differ with the random keys of hash maps. So the inputs that a test
//! run gets are made here, and libFuzzer only executes them.

use std::fs;
use std::io;
use std::path::Path;

/// Changes made to a seed, at most, for one input.
const CHANGE_COUNT_MAX: usize = 4;

/// An input does not grow beyond this: copies of copies would.
const INPUT_BYTES_MAX: usize = 256 * 1024;

/// Bytes that are copied or removed at once, at most.
const PIECE_BYTES_MAX: usize = 400;

/// What is put in: the syntax of JSON, and what breaks those who read it.
const PIECES: [&[u8]; 14] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"null",
    b"-1e999",
    b"\\ud800",
    b"\xff",
    b"\0",
    b"\"type\":",
];

/// Small deterministic random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Fills the empty folder `into` with `count` inputs made from the files below `seeds`, the same
/// each time.
pub(crate) fn fill(into: &Path, seeds: &Path, count: usize) -> io::Result<()> {
    let seeds = contents_below(seeds)?;
    for (number, input) in inputs(&seeds, count).enumerate() {
        fs::write(into.join(format!("{number:06}")), input)?;
    }
    Ok(())
}

/// In the order of their paths, which is the same everywhere.
fn contents_below(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let mut contents = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => contents.extend(contents_below(&path)?),
            false => contents.push(fs::read(&path)?),
        }
    }
    Ok(contents)
}

/// The seeds in turn, each time changed in another way.
fn inputs(seeds: &[Vec<u8>], count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    seeds.iter().cycle().take(count).map(move |seed| {
        let mut input = seed.clone();
        for _ in 0..=dice.below(CHANGE_COUNT_MAX) {
            let other = &seeds[dice.below(seeds.len())];
            change(&mut input, other, &mut dice);
            input.truncate(INPUT_BYTES_MAX);
        }
        input
    })
}

fn change(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    let end = (at + dice.below(PIECE_BYTES_MAX)).min(input.len());
    match dice.below(9) {
        0 => input.truncate(at),
        1 => drop(input.drain(..at)),
        2 => drop(input.drain(at..end)),
        3 => input[at..end].iter_mut().take(1).for_each(|byte| *byte = dice.below(256) as u8),
        4 => drop(input.splice(at..at, PIECES[dice.below(PIECES.len())].iter().copied())),
        5 => {
            let copy = input[at..end].to_vec();
            let to = dice.below(input.len() + 1);
            drop(input.splice(to..to, copy));
        }
        6 => {
            let line = line_at(input, at).to_vec();
            let to = line_start(input, dice.below(input.len() + 1));
            drop(input.splice(to..to, line));
        }
        7 => {
            let from = dice.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let line = line_at(other, dice.below(other.len() + 1)).to_vec();
            let to = line_start(input, at);
            drop(input.splice(to..to, line));
        }
    }
}

fn line_start(bytes: &[u8], at: usize) -> usize {
    bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}

/// The line around a place, with its end.
fn line_at(bytes: &[u8], at: usize) -> &[u8] {
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
    &bytes[line_start(bytes, at)..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_each_time_and_differ_from_each_other() {
        let seeds = [b"{\"a\":1}\n{\"b\":2}\n".repeat(20), b"[1,2,3]".to_vec(), Vec::new()];
        let made: Vec<Vec<u8>> = inputs(&seeds, 300).collect();
        assert_eq!(made, inputs(&seeds, 300).collect::<Vec<_>>());
        let different: std::collections::BTreeSet<&Vec<u8>> = made.iter().collect();
        assert!(different.len() > 200, "{}", different.len());
    }
}
