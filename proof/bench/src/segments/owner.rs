//! The owner's process: a node that exports, and the raw TCP servers that it is compared with, on the same thread.

use std::time::Duration;

use bytes::Bytes;
use catena::{Export, Mailbox, Node, Notifications, Rights, Segment, Service, Value};
use rustix::time::{ClockId, clock_gettime};
use serde_bytes::ByteBuf;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{Failure, mesh};

/// The node's name, and that of its service.
pub(crate) const OWNER: &str = "owner";
pub(crate) const STORE: &str = "store";
/// Its mailbox.
pub(crate) const POST: &str = "post";
/// Bytes of a small access: about what a raw message has.
pub(crate) const SMALL_BYTES: usize = 64;
/// What small accesses go to, and how large that is.
pub(crate) const WORDS: &str = "words";
const WORDS_BYTES: u64 = 4_096;
/// In it: who writes with a notification puts the time here, ...
pub(crate) const STAMP_AT: u64 = 128;
/// ... and whoever was notified puts when that was here, and the time that it found after it.
pub(crate) const NOTIFIED_AT: u64 = 256;
/// A word for swaps.
pub(crate) const SWAPPED_AT: u64 = 512;
/// What streams go to, and how large that is: more than the caches near a core hold.
pub(crate) const BULK: &str = "bulk";
pub(crate) const BULK_BYTES: u64 = 16 << 20;
/// Bytes of a long message.
pub(crate) const LONG_BYTES: usize = 1 << 20;
/// Segments that are there to be imported.
pub(crate) const NAMED: usize = 256;

/// How long a blob is kept for who asked for it.
const LENT_LASTS: Duration = Duration::from_secs(10);
/// Bytes that the sink reads at one time: more bring nothing.
const SINK_BYTES: usize = 256 << 10;

/// What runs until this is dropped.
pub(crate) struct Owner {
    _node: Node,
    _segments: Vec<Segment>,
}

/// Starts all; says where the node, the echo and the sink listen.
pub(crate) async fn serve() -> Result<(Owner, String), Failure> {
    let held = Bytes::from_static(&[7; SMALL_BYTES]);
    let store = Service::new(STORE).function_raw("read", move |_, params| {
        let held = held.clone();
        async move { read(&held, &params) }
    });
    let store =
        store
            .function("take", |bytes: ByteBuf| async move { Ok(bytes.len()) })
            .function_in("lend", |context, bytes: usize| async move {
                Ok(context.blob_for(&vec![7; bytes], "", LENT_LASTS)?)
            });
    let mut node = Node::builder(OWNER).sandbox(mesh::sandbox()?).listen("127.0.0.1:0").service(store);
    if let Some(fabric) = super::rdma::fabric() {
        node = node.remote_memory(fabric);
    }
    let node = node.start().await?;
    let all = Export { anyone: Rights::ALL, ..Export::default() };
    tokio::spawn(take_messages(node.mailbox(POST)?));
    let words = node.export(WORDS, WORDS_BYTES, all)?;
    tokio::spawn(answer_notifications(words.notifications()?, words.clone()));
    let mut segments = vec![words, node.export(BULK, BULK_BYTES, all)?];
    for number in 0..NAMED {
        segments.push(node.export(&format!("named {number}"), SMALL_BYTES as u64, all)?);
    }
    let (echo, sink) = (listen(echo).await?, listen(sink).await?);
    let said = format!("{} {echo} {sink}", node.address().unwrap_or_default());
    Ok((Owner { _node: node, _segments: segments }, said))
}

/// What a READ does, as a service function: bytes of memory, from an offset on.
fn read(held: &Bytes, params: &Value) -> Result<Value, catena::ServiceError> {
    let (offset, count): (usize, usize) = catena::from_value(params)?;
    let end = offset.saturating_add(count);
    let bytes = held.get(offset..end).ok_or_else(|| catena::ServiceError::named("OutOfBounds", "read less"))?;
    Ok(catena::to_value(serde_bytes::Bytes::new(bytes))?)
}

/// Sends short messages back, and takes what long ones bring.
async fn take_messages(post: Mailbox) {
    loop {
        let message = post.receive().await;
        let taken = match message.buffers().first() {
            Some(buffer) => buffer.fetch(LONG_BYTES as u64).await.map(drop),
            None => post.send(message.from(), message.items().iter().cloned()).await,
        };
        if let Err(why) = taken {
            eprintln!("a message was not taken: {why}");
        }
    }
}

/// Writes down when it was notified, with the stamp that it was notified of.
async fn answer_notifications(mut notifications: Notifications, words: Segment) {
    let mut stamp = [0; 8];
    while notifications.next().await.is_some() {
        let notified = monotonic_ns();
        if words.read(STAMP_AT, &mut stamp).is_ok() {
            let mut answer = [0; 16];
            answer[..8].copy_from_slice(&notified.to_ne_bytes());
            answer[8..].copy_from_slice(&stamp);
            let _ = words.write(NOTIFIED_AT, &answer);
        }
    }
}

/// The host's clock: the same in all its processes.
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

async fn listen<F, Fut>(serve: F) -> Result<String, Failure>
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let here = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // It ends when its client has gone.
            tokio::spawn(serve(stream));
        }
    });
    Ok(here.to_string())
}

/// Sends back what it gets, [`SMALL_BYTES`] at a time.
async fn echo(mut stream: TcpStream) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let mut message = [0; SMALL_BYTES];
    loop {
        stream.read_exact(&mut message).await?;
        stream.write_all(&message).await?;
    }
}

/// Takes as many bytes as it is told will come, into as much memory as the segment has, and says when it has them.
async fn sink(mut stream: TcpStream) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let mut memory = vec![0; BULK_BYTES as usize];
    loop {
        let (mut left, mut at) = (stream.read_u64().await?, 0);
        while left > 0 {
            let room = (memory.len() - at).min(SINK_BYTES);
            let got = stream.read(&mut memory[at..at + room]).await?;
            at = (at + got) % memory.len();
            if got == 0 {
                return Ok(());
            }
            left = left.saturating_sub(got as u64);
        }
        stream.write_u8(1).await?;
    }
}
