//! The four sites of the paper's evaluation (rpc-chains section 5.1).

/// A site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// As services are named: `files.mtv`.
    pub id: &'static str,
    /// As people say.
    pub name: &'static str,
}

/// Mountain View, Redmond, Cambridge (United Kingdom), Beijing.
pub const SITES: [Site; 4] = [
    Site { id: "mtv", name: "Mountain View" },
    Site { id: "red", name: "Redmond" },
    Site { id: "cam", name: "Cambridge" },
    Site { id: "bei", name: "Beijing" },
];
