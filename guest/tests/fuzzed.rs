//! The body of the fuzz target for continuations, with bytes drawn at random: so it compiles, and holds, in every run of the tests.
#![allow(clippy::expect_used, unreachable_pub)]

#[path = "../../proof/fuzz/bodies/guest_continuation.rs"]
mod guest_continuation;

proptest::proptest! {
    #[test]
    fn any_bytes_are_laid_whole_or_not_at_all(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        guest_continuation::lay(&bytes);
    }
}
