//! Whether a memory may have got more private pages since they were last found. Finding them again takes about 6 us, checking this less than 1.
//!
//! The first write to a page that is still the image's causes a fault in the writing thread. So if a single thread made all accesses to a memory, and that
//! thread had no fault from before the first access until now, the memory has no more such pages than before.

use std::{
    pin::pin,
    thread::{self, ThreadId},
};

use super::{faults, fresh};

/// What is known about a memory's private pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Nothing: any page may have been written.
    #[default]
    Unknown,
    /// They were found, and nobody has written since.
    Found,
    /// They were found, and since the count of faults was taken, only the counting thread has written.
    Written(Count),
}

/// The number of faults of a thread up to some moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Count {
    thread: ThreadId,
    faults: [i64; 2],
}

impl Count {
    fn now() -> Option<Self> {
        Some(Self { thread: thread::current().id(), faults: faults::count()? })
    }
}

impl Watch {
    /// Whether the kernel counts a first write to a page as a fault of the thread that writes.
    pub(super) fn works() -> bool {
        let (mut memory, before) = (fresh(), Count::now());
        let middle = memory.len() / 2;
        if let Some(byte) = memory.get_mut(middle) {
            *byte = 1;
        }
        std::hint::black_box(&memory);
        before.is_some() && before != Count::now()
    }

    /// To be called before anything that may write to the memory, by the thread that will.
    pub(crate) fn touch(&mut self) {
        match self {
            Self::Written(count) if count.thread == thread::current().id() => {}
            Self::Found => *self = Count::now().map_or(Self::Unknown, Self::Written),
            _ => *self = Self::Unknown,
        }
    }

    /// Runs work that may write to the memory, on any threads.
    pub(crate) async fn over<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            self.touch();
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Whether the memory has no private pages other than those that were found.
    pub(crate) fn rules_out_more(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Found => true,
            Self::Written(before) => Count::now().as_ref() == Some(before),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_first_write_is_seen() {
        let (mut memory, mut watch) = (fresh(), Watch::default());
        // The checking code itself may cause faults on fresh pages.
        let undisturbed = (0..100).any(|_| {
            watch = Watch::Found;
            watch.touch();
            watch.rules_out_more()
        });
        assert!(undisturbed);
        memory[32 << 20] = 1;
        std::hint::black_box(&memory);
        assert!(!watch.rules_out_more());
    }

    #[test]
    fn what_another_thread_wrote_is_unknown() {
        let mut watch = Watch::Found;
        watch.touch();
        thread::scope(|scope| scope.spawn(|| assert!(!watch.rules_out_more())).join().unwrap());
        thread::scope(|scope| scope.spawn(|| watch.touch()).join().unwrap());
        assert_eq!(watch, Watch::Unknown);
        // Not even the first thread can rule out more pages then.
        watch.touch();
        assert!(!watch.rules_out_more());
    }

    /// Also covers a step that is abandoned half-way.
    #[test]
    fn work_is_watched_at_each_poll() {
        let mut watch = Watch::Found;
        let mut polled = 0;
        futures_util::future::FutureExt::now_or_never(watch.over(std::future::poll_fn(|_| {
            polled += 1;
            std::task::Poll::<()>::Pending
        })));
        assert!(polled == 1 && matches!(watch, Watch::Written(_)));
    }
}
