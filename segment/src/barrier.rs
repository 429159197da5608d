//! An asymmetric barrier, membarrier(2): only the rare side pays for it. A thread that accesses pages and then checks whether they are valid needs a full
//! barrier in between, or its processor may check first and write later. Instead, an owner that gives up pages has the kernel run one in every such thread.

use std::sync::LazyLock;

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

/// Whether this process takes part, so that a barrier raised by any process is executed in all threads of this one.
static TAKES_PART: LazyLock<bool> =
    LazyLock::new(|| is_there() && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok());

/// Whether this process may raise such barriers.
static MAY_RAISE: LazyLock<bool> = LazyLock::new(|| is_there() && raise());

/// Whether the threads of this process execute every barrier that is raised from now on.
pub(crate) fn takes_part() -> bool {
    *TAKES_PART
}

/// Whether [`raise`] works here.
pub(crate) fn may_raise() -> bool {
    *MAY_RAISE
}

/// On return, each thread of each participating process has executed a full barrier since the call. Returns whether that is so.
pub(crate) fn raise() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// Available since Linux 4.16; a sandbox may forbid it.
fn is_there() -> bool {
    !cfg!(miri) && membarrier_query().contains_command(MembarrierCommand::GlobalExpedited)
}
