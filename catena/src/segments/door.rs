//! Sharing memory with nodes on this host: a one-time ticket arrives by the link and is exchanged at a Unix socket for file descriptors.
//!
//! The socket has an abstract name, not one in the file system, so that a killed node leaves nothing behind. Without a ticket a caller gets nothing; a ticket
//! has 128 random bits, is for one segment, and expires within seconds.

use std::{
    collections::HashMap,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener as StdListener},
    },
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use catena_segment::Handles;
use catena_wire::NodeId;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{UnixListener, UnixStream},
    runtime::Handle,
};

use crate::{random, shell::lock};

/// Tickets that are valid at one time.
const TICKETS_MAX: usize = 1_024;
/// How long a ticket is valid.
const TICKET_TTL: Duration = Duration::from_secs(5);
/// How long either side waits for the other.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long after an accept that failed the next one is tried, if the node still exists.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Callers at one time.
const CALLERS_MAX: usize = 64;
/// Descriptors that a ticket brings: pages, state, bell.
const DESCRIPTORS: usize = 3;

/// What another process on this host gets for its ticket.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) handles: Handles,
    pub(super) bell: OwnedFd,
}

/// Where parcels wait until they are fetched.
#[derive(Debug, Default)]
pub(super) struct Door {
    tickets: Mutex<HashMap<u128, (Instant, Parcel)>>,
    open: Mutex<bool>,
}

/// Identifies the host for memory sharing: the same boot of the same kernel, and the same network namespace, which holds the socket names.
pub(super) fn host() -> Option<u128> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/net").ok()?;
    let mut hash = blake3::Hasher::new();
    hash.update(&boot).update(namespace.as_os_str().as_encoded_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize().as_bytes()[..16]);
    Some(u128::from_le_bytes(id))
}

/// The abstract name of a node's socket.
fn name(of: NodeId) -> String {
    format!("catena-segments-{:016x}", of.0)
}

impl Door {
    /// Leaves a parcel and returns its ticket. `None`: too many are waiting.
    pub(super) fn leave(self: &Arc<Self>, me: NodeId, parcel: Parcel, runtime: &Handle) -> Option<u128> {
        self.open(me, runtime).ok()?;
        let mut tickets = lock(&self.tickets);
        if tickets.len() >= TICKETS_MAX {
            tickets.retain(|_, (since, _)| since.elapsed() < TICKET_TTL);
        }
        if tickets.len() >= TICKETS_MAX {
            return None;
        }
        let ticket = random::bits128();
        tickets.insert(ticket, (Instant::now(), parcel));
        Some(ticket)
    }

    fn take(&self, ticket: u128) -> Option<Parcel> {
        let (since, parcel) = lock(&self.tickets).remove(&ticket)?;
        (since.elapsed() < TICKET_TTL).then_some(parcel)
    }

    /// Starts to listen when the first parcel is left.
    fn open(self: &Arc<Self>, me: NodeId, runtime: &Handle) -> io::Result<()> {
        let mut open = lock(&self.open);
        if *open {
            return Ok(());
        }
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(name(me))?)?;
        listener.set_nonblocking(true)?;
        let _runtime = runtime.enter();
        let listener = UnixListener::from_std(listener)?;
        runtime.spawn(serve(Arc::downgrade(self), listener));
        *open = true;
        Ok(())
    }
}

/// Serves callers for as long as the node exists.
async fn serve(door: Weak<Door>, listener: UnixListener) {
    /// How often to check whether the node still exists.
    const IDLE: Duration = Duration::from_secs(1);
    let callers = Arc::new(tokio::sync::Semaphore::new(CALLERS_MAX));
    loop {
        let accepted = tokio::time::timeout(IDLE, listener.accept()).await;
        let Some(door) = door.upgrade() else { return };
        let mut caller = match accepted {
            Ok(Ok((caller, _))) => caller,
            // For want of descriptors, for example: the next accept would fail at once, too.
            Ok(Err(_)) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            Err(_) => continue,
        };
        let Ok(turn) = Arc::clone(&callers).try_acquire_owned() else { continue };
        tokio::spawn(async move {
            let exchange = async {
                let mut ticket = [0; 16];
                caller.read_exact(&mut ticket).await?;
                match door.take(u128::from_le_bytes(ticket)) {
                    Some(parcel) => give(&caller, &parcel).await,
                    None => Ok(()),
                }
            };
            // A caller that does not follow the exchange is dropped after this time.
            let _ = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange).await;
            drop(turn);
        });
    }
}

async fn give(caller: &UnixStream, parcel: &Parcel) -> io::Result<()> {
    let descriptors = [parcel.handles.pages.as_fd(), parcel.handles.state.as_fd(), parcel.bell.as_fd()];
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        Ok(sendmsg(caller, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL)?)
    };
    loop {
        caller.writable().await?;
        match caller.try_io(Interest::WRITABLE, send) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            done => return done.map(drop),
        }
    }
}

/// Exchanges a ticket at the door of another node on this host.
pub(super) async fn fetch(owner: NodeId, ticket: u128) -> io::Result<Parcel> {
    let fetched = tokio::time::timeout(EXCHANGE_TIMEOUT, async {
        let mut stream = UnixStream::connect(format!("\0{}", name(owner))).await?;
        stream.write_all(&ticket.to_le_bytes()).await?;
        receive(&stream).await
    });
    fetched.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn receive(stream: &UnixStream) -> io::Result<Parcel> {
    let take = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        Ok(rights.flatten().collect::<Vec<OwnedFd>>())
    };
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, take) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(why),
            Ok(descriptors) => {
                let [pages, state, bell] = <[OwnedFd; DESCRIPTORS]>::try_from(descriptors)
                    .map_err(|_| io::Error::other("the ticket brought no memory"))?;
                return Ok(Parcel { handles: Handles { pages, state }, bell });
            }
        }
    }
}
