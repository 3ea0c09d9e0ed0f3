//! Names and small values that must not be swapped: ids, token counts, points in time.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Add, AddAssign};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! shared_string {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// A name made of these characters.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The characters themselves.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextVisitor).map(Self)
            }
        }
    };
}

/// Copies the characters once, from wherever the deserializer has them.
struct TextVisitor;

impl serde::de::Visitor<'_> for TextVisitor {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(text.into())
    }
}

shared_string! {
    /// Names one item; unique within a transcript, chosen by whoever recorded it.
    ItemId
}
shared_string! {
    /// Names one loop, a run of the agent; unique within its session.
    LoopId
}
shared_string! {
    /// Names one session, chosen by its host.
    SessionId
}
shared_string! {
    /// Names one turn; readers assign it at user items.
    TurnId
}
shared_string! {
    /// Ties a tool call to its result.
    CallId
}
shared_string! {
    /// Shared text: a clone costs a reference count, never a copy of the bytes.
    Text
}

impl Default for Text {
    fn default() -> Self {
        "".into()
    }
}

/// A number of tokens, in the unit of the counter that produced it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// No tokens.
    pub const ZERO: Self = Self(0);

    /// What is left after taking `other` away; never below zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self × factor`, rounded up: bounds must not lose the fraction.
    #[must_use]
    pub fn scaled_up(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).ceil() as u64)
    }

    /// `self × factor`, rounded down: levels must not gain a fraction.
    #[must_use]
    pub fn scaled_down(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).floor() as u64)
    }
}

impl From<u64> for Tokens {
    fn from(tokens: u64) -> Self {
        Self(tokens)
    }
}

impl Add for Tokens {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(tokens: I) -> Self {
        tokens.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Milliseconds since the Unix epoch. Core never reads a clock (A1): times are passed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Milliseconds from `earlier` to `self`; zero if the clock went backwards.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// So many milliseconds later; the end of time where that would be beyond it.
    #[must_use]
    pub fn after_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }
}
