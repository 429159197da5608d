//! What a node allows with messages: every bound, by name and unit.

/// The node owner's bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessagePolicy {
    /// Services of this node that take messages.
    pub mailboxes_max: usize,
    /// Messages that wait in one mailbox.
    pub mailbox_messages_max: usize,
    /// Of those, from one partner.
    pub mailbox_messages_per_peer_max: usize,
    /// Bytes of what waits in one mailbox.
    pub mailbox_bytes_max: usize,
    /// Messages at one time whose buffers, or whose answer's, this node holds.
    pub held_max: usize,
    /// Of those, for one partner.
    pub held_per_peer_max: usize,
    /// Bytes of such buffers.
    pub held_bytes_max: u64,
    /// Of those, for one partner.
    pub held_bytes_per_peer_max: u64,
    /// How long they are held at most, microseconds.
    pub held_time_max_us: u64,
    /// Bytes up to which an answer that is read here is told to have been read with the next message of whoever asked, not by one of its own.
    pub piggybacked_bytes_max: u64,
    /// Bytes of the memory that is lent to one partner on this host, for it to map: once to read and once to write.
    pub lent_bytes_per_peer_max: u64,
    /// Such memories at one time.
    pub lent_max: usize,
    /// From so many bytes on a READ that goes by the link asks for them there.
    pub lent_read_bytes_min: u64,
    /// From so many bytes on a call to a node on this host, or a result, lies there.
    pub carried_bytes_min: u64,
    /// How long one is kept that nothing lies in, and a partner's is kept mapped that nothing is read from, microseconds.
    pub lent_idle_max_us: u64,
    /// With so many messages waiting a service counts as loaded, and leaves the transfer of its answers to who asked.
    pub loaded_waiting_min: usize,
    /// With so many bytes written to a partner and not flushed, too.
    pub loaded_unflushed_bytes_min: u64,
    /// How long an answer may take to get into a return buffer before it goes long, microseconds.
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
            held_per_peer_max: 512,
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
