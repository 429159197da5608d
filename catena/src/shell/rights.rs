//! The rights to reply that service functions of this node hold.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use catena_core::{NotSent, Sent};
use catena_wire::{ChainId, Exception, StepKey, Value};
use tokio::{
    sync::{Notify, oneshot},
    task::yield_now,
};

use super::{Shell, lock};
use crate::replying::{Complete, Counted, Gathered, Held, Right};

/// Replies are held back no longer than this, even if others keep following.
const BURST_MAX: Duration = Duration::from_micros(50);

/// A pause is this many turns of the runtime without a reply. In a single turn, the tasks that reply may not have run.
const QUIET_TURNS: u32 = 2;

impl Shell {
    /// The right that came with a call; for a plain call, what gathers its replies, if its function replies many times.
    pub(super) fn right_of(
        self: &Arc<Self>,
        key: Option<StepKey>,
        gathers: bool,
        hops_left: u32,
    ) -> (Right, Option<oneshot::Receiver<Complete>>) {
        if let Some(key) = key {
            let changed = Arc::new(Notify::new());
            lock(&self.rights).insert(key.clone(), Arc::clone(&changed));
            return (Right::Set(Counted::new(Held::new(Arc::clone(self), key, changed))), None);
        }
        if gathers {
            let (gathered, all) = Gathered::new(self.ends.clone(), hops_left);
            return (Right::Gathered(Counted::new(gathered)), Some(all));
        }
        (Right::Nowhere, None)
    }

    pub(crate) fn reply_under(self: &Arc<Self>, right: &StepKey, value: Value) -> Result<(), NotSent> {
        let now = self.now();
        let sent = self.core().reply(now, right, value)?;
        match sent {
            Sent::Now => self.drive(),
            Sent::Later { first, gathered } => {
                if !gathered && self.bursts.one_waits(first) {
                    self.send_at_pause();
                }
                if first {
                    // If a function blocks this thread, the machines' timer sends the reply.
                    self.drive();
                }
            }
        }
        Ok(())
    }

    /// Sends the replies that are held back after some turns of the runtime without a new one, or after a limited time.
    fn send_at_pause(self: &Arc<Self>) {
        let shell = Arc::clone(self);
        self.runtime.spawn(async move {
            let (began, mut before, mut quiet_turns) = (Instant::now(), 0, 0);
            while quiet_turns < QUIET_TURNS && began.elapsed() < BURST_MAX {
                yield_now().await;
                let replies = shell.bursts.so_far();
                quiet_turns = if replies == before { quiet_turns + 1 } else { 0 };
                before = replies;
            }
            shell.bursts.over(|| {
                let now = shell.now();
                shell.core().flush(now);
            });
            shell.drive();
        });
    }

    pub(crate) fn delegate(
        self: &Arc<Self>,
        right: &StepKey,
        service: &str,
        function: &str,
        params: Value,
    ) -> Result<(), Exception> {
        let now = self.now();
        let delegated = self.core().delegate(now, right, service, function, params);
        self.drive();
        delegated
    }

    /// The last holder of the right is gone.
    pub(crate) fn let_go(self: &Arc<Self>, right: &StepKey) {
        lock(&self.rights).remove(right);
        let now = self.now();
        self.core().let_go(now, right);
        self.drive();
    }

    /// Lets those that wait to reply under this right try again.
    pub(super) fn right_changed(&self, right: &StepKey) {
        if let Some(changed) = lock(&self.rights).get(right) {
            changed.notify_waiters();
        }
    }

    /// Records that `count` more replies have been read.
    pub(crate) fn read(self: &Arc<Self>, call: ChainId, count: usize) {
        let now = self.now();
        self.core().on_read(now, call, count);
        self.drive();
    }
}
