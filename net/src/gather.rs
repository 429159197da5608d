//! Writes put together. While a reader hands over what one read brought, messages sent because of it are queued, and written once for several of them: a system
//! call and a segment for each would cost more than the messages themselves.

use std::cell::RefCell;
use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::Link;

/// How long a message may wait for others.
const GATHER_MAX: Duration = Duration::from_micros(200);

thread_local! {
    /// Links with something to write, while this thread is in [`Gathered::during`].
    static GATHERING: RefCell<Option<Vec<Weak<Link>>>> = const { RefCell::new(None) };
}

/// Writes that one reader has put off; they are done on drop.
#[derive(Default)]
pub(crate) struct Gathered {
    links: Vec<Weak<Link>>,
    since: Option<Instant>,
}

impl Gathered {
    /// Does something that may send. What is sent on this thread waits for [`Gathered::write`].
    pub(crate) fn during(&mut self, handle: impl FnOnce()) {
        let since = *self.since.get_or_insert_with(Instant::now);
        let outer = GATHERING.replace(Some(std::mem::take(&mut self.links)));
        let scope = Scope { gathered: self, outer };
        handle();
        drop(scope);
        if since.elapsed() >= GATHER_MAX {
            self.write();
        }
    }

    pub(crate) fn write(&mut self) {
        self.since = None;
        self.links.drain(..).filter_map(|link| link.upgrade()).for_each(|link| link.write_put_off());
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        self.write();
    }
}

/// Ends the gathering even if there is a panic in it: what is sent on this thread later must not wait for ever.
struct Scope<'a> {
    gathered: &'a mut Gathered,
    outer: Option<Vec<Weak<Link>>>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.gathered.links = GATHERING.replace(self.outer.take()).unwrap_or_default();
    }
}

/// Whether this thread is gathering. If so, the link is added to those that wait, unless it is there already.
pub(crate) fn put_off(link: &Weak<Link>, waits: &mut bool) -> bool {
    GATHERING.with_borrow_mut(|gathering| {
        let Some(links) = gathering else { return false };
        if !std::mem::replace(waits, true) {
            links.push(link.clone());
        }
        true
    })
}
