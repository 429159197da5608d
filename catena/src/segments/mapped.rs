//! A segment's bytes in place, for other languages: an address, and for how long it is the segment's.

use std::{ptr::NonNull, sync::Arc};

use catena_segment::View;

use super::{exported::Exported, near::Near};

/// Where a segment's bytes lie. They stay mapped as long as this lives; they are the segment's as long as [`Mapped::is_current`] says so: a segment that is revoked, or whose
/// rights change, moves to other pages.
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

    /// The first byte's address. Others may change what is there at any time.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.view.address()
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.view.bytes()
    }

    /// Whether they may be written; a write to others faults.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.view.is_writable()
    }

    /// Whether these are still the segment's pages. What was read before this said so is the segment's.
    #[must_use]
    pub fn is_current(&self) -> bool {
        match &self.of {
            Of::Own(exported) => self.view.is_of(&exported.hold().memory),
            Of::Far(near) => near.is_live(),
        }
    }
}
