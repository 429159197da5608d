//! Every limit, with its unit in its name.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::message::{INLINE_BYTES_MAX, MEDIUM_BYTES_MAX};
use crate::transport::{Tcp, Transport};
use crate::{MemoryBudget, NetError, Topology};

/// The default budget, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;
/// The smallest budget: everything else is in proportion to it.
pub const MEMORY_BYTES_MIN: u64 = 128 << 20;

/// How an endpoint behaves. [`EndpointConfig::default`] suits a node in a data centre.
#[derive(Clone)]
pub struct EndpointConfig {
    /// Where to listen; `None`: dial only. Default `None`.
    pub listen: Option<SocketAddr>,
    /// What carries the bytes. Default [`Tcp`].
    pub transport: Arc<dyn Transport>,
    /// Delay and bandwidth per pair of sites, for development and demonstrations. Default `None`: links are as they are.
    pub topology: Option<Arc<Topology>>,
    /// Whether a thread of their own wakes shaped links, some tens of microseconds late, instead of the runtime's timer, up to 2 ms late. The thread lives in
    /// real time: tests in virtual time switch it off. Default `true`.
    pub sharp_shaping: bool,
    /// What this node accepts from each peer; the peer is told in the hello.
    pub limits: Limits,
    /// The memory that links may take, possibly shared with other parts. Default 1 GiB of their own.
    pub memory: MemoryBudget,
    /// What the links with one address may take of this memory for messages received in part and for queued output, in bytes. Default three eighths of 1 GiB.
    pub address_bytes_max: u64,
    /// How long a link may wait for memory for what it receives, before it is closed. Default 10,000 ms.
    pub memory_wait_ms_max: u64,
    /// Links at once, opened by either side, those still introducing themselves included. Default 1,024.
    pub links_max: usize,
    /// How many of these links peers may open; the rest are for this node's own dials. Default 896.
    pub links_accepted_max: usize,
    /// How many of those may come from one address (for IPv6: one /64). Default 256.
    pub links_per_address_max: usize,
    /// Queued to send per link in the small lane, in bytes (each message counts 64 more). Default 4 MiB.
    pub small_queue_bytes_max: u32,
    /// Queued to send per link in the medium lane, in bytes. Default 16 MiB.
    pub medium_queue_bytes_max: u32,
    /// Queued to send per link in the large lane, in bytes. A message larger than this goes alone. Default 128 MiB.
    pub large_queue_bytes_max: u32,
    /// Queued beyond the lanes' bounds by [`crate::Link::post`], in bytes: if more are, the peer's own bytes are read slowly until it has read enough of them.
    /// Default 64 MiB.
    pub overflow_bytes_max: u64,
    /// A message that has come in part, and a queue that is not empty, must advance at least this fast, in bytes per second, or the link is closed. Measured
    /// over [`EndpointConfig::silence_ms_max`]. Default 4,096.
    pub progress_bytes_per_s_min: u64,
    /// How long a link to a node may be silent before it gives way to another that claims the same node. Default 3,000 ms.
    pub takeover_ms: u64,
    /// How long a dial may take. Default 5,000 ms.
    pub connect_timeout_ms: u64,
    /// How long a peer may take to say hello. Default 10,000 ms.
    pub hello_timeout_ms: u64,
    /// Longest hello accepted from a peer, in bytes. Default 64 KiB, and 1 KiB more for what `net` adds.
    pub hello_bytes_max: u32,
    /// How often each link is measured and, if it is silent, tested. Default 5,000 ms.
    pub ping_interval_ms: u64,
    /// After this many pings in a row without any byte in return, the link is lost. Default 3.
    pub pings_missed_max: u32,
    /// How long a lazy message may wait for others. Default 5 ms: until an acceptance has arrived, losing the node that sent it leaves unknown whether that
    /// node had taken the hop over.
    pub lazy_ms_max: u64,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            listen: None,
            transport: Arc::new(Tcp::default()),
            topology: None,
            sharp_shaping: true,
            limits: Limits::default(),
            memory: MemoryBudget::new(MEMORY_BYTES),
            address_bytes_max: MEMORY_BYTES / 8 * 3,
            memory_wait_ms_max: 10_000,
            links_max: 1024,
            links_accepted_max: 896,
            links_per_address_max: 256,
            small_queue_bytes_max: 4 << 20,
            medium_queue_bytes_max: 16 << 20,
            large_queue_bytes_max: 128 << 20,
            overflow_bytes_max: 64 << 20,
            progress_bytes_per_s_min: 4_096,
            takeover_ms: 3_000,
            connect_timeout_ms: 5_000,
            hello_timeout_ms: 10_000,
            hello_bytes_max: 65 << 10,
            ping_interval_ms: 5_000,
            pings_missed_max: 3,
            lazy_ms_max: 5,
        }
    }
}

