//! How a set ends (Quatrain, section 3.3): complete; as an *exception*, in time and with replies missing; or as a *failure*, because time ran out or the
//! connection broke.
//!
//! The caller and each holder know the same deadline, by their own clocks. Whichever is first ends what is open, and the other finds it ended. What that means
//! for the set is decided here alone, so it cannot depend on who was first.

use alloc::{format, string::String, vec::Vec};
use catena_wire::{Branch, Exception, Fault, names};

use super::known::{Known, Set};
use crate::Time;

impl Set {
    /// The call's time is up: the rights that are open end with it.
    pub(super) fn run_out(&mut self) {
        let open: Vec<Branch> = self.rights.keys().filter(|branch| self.tally.is_open(branch)).cloned().collect();
        open.iter().for_each(|branch| self.note_late(branch));
    }

    /// A right ends only because time ran out. If it threw before, that exception stays: it says more.
    pub(super) fn note_late(&mut self, branch: &Branch) {
        let delivered = self.tally.delivered(branch);
        let Some(known) = self.rights.get_mut(branch) else { return };
        known.late = true;
        if known.missing.is_none() {
            known.missing = Some(known.kept(delivered));
        }
    }

    /// Why a set that ended by itself has failed; `None` if it is complete, or ended in time with replies missing.
    pub(super) fn failure(&self, now: Time) -> Option<Exception> {
        if self.tally.is_complete() && self.rights.values().all(|known| known.missing.is_none()) {
            return None;
        }
        if self.deadline <= now || self.rights.values().any(|known| known.late) {
            return Some(self.out_of_time());
        }
        // The call itself was lost with its first holder: the connection broke. A function that throws since its own connection broke ends the set in time.
        let root = self.rights.get(&Branch::root()).filter(|known| known.lost)?;
        root.missing.clone().filter(|why| why.fault == Fault::Network)
    }

    fn out_of_time(&self) -> Exception {
        /// More than these are not named; the list of what is missing has all of them.
        const NAMED_MAX: usize = 4;
        let mut late = self.rights.values().filter(|known| known.late);
        let named: Vec<String> =
            late.by_ref().take(NAMED_MAX).map(|known| format!("{}{}", known.host(), known.what())).collect();
        let more = match late.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = match named.is_empty() {
            true => "the time of the call ran out; what had come before can be read; allow more time".into(),
            false => format!(
                "the time of the call ran out while the right to reply was still held by {}{more}; what had come before can be read; allow more time, or look there",
                named.join(", ")
            ),
        };
        Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message).outcome_unknown()
    }
}

impl Known {
    fn kept(&self, delivered: u32) -> Exception {
        let (host, what) = (self.host(), self.what());
        let message = format!(
            "{host} still had the right to reply{what} when time ran out; {delivered} replies had come; allow more time, or look at {host}"
        );
        Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, message).outcome_unknown()
    }
}
