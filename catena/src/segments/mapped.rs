//! A segment's bytes in place, for other languages: an address, and how long the segment stays there.

use std::{ptr::NonNull, sync::Arc};

use catena_segment::View;

use super::{exported::Exported, near::Near};

/// Where a segment's bytes are. They stay mapped as long as this lives, but are the segment's only while [`Mapped::is_current`] says so: a segment that is
/// revoked, or whose rights change, moves to other pages.
#[derive(Debug)]
pub struct Mapped {
    view: View,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Own(Arc<Exported>),
    Far(Arc<Near>),
}

impl Mapped {
    pub(super) const fn of_segment(view: View, exported: Arc<Exported>) -> Self {
        Self { view, of: Of::Own(exported) }
    }

    pub(super) const fn of_import(view: View, near: Arc<Near>) -> Self {
        Self { view, of: Of::Far(near) }
    }

    /// The address of the first byte. Others may change the bytes at any time.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.view.address()
    }

    /// How many bytes are mapped.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.view.bytes()
    }

    /// Whether the bytes may be written; if not, a write faults.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.view.is_writable()
    }

    /// Whether these are still the segment's pages. If so, everything that was read before this call came from the segment.
    #[must_use]
    pub fn is_current(&self) -> bool {
        match &self.of {
            Of::Own(exported) => self.view.is_of(&exported.hold().memory),
            Of::Far(near) => near.is_live(),
        }
    }
}
