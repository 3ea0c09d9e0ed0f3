//! Round numbers along the axes of pictures.

/// Steps that an axis is divided into, at most.
const STEPS_MAX: u64 = 5;

/// The places along an axis that gets a number: round, from zero to the first at or past `max`.
pub(crate) fn marks(max: u64) -> Vec<u64> {
    let step = step(max);
    (0..=max.div_ceil(step)).map(|index| index.saturating_mul(step)).collect()
}

/// One, two or five times a power of ten, the smallest that gives few enough steps.
fn step(max: u64) -> u64 {
    let powers = (0..u64::MAX.ilog10()).map(|exponent| 10_u64.pow(exponent));
    let mut steps = powers.flat_map(|power| [1, 2, 5].map(|times| power * times));
    steps.find(|step| max.div_ceil(*step) <= STEPS_MAX).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_few_round_numbers_and_reaches_the_largest() {
        assert_eq!(marks(75_207), [0, 20_000, 40_000, 60_000, 80_000]);
        assert_eq!(marks(5), [0, 1, 2, 3, 4, 5]);
        assert_eq!(marks(0), [0]);
        for max in [1, 9, 11, 99, 101, 49_999, 50_001, 1_234_567, u64::MAX / 2] {
            let marks = marks(max);
            assert!(marks.len() <= 6 && marks.last().is_some_and(|last| *last >= max), "{max}: {marks:?}");
        }
    }
}
