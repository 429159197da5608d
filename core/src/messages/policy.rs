//! What a node allows with messages: every bound, by name and unit.

/// The node owner's bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessagePolicy {
    /// Services of this node that take messages.
    pub mailboxes_max: usize,
    /// Messages that wait in one mailbox.
    pub mailbox_messages_max: usize,
    /// Of those, from one address.
    pub mailbox_messages_per_peer_max: usize,
    /// Bytes of what waits in one mailbox.
    pub mailbox_bytes_max: usize,
    /// Messages at one time for which this node holds buffers: their own, or the one for their answer.
    pub held_max: usize,
    /// Of those, for the partners at one address.
    pub held_per_peer_max: usize,
    /// Bytes of such buffers.
    pub held_bytes_max: u64,
    /// Of those, for the partners at one address.
    pub held_bytes_per_peer_max: u64,
    /// How long they are held at most, microseconds.
    pub held_time_max_us: u64,
    /// For an answer of up to this many bytes, notice that it was read goes with the asker's next message, not in a message of its own.
    pub piggybacked_bytes_max: u64,
    /// Bytes of the memory that is lent to one partner on this host, for it to map: one such memory to read and one to write.
    pub lent_bytes_per_peer_max: u64,
    /// Such memories at one time.
    pub lent_max: usize,
    /// A READ of at least this many bytes by the link asks for them in lent memory.
    pub lent_read_bytes_min: u64,
    /// A call to a node on this host, or a result, of at least this many bytes lies in lent memory.
    pub carried_bytes_min: u64,
    /// How long unused memory is kept, microseconds: lent memory in which nothing lies, and a partner's that is mapped and not read.
    pub lent_idle_max_us: u64,
    /// A service with this many messages waiting counts as loaded, and leaves the transfer of its answers to those who asked.
    pub loaded_waiting_min: usize,
    /// So does a service with this many bytes written to a partner and not flushed.
    pub loaded_unflushed_bytes_min: u64,
    /// How long an answer may take to get into a return buffer before it goes as a long message instead, microseconds.
    pub return_time_max_us: u64,
    /// A mistake on purpose.
    #[cfg(feature = "seeded-bugs")]
    pub bug: Option<crate::bug::MessageBug>,
}

impl Default for MessagePolicy {
    fn default() -> Self {
        Self {
            mailboxes_max: 4_096,
            mailbox_messages_max: 1_024,
            mailbox_messages_per_peer_max: 256,
            mailbox_bytes_max: 4 << 20,
            held_max: 16_384,
            held_per_peer_max: 4_096,
            held_bytes_max: 1 << 30,
            held_bytes_per_peer_max: 256 << 20,
            held_time_max_us: 60_000_000,
            piggybacked_bytes_max: 96 << 10,
            lent_bytes_per_peer_max: 16 << 20,
            lent_max: 64,
            lent_read_bytes_min: 32 << 10,
            carried_bytes_min: 64 << 10,
            lent_idle_max_us: 10_000_000,
            loaded_waiting_min: 16,
            loaded_unflushed_bytes_min: 4 << 20,
            return_time_max_us: 2_000_000,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }
}