/// What one side accepts from the other. Each side says so in its hello, and a correct sender keeps to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame payload, in bytes. Default 16 KiB: at 1 MB/s a small message waits at most 16 ms for it.
    pub frame_bytes_max: u32,
    /// Longest message, head and tail together, in bytes. Default 128 MiB.
    pub message_bytes_max: u64,
    /// Fragmented messages under way at once. Default 16.
    pub fragmented_messages_max: u32,
    /// Bytes announced by all messages under way, per link. Default 256 MiB.
    pub receive_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: INLINE_BYTES_MAX as u32,
            message_bytes_max: 128 << 20,
            fragmented_messages_max: 16,
            receive_bytes_max: 256 << 20,
        }
    }
}

impl Limits {
    /// The least that every node accepts. A dialler keeps to this until the peer's hello has come, so that its first messages need not wait for it.
    pub const FLOOR: Self = Self {
        frame_bytes_max: INLINE_BYTES_MAX as u32,
        message_bytes_max: MEDIUM_BYTES_MAX as u64,
        fragmented_messages_max: 4,
        receive_bytes_max: 5 * MEDIUM_BYTES_MAX as u64,
    };

    /// The largest frame payload that a header can express: 24 bits.
    pub(crate) const FRAME_BYTES_CEILING: u32 = (1 << 24) - 1;

    /// Names the first field that is out of range.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let reserve = u64::from(self.fragmented_messages_max) * MEDIUM_BYTES_MAX as u64;
        if self.frame_bytes_max < Self::FLOOR.frame_bytes_max || self.frame_bytes_max > Self::FRAME_BYTES_CEILING {
            return Err("frame_bytes_max must lie between 16 KiB and 16 MiB - 1");
        }
        if self.message_bytes_max < Self::FLOOR.message_bytes_max || self.message_bytes_max > u64::from(u32::MAX) {
            return Err("message_bytes_max must lie between 1 MiB and 4 GiB - 1");
        }
        if self.fragmented_messages_max < Self::FLOOR.fragmented_messages_max || self.fragmented_messages_max > 1024 {
            return Err("fragmented_messages_max must lie between 4 and 1,024");
        }
        // Otherwise a large message could never start, given the room kept free for medium ones.
        if self.receive_bytes_max < self.message_bytes_max.saturating_add(reserve) {
            return Err("receive_bytes_max must be at least message_bytes_max + fragmented_messages_max MiB");
        }
        Ok(())
    }
}

impl EndpointConfig {
    /// The defaults for links that share this memory: with less than 1 GiB, messages have to be shorter.
    pub fn within(memory: MemoryBudget) -> Self {
        let mut config = Self::default();
        let message_bytes_max = (memory.bytes_max() / 8).min(config.limits.message_bytes_max);
        let receive_bytes_max = (2 * message_bytes_max).min(config.limits.receive_bytes_max);
        config.limits = Limits { message_bytes_max, receive_bytes_max, ..config.limits };
        Self { address_bytes_max: memory.bytes_max() / 8 * 3, memory, ..config }
    }

    /// How long a link may be silent before its peer is taken for lost. This also bounds the age of what is read from a socket: a node that was itself stopped
    /// for longer reads no more of what waits there, and closes the link.
    pub fn silence_ms_max(&self) -> u64 {
        self.ping_interval_ms.saturating_mul(u64::from(self.pings_missed_max) + 1)
    }

    pub(crate) fn check(&self) -> Result<(), NetError> {
        let bad = |what: &str| Err(NetError::Config { what: what.to_owned() });
        if let Err(what) = self.limits.check() {
            return bad(what);
        }
        if self.small_queue_bytes_max < 64 << 10 || self.medium_queue_bytes_max < 2 << 20 {
            return bad("small_queue_bytes_max must be at least 64 KiB, medium_queue_bytes_max at least 2 MiB");
        }
        let queue_ceiling = u32::MAX >> 4;
        let queues = [self.small_queue_bytes_max, self.medium_queue_bytes_max, self.large_queue_bytes_max];
        if queues.iter().any(|&bytes| bytes == 0 || bytes > queue_ceiling) {
            return bad("each queue must hold between 1 byte and 256 MiB");
        }
        if self.links_max == 0 || self.links_max > 1 << 20 {
            return bad("links_max must lie between 1 and 1,048,576");
        }
        if self.links_accepted_max == 0 || self.links_per_address_max == 0 {
            return bad("links_accepted_max and links_per_address_max must not be 0");
        }
        if self.memory.bytes_max() < MEMORY_BYTES_MIN {
            return bad("memory_bytes_max must be at least 128 MiB");
        }
        if self.ping_interval_ms == 0 || self.pings_missed_max == 0 || self.hello_timeout_ms == 0 {
            return bad("ping_interval_ms, pings_missed_max and hello_timeout_ms must not be 0");
        }
        Ok(())
    }

    pub(crate) fn queue_bytes_max(&self) -> [u32; 3] {
        [self.small_queue_bytes_max, self.medium_queue_bytes_max, self.large_queue_bytes_max]
    }
}
