//! Mistakes in the protocol itself, put in on purpose: only in a build with the feature `seeded-bugs`.

use std::{fmt, str::FromStr};

use catena::Policy;

#[cfg(feature = "seeded-bugs")]
use catena_core::Bug as Seeded;

/// There is none to choose in a build that may serve anybody.
#[cfg(not(feature = "seeded-bugs"))]
#[derive(Clone, Copy, Debug)]
enum Seeded {}

#[cfg(not(feature = "seeded-bugs"))]
impl Seeded {
    const ALL: &[Self] = &[];
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bug(Seeded);

impl Bug {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Seeded::ALL.iter().copied().map(Self)
    }

    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn put_into(self, policy: Policy) -> Policy {
        Policy { bug: Some(self.0), ..policy }
    }

    #[cfg(not(feature = "seeded-bugs"))]
    pub(crate) const fn put_into(self, _: Policy) -> Policy {
        match self.0 {}
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let names: Vec<_> = Self::all().map(|bug| bug.to_string()).collect();
        let found = Self::all().find(|bug| bug.to_string() == name);
        found.ok_or_else(|| {
            format!("this build has {}; build with the feature seeded-bugs for others", names.join(", "))
        })
    }
}
