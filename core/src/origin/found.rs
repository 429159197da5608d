//! What the search for a silent chain has found.

use alloc::{format, string::String, vec::Vec};
use catena_wire::Whereabouts;

/// Where a chain that fell silent was found to have stopped.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) step: u32,
    /// The node that reported this.
    pub(super) by: String,
    pub(super) whereabouts: Whereabouts,
}

impl Found {
    pub(super) fn hosts(&self) -> Vec<String> {
        match &self.whereabouts {
            Whereabouts::Went(to) | Whereabouts::HandingOff(to) => alloc::vec![self.by.clone(), to.clone()],
            Whereabouts::Unknown => alloc::vec![self.by.clone()],
        }
    }

    /// What is known, and which host to look at.
    pub(super) fn told(&self) -> String {
        let Self { step, by, whereabouts } = self;
        match whereabouts {
            Whereabouts::Went(to) => format!(
                "at step {step} {by} handed it to {to}, which took it over and has said nothing since; outcome unknown from there on; check {to}"
            ),
            Whereabouts::HandingOff(to) => {
                format!("{by} tries to hand step {step} to {to}; whether that took effect is unknown; check {to}")
            }
            Whereabouts::Unknown => format!(
                "{by}, which was to have it at step {step}, does not know of it; outcome unknown from there on; check whether {by} was restarted"
            ),
        }
    }
}
