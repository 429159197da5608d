//! Mistakes that `proof/explore` has [`super::counted`] and [`super::bursts`] make on purpose, each of which its tests must find.

/// What may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A clone is not counted: the end comes before what it had to say.
    CloneNotCounted,
    /// The end does not wait to see what other threads did before they let go.
    EndSeesLess,
    /// Two that go at once both find that nobody is left.
    EndToldTwice,
    /// What waits is sent before others may watch for a pause again: what comes in between waits for nobody.
    SentBeforeOver,
}
