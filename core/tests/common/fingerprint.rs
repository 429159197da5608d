//! What tells the states of a walked world apart.

use std::{
    cell::RefCell,
    fmt::{Debug, Write as _},
    hash::{DefaultHasher, Hasher as _},
};

thread_local! {
    /// Empty texts, kept to be used again. Several, since a part of a world is shown while its world is.
    static TEXTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// One number for all that something shows of itself.
pub(crate) fn fingerprint_of(shown: &impl Debug) -> u128 {
    let mut text = TEXTS.with_borrow_mut(Vec::pop).unwrap_or_default();
    write!(text, "{shown:?}").unwrap();
    let half = |salt| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(text.as_bytes());
        u128::from(hasher.finish())
    };
    let fingerprint = (half(0) << 64) | half(1);
    text.clear();
    TEXTS.with_borrow_mut(|texts| texts.push(text));
    fingerprint
}

/// A world is what its fingerprint says: the walk keeps many.
macro_rules! told_by_fingerprint {
    ($world:ty) => {
        impl PartialEq for $world {
            fn eq(&self, other: &Self) -> bool {
                self.fingerprint == other.fingerprint
            }
        }

        impl Eq for $world {}

        impl std::hash::Hash for $world {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.fingerprint.hash(state);
            }
        }
    };
}
pub(crate) use told_by_fingerprint;
