//! A barrier between what happens often and what happens seldom, which only the seldom side pays for: membarrier(2). Whoever accesses pages and then looks whether they count needs a
//! full barrier in between, or its processor may look first and write later. Instead, whoever lets pages go has the kernel put one into every thread that takes part.

use std::sync::LazyLock;

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

/// Whether this process takes part: a barrier that any process raises runs through all threads of this one.
static TAKES_PART: LazyLock<bool> =
    LazyLock::new(|| is_there() && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok());

/// Whether this process may raise one.
static MAY_RAISE: LazyLock<bool> = LazyLock::new(|| is_there() && raise());

/// Whether the threads of this process run through every barrier that is raised from now on.
pub(crate) fn takes_part() -> bool {
    *TAKES_PART
}

/// Whether [`raise`] works here.
pub(crate) fn may_raise() -> bool {
    *MAY_RAISE
}

/// When it returns, each thread of each process that takes part has run through a full barrier since it was called. Says whether that is so.
pub(crate) fn raise() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// Since Linux 4.16; a sandbox may forbid it.
fn is_there() -> bool {
    !cfg!(miri) && membarrier_query().contains_command(MembarrierCommand::GlobalExpedited)
}
