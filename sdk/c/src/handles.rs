//! What C holds, by numbers that are never used again: one that was closed, or never was, is refused, and so is one of another kind.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use catena::{Client, Imported, Mailbox, Mapped, Node, NodeId, Received, Segment, Sent};
use tokio::runtime::{Builder, Runtime};

use crate::abi::{CATENA_BAD_HANDLE, Done, Failure};

/// Things that are held at one time, in all.
const HANDLES_MAX: usize = 1 << 20;

/// An answer, and its bytes once they were fetched.
pub(crate) struct Answered {
    pub(crate) carrier: i32,
    pub(crate) bytes: Bytes,
    /// Who answered, if that is known.
    pub(crate) node: Option<NodeId>,
}

/// What a handle stands for.
#[derive(Clone)]
pub(crate) enum Object {
    Node(Node),
    Client(Client),
    Segment(Segment),
    Imported(Imported),
    Mapped(Arc<Mapped>),
    Mailbox(Arc<Mailbox>),
    Message(Arc<Received>),
    Answer(Arc<Answered>),
    Sent(Arc<Mutex<Option<Sent>>>),
}

impl Object {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Client(_) => "client",
            Self::Segment(_) => "segment",
            Self::Imported(_) => "import",
            Self::Mapped(_) => "map",
            Self::Mailbox(_) => "mailbox",
            Self::Message(_) => "message",
            Self::Answer(_) => "answer",
            Self::Sent(_) => "sent message",
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

fn table() -> MutexGuard<'static, HashMap<u64, Object>> {
    static TABLE: OnceLock<Mutex<HashMap<u64, Object>>> = OnceLock::new();
    TABLE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds something for C.
pub(crate) fn hold(object: Object) -> Done<u64> {
    let mut table = table();
    if table.len() >= HANDLES_MAX {
        return Err(Failure::new(CATENA_BAD_HANDLE, "Overloaded", "too many handles are open; close some"));
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    table.insert(number, object);
    Ok(number)
}

/// What a handle stands for.
pub(crate) fn held(number: u64) -> Done<Object> {
    table().get(&number).cloned().ok_or_else(|| bad(number, "is not open"))
}

/// Lets go of it.
pub(crate) fn release(number: u64) -> Done<Object> {
    table().remove(&number).ok_or_else(|| bad(number, "is not open"))
}

/// A handle that cannot be used so.
pub(crate) fn other(number: u64, object: &Object, wanted: &str) -> Failure {
    bad(number, &format!("is a {}, and a {wanted} is wanted", object.kind()))
}

fn bad(number: u64, what: &str) -> Failure {
    Failure::new(CATENA_BAD_HANDLE, "BadHandle", format!("handle {number} {what}"))
}

/// The runtime of everything that C starts; it lives as long as the process.
pub(crate) fn runtime() -> Done<&'static Runtime> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    // A thread that has no other beside it looks after sockets only now and then, and a busy function would make that seldom.
    let threads = || std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let build = || Builder::new_multi_thread().worker_threads(threads()).enable_all().thread_name("catena").build();
    let made = RUNTIME.get_or_init(|| build().ok());
    made.as_ref().ok_or_else(|| Failure::new(CATENA_BAD_HANDLE, "Overloaded", "the system starts no more threads"))
}

/// Waits for something.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Done<T> {
    Ok(runtime()?.block_on(work))
}
