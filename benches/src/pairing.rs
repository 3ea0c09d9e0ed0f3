//! Whether a compacted conversation is one that a provider would accept, as far as calls and
//! results go: each result answers a call made before it, and each call is answered.

use std::collections::BTreeMap;
use std::fmt;

/// A call or a result, by its id.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Half<'a> {
    Call(&'a str),
    Result(&'a str),
}

/// What is wrong with the pairing, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairing {
    pub(crate) results_without_call: usize,
    pub(crate) calls_without_result: usize,
}

impl Pairing {
    pub(crate) fn of<'a>(halves: impl IntoIterator<Item = Half<'a>>) -> Self {
        let mut open = BTreeMap::<&str, usize>::new();
        let mut results_without_call = 0;
        for half in halves {
            match half {
                Half::Call(id) => *open.entry(id).or_default() += 1,
                Half::Result(id) => match open.get_mut(id) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ => results_without_call += 1,
                },
            }
        }
        Self { results_without_call, calls_without_result: open.into_values().sum() }
    }
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { results_without_call, calls_without_result } = self;
        if *self == Self::default() {
            f.write_str("valid")
        } else {
            write!(
                f,
                "INVALID ({results_without_call} results without call, {calls_without_result} calls without result)"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_before_its_call_counts_twice() {
        let pairing = Pairing::of([Half::Result("a"), Half::Call("a"), Half::Call("b"), Half::Result("b")]);
        assert_eq!(pairing, Pairing { results_without_call: 1, calls_without_result: 1 });
        assert_eq!(Pairing::of([Half::Call("a"), Half::Result("a")]).to_string(), "valid");
    }
}
