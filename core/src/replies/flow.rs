//! How replies flow: they are sent, and their reading is reported, in parts of the window, so that some are read while others are on their way.

use catena_wire::Window;

/// The part of a window that goes into one message at most; once that much has been read, the holder is told at once.
pub(super) fn part_of(window: Window) -> Window {
    const PARTS: u32 = 4;
    Window { replies: (window.replies / PARTS).max(1), bytes: (window.bytes / PARTS).max(1) }
}
