//! Whether a node makes a mistake on purpose: never, but in the tests of the tests.

/// Whether the policy asks for this mistake: a `Bug`, if it does not say of which kind. Nothing remains of it in a build without the feature
/// `seeded-bugs`.
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
