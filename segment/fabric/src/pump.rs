//! The thread that lets providers make progress: most answer a partner's requests, and notice answers to their own, only when they are polled.
//!
//! It sleeps until a descriptor of a port is readable. Where a provider has none (`shm`), it polls every millisecond while something is offered, and
//! continuously while an access is under way. Without ports it sleeps until there is one.
#![allow(unsafe_code)]

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Instant,
};

use catena_segment::Bell;

use crate::{operation::lock, port::Port};

/// How often the ports that need it are polled, in milliseconds: for deadlines, and for providers that do not signal.
const LOOK_EVERY_MS: i32 = 1;
/// The same while nothing is known to be under way at a port with a descriptor.
const IDLE_MS: i32 = 1_000;

/// A port, and the descriptor by which its provider signals.
pub(crate) struct Cell {
    pub(crate) port: Mutex<Port>,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// What the thread and its users share.
pub(crate) struct Pump {
    cells: Mutex<Vec<Weak<Cell>>>,
    bell: Bell,
    stopped: AtomicBool,
}

impl Pump {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Arc<Self>> {
        let bell = Bell::new().map_err(std::io::Error::other)?;
        let pump = Arc::new(Self { cells: Mutex::default(), bell, stopped: AtomicBool::new(false) });
        let run = Arc::clone(&pump);
        thread::Builder::new().name("catena-fabric".into()).spawn(move || run.run())?;
        Ok(pump)
    }

    /// Looks after a port from now on, unless there are `most` already.
    pub(crate) fn add(&self, cell: &Arc<Cell>, most: usize) -> bool {
        let mut cells = lock(&self.cells);
        cells.retain(|cell| cell.upgrade().is_some_and(|cell| lock(&cell.port).is_open()));
        let room = cells.len() < most;
        if room {
            cells.push(Arc::downgrade(cell));
        }
        drop(cells);
        self.wake();
        room
    }

    /// Has it look now.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        self.wake();
    }

    fn run(&self) {
        while !self.stopped.load(SeqCst) {
            let _ = self.bell.take();
            let cells: Vec<Arc<Cell>> = lock(&self.cells).iter().filter_map(Weak::upgrade).collect();
            let wait_ms = look(&cells);
            if wait_ms != 0 {
                self.sleep(&cells, wait_ms);
            } else {
                thread::yield_now();
            }
        }
    }

    /// Sleeps until a descriptor is readable, the bell rings, or the time is over; -1: no time limit.
    fn sleep(&self, cells: &[Arc<Cell>], wait_ms: i32) {
        let entry = |number| libc::pollfd { fd: number, events: libc::POLLIN, revents: 0 };
        let descriptors = cells.iter().filter_map(|cell| cell.descriptor.as_ref());
        let mut entries: Vec<_> = descriptors.map(|one| entry(one.as_raw_fd())).collect();
        entries.push(entry(self.bell.as_fd().as_raw_fd()));
        // SAFETY: as many entries as it is told; the descriptors are open, because `cells` and `self` hold them.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, wait_ms) };
    }
}

/// Lets every port make progress; returns for how long none needs to be polled, in milliseconds.
fn look(cells: &[Arc<Cell>]) -> i32 {
    let (now, mut wait_ms) = (Instant::now(), if cells.is_empty() { -1 } else { IDLE_MS });
    for cell in cells {
        let mut port = lock(&cell.port);
        let busy = port.progress(now);
        let wait = match (&cell.descriptor, busy) {
            _ if !port.is_open() => continue,
            (None, true) => 0,
            (None, false) | (Some(_), true) => LOOK_EVERY_MS,
            (Some(_), false) => IDLE_MS,
        };
        let wait = if cell.descriptor.is_some() && !port.may_wait() { 0 } else { wait };
        wait_ms = if wait_ms < 0 { wait } else { wait_ms.min(wait) };
    }
    wait_ms
}
