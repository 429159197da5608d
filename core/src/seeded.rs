//! Seeded bugs: whether a node makes a mistake on purpose, which it does only in tests that check the tests.

/// Whether the policy asks for this mistake, which is a `Bug` unless another kind is named. Without the feature `seeded-bugs` the answer is always no:
/// code that exists only for the mistakes, such as `Merging::early` and `Liveness::all_seen`, is still there, and does nothing.
#[cfg(feature = "seeded-bugs")]
macro_rules! bug {
    ($policy:expr, $kind:ident::$bug:ident) => {
        $policy.bug == Some($crate::bug::$kind::$bug)
    };
    ($policy:expr, $bug:ident) => {
        bug!($policy, Bug::$bug)
    };
}

#[cfg(not(feature = "seeded-bugs"))]
macro_rules! bug {
    ($policy:expr, $($bug:tt)+) => {{
        let _ = &$policy;
        false
    }};
}
