//! What is missing from a reply set that has ended.

use alloc::{format, vec::Vec};
use catena_wire::{Exception, Fault, names};

use crate::Missing;

impl Missing {
    /// All that is missing, as one exception: that of the call itself, or the only one, or one that names several. `None` if nothing is missing.
    #[must_use]
    pub fn exception_of(missing: &[Self]) -> Option<Exception> {
        /// More than these are not named.
        const NAMED_MAX: usize = 16;
        let first = missing.first()?;
        if first.branch.is_root() || missing.len() == 1 {
            return Some(first.why.clone());
        }
        let name = |missing: &Self| {
            let node = missing.node.as_deref().map(|node| format!(" at {node}")).unwrap_or_default();
            format!("{}{node}: {}", missing.target, missing.why.name)
        };
        let named: Vec<_> = missing.iter().take(NAMED_MAX).map(name).collect();
        let message = format!("replies of {} calls are missing ({})", missing.len(), named.join("; "));
        let why = Exception::new(names::REPLIES_MISSING, Fault::Service, message);
        Some(if missing.iter().any(|missing| missing.why.unknown) { why.outcome_unknown() } else { why })
    }
}
