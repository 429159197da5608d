//! What tells the states of a walked world apart.

use std::{
    fmt::{Debug, Write as _},
    hash::{DefaultHasher, Hasher as _},
};

/// Two halves of a number for a text, without the text.
struct Fingerprint(DefaultHasher, DefaultHasher);

impl std::fmt::Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        self.1.write(text.as_bytes());
        Ok(())
    }
}

/// One number for all that a world shows of itself.
pub(crate) fn fingerprint_of(world: &impl Debug) -> u128 {
    let mut fingerprint = Fingerprint(DefaultHasher::new(), DefaultHasher::new());
    fingerprint.1.write_u8(1);
    write!(fingerprint, "{world:?}").unwrap();
    (u128::from(fingerprint.0.finish()) << 64) | u128::from(fingerprint.1.finish())
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
