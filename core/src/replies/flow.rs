//! How replies flow: what goes at once, and what is told at once, is a part of the window, so that some are read while others are on their way.

use catena_wire::Window;

/// As much of a window as its holder is told of at once when it has been read, and as goes into one message.
pub(super) fn part_of(window: Window) -> Window {
    const PARTS: u32 = 4;
    Window { replies: (window.replies / PARTS).max(1), bytes: (window.bytes / PARTS).max(1) }
}
