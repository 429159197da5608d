//! What travels over a link, and who receives it.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Link, LinkError, LogLimit};

/// Largest message (head and tail together, in bytes) that goes as one frame: the small lane.
pub const INLINE_BYTES_MAX: usize = 16 * 1024;

/// Largest message of the medium lane, in bytes: a typical continuation, which must not wait for a 100 MB transfer.
pub const MEDIUM_BYTES_MAX: usize = 1024 * 1024;

/// What a node tells its peer when a link opens. Opaque to `net`, except for the node's number and its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node's number, as the peer claims it: the plain TCP transport does not prove it.
    pub node: u64,
    /// The site the node is in, at most 255 bytes. Only shaped links look at it.
    pub site: Option<String>,
    /// Anything that the layer above wants its peers to know, at most `hello_bytes_max` (64 KiB).
    pub hello: Bytes,
}

/// Where to dial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// `host:port`.
    pub address: String,
    /// The site of the node there, when known: a shaped link then shapes from its first byte.
    pub site: Option<String>,
}

impl Place {
    /// A place whose site is not known.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), site: None }
    }

    /// The same place, known to be in `site`.
    pub fn in_site(self, site: impl Into<String>) -> Self {
        Self { site: Some(site.into()), ..self }
    }
}

/// One message: opaque bytes in two parts.
///
/// The head is delivered as soon as it has arrived, the tail (which may be empty) after it, so that a receiver can start
/// on the head while the tail is still on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Delivered first.
    pub head: Bytes,
    /// Delivered when complete.
    pub tail: Bytes,
}

impl Message {
    /// A message without a tail.
    pub fn head(head: impl Into<Bytes>) -> Self {
        Self { head: head.into(), tail: Bytes::new() }
    }

    /// A message with both parts.
    pub fn new(head: impl Into<Bytes>, tail: impl Into<Bytes>) -> Self {
        Self { head: head.into(), tail: tail.into() }
    }

    /// Head and tail together, in bytes.
    pub fn bytes(&self) -> usize {
        self.head.len().saturating_add(self.tail.len())
    }

    /// Which queue this message goes through.
    pub fn lane(&self) -> Lane {
        match self.bytes() {
            bytes if bytes <= INLINE_BYTES_MAX => Lane::Small,
            bytes if bytes <= MEDIUM_BYTES_MAX => Lane::Medium,
            _ => Lane::Large,
        }
    }
}

/// The three queues of a link, by message size. A full lane never holds up a lane for smaller messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Up to [`INLINE_BYTES_MAX`]: one frame, in order, overtakes everything else.
    Small,
    /// Up to [`MEDIUM_BYTES_MAX`]: fragments, in turn with whatever else is under way.
    Medium,
    /// Anything larger: fragments, in turn, and never in all of the places at once.
    Large,
}

impl Lane {
    /// All lanes, in the order of their number.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// What arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A whole message. Small messages, and messages without a tail, always come like this.
    Whole(Message),
    /// The head of a message whose tail is on its way. The tail follows, or the link is lost.
    Head {
        /// Links this head with its tail; unique among the messages from this link.
        id: u64,
        /// The head, complete.
        head: Bytes,
        /// How many bytes of tail the sender announced: at most `message_bytes_max`. Do not allocate them in advance.
        tail_bytes: usize,
    },
    /// The tail of a message whose head was delivered before.
    Tail {
        /// The same number that came with the head.
        id: u64,
        /// The tail, complete.
        tail: Bytes,
    },
}

/// Who is told of what happens on the links of an endpoint.
///
/// All calls for one link come one after another, from the link's reader task, with no lock held: a handler may call
/// [`Link::try_send`] or [`Link::send_lazily`] inside (that is how a request is answered without a task switch), and it
/// must not block. All messages of a link come between its `on_link` and its `on_link_lost`.
pub trait Handler: Send + Sync + 'static {
    /// A link is up and the peer has said who it is: [`Link::identity`] is known.
    fn on_link(&self, peer: &Arc<Link>);

    /// Something arrived. Must not block.
    fn on_message(&self, peer: &Arc<Link>, incoming: Incoming);

    /// A link is gone: called once for each link that `on_link` named or [`crate::Endpoint::link`] returned.
    fn on_link_lost(&self, peer: &Arc<Link>, why: &LinkError);

    /// Somebody dialled this endpoint and was turned away before a link came to be.
    fn on_refused(&self, why: &LinkError) {
        static LIMIT: LogLimit = LogLimit::new();
        if let Some(unsaid) = LIMIT.pass() {
            tracing::warn!(%why, unsaid, "a caller was turned away");
        }
    }

    /// Whether this handler has yet to work off what it was told: until it has, no link is read.
    fn is_behind(&self) -> bool {
        false
    }

    /// How much memory a message of more than one frame takes while it is handled, including its decoded form, in bytes. This is charged to the peer's address
    /// before [`Handler::on_message`] is called, until that returns; a link to whose address it can never be charged ends.
    fn decoded_bytes_max(&self, head: &[u8]) -> u64 {
        head.len() as u64
    }
}
