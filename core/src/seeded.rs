//! Whether a node makes a mistake on purpose: never, but in the tests of the tests.

/// Whether the policy asks for this mistake. Nothing remains of it in a build without the feature `seeded-bugs`.
#[cfg(feature = "seeded-bugs")]
macro_rules! bug {
    ($policy:expr, $bug:ident) => {
        $policy.bug == Some($crate::Bug::$bug)
    };
}

#[cfg(not(feature = "seeded-bugs"))]
macro_rules! bug {
    ($policy:expr, $bug:ident) => {{
        let _ = &$policy;
        false
    }};
}
