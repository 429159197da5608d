//! Mistakes that `proof/explore` seeds into [`super::counted`] and [`super::bursts`], each of which its tests must find.

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A clone is not counted, so the end comes before that clone's replies.
    CloneNotCounted,
    /// The end does not synchronise with what other threads did before they dropped their clones.
    EndSeesLess,
    /// Two concurrent drops both find that they are the last.
    EndToldTwice,
    /// Replies are sent before another task may watch for a pause: a reply that comes in between waits for nobody.
    SentBeforeOver,
}
