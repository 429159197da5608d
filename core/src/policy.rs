//! What a node allows: every bound of the state machines, by name and unit.

use catena_wire::Budget;

/// The node owner's bounds. A chain may only lower them (rpc-chains section 3.6).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Chains at this node at one time; a hop beyond is refused as `Overloaded`. One peer may have no more than it leaves free for others.
    pub activations_max: usize,
    /// Service functions running at one time; a call beyond is refused as `Overloaded`.
    pub services_running_max: usize,
    /// Plain calls that wait for an answer.
    pub calls_waiting_max: usize,
    /// Calls that one chain may have out side by side.
    pub calls_per_chain_max: usize,
    /// Chains begun here and not yet ended.
    pub chains_started_max: usize,
    /// The most that any chain may spend here, and the default for chains begun here.
    pub budget_max: Budget,
    /// Steps remembered, so that a repeated hop does not run twice.
    pub step_records_max: usize,
    /// How long they are remembered, microseconds awake ("briefly", rpc-chains section 3.9).
    pub step_record_ttl_us: u64,
    /// Bytes of payloads kept to answer repeats of steps.
    pub step_payload_bytes_max: usize,
    /// Microseconds for which chains that are over are gathered before nodes are told ([`catena_wire::Message::Over`]).
    pub over_gather_us: u64,
    /// Bytes of chains here, of payloads that answer repeats of their steps, and of answers on the way; a hop beyond is refused as `Overloaded`.
    pub held_bytes_max: usize,
    /// A link whose peer is silent for this many microseconds counts as broken: nothing that waits in a socket is older.
    pub link_silence_us_max: u64,
    /// A chain sends a heartbeat this often (rpc-chains section 3.9: 3 s).
    pub heartbeat_interval_us: u64,
    /// The origin gives up a silent chain after this time (rpc-chains section 3.9: 6 s).
    pub heartbeat_timeout_us: u64,
    /// A chain whose origin cannot be reached for this long is dropped (rpc-chains section 3.10: a minute).
    pub orphan_timeout_us: u64,
    /// How long a hop over the network lasts for the heartbeat timer that travels with a chain (rpc-chains section 3.9: 200 ms).
    pub heartbeat_hop_us: u64,
    /// A hop neither accepted nor refused within this is sent again.
    pub accept_timeout_us: u64,
    /// Sendings of one hop, the first included.
    pub hop_attempts_max: u8,
    /// How long a repository, or the hop before, may take to bring a function.
    pub code_fetch_timeout_us: u64,
    /// Functions being fetched at one time.
    pub codes_fetching_max: usize,
    /// Pairs of node and function remembered as "sent already".
    pub codes_sent_max: usize,
    /// Intermediate answers held back until the ones before them arrive; the sender keeps, and sends again, what finds no room.
    pub partials_held_max: usize,
    /// Bytes of such answers of one chain.
    pub partials_held_bytes_max: usize,
    /// Ends, answers and cancellations kept until their receivers have them.
    pub outgoing_max: usize,
    /// Their bytes.
    pub outgoing_bytes_max: usize,
    /// Lines of the virtual console that a chain carries.
    pub console_lines_max: usize,
    /// Their bytes.
    pub console_bytes_max: usize,
    /// Names of services resolved and kept.
    pub names_max: usize,
    /// How long a name that nobody served is assumed not to be served, microseconds.
    pub name_absent_ttl_us: u64,
    /// Services remembered that were served here, and where they are now.
    pub moved_max: usize,
    /// How long the place of such a service is remembered, microseconds awake.
    pub moved_ttl_us: u64,
    /// How often a hop or call follows a service that has moved before it is given up: nothing was done at any of the nodes.
    pub moves_followed_max: u8,
    /// How long a hop or call waits for a node that is moving a service to say where it is, microseconds.
    pub moving_wait_us_max: u64,
    /// Whether chains that services of this node answer with join the chain that called (rpc-chains section 3.4).
    pub compose: bool,
    /// Enclosing chains on the stack of a chain; one more is an exception. At most [`catena_wire::STACK_DEPTH_MAX`].
    pub stack_depth_max: usize,
    /// Branches of one split.
    pub branches_max: u32,
    /// Whether chains' functions run here at all (rpc-chains section 7.3); if not, chains go to this node's proxy or
    /// stay where they are.
    pub runs_guests: bool,
    /// Whether chains may run here that call services of other nodes: this node is their chaining proxy.
    pub chaining_proxy: bool,
    /// How often a silent chain is retransmitted with the same id, before it is given up (rpc-chains section 3.9).
    pub retransmissions_max: u8,
    /// Instances of a service tried for one hop, when nothing was done at those before.
    pub instances_tried_max: usize,
    /// Tombstones of stopped chains, and as many possible duplicates, that are remembered for `step_record_ttl_us`.
    pub stopped_chains_max: usize,
    /// Sub-chains whose intermediate answers are put in order here.
    pub listeners_max: usize,
    /// Sets that the function of one chain may have open at one time; one more is an exception.
    pub sets_per_chain_max: usize,
    /// Bytes of replies to one function's call that have arrived here and are not read: replies beyond have to be sent again.
    pub set_unread_bytes_max: usize,
    /// Rights to reply that are here at one time; a call beyond is refused as `Overloaded`.
    pub rights_max: usize,
    /// Bytes of one reply.
    pub reply_bytes_max: usize,
    /// Microseconds from one message with replies under a right to the next, while replies follow so quickly that each message would only queue behind the one
    /// before; 0 sends each reply by itself.
    pub reply_burst_us: u64,
    /// Replies under one right that may be on their way to the caller's reader; beyond, those who reply have to wait (back-pressure).
    pub reply_window: u32,
    /// Their bytes.
    pub reply_window_bytes: u32,
    /// Replies to one call that have arrived here and are not read: replies beyond have to be sent again.
    pub replies_unread_max: usize,
    /// Their bytes.
    pub replies_unread_bytes_max: usize,
    /// A mistake that the node makes on purpose.
    #[cfg(feature = "seeded-bugs")]
    pub bug: Option<crate::Bug>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            activations_max: 20_000,
            services_running_max: 20_000,
            calls_waiting_max: 65_536,
            calls_per_chain_max: 1_024,
            chains_started_max: 65_536,
            // 2,000 hops as in rpc-chains section 6; chains are meant to be short (section 3.10 collects garbage after a minute).
            budget_max: Budget::new(600_000_000, 2_000),
            step_records_max: 262_144,
            step_record_ttl_us: 60_000_000,
            step_payload_bytes_max: 64 << 20,
            over_gather_us: 100_000,
            held_bytes_max: 512 << 20,
            link_silence_us_max: 20_000_000,
            heartbeat_interval_us: 3_000_000,
            orphan_timeout_us: 60_000_000,
            heartbeat_timeout_us: 6_000_000,
            heartbeat_hop_us: 200_000,
            accept_timeout_us: 2_000_000,
            hop_attempts_max: 3,
            code_fetch_timeout_us: 5_000_000,
            codes_fetching_max: 1_024,
            codes_sent_max: 65_536,
            partials_held_max: 4_096,
            partials_held_bytes_max: 16 << 20,
            outgoing_max: 65_536,
            outgoing_bytes_max: 128 << 20,
            console_lines_max: 1_024,
            console_bytes_max: 1 << 20,
            names_max: 65_536,
            name_absent_ttl_us: 1_000_000,
            moved_max: 4_096,
            moved_ttl_us: 60_000_000,
            moves_followed_max: 32,
            moving_wait_us_max: 5_000_000,
            compose: true,
            stack_depth_max: 16,
            branches_max: 256,
            runs_guests: true,
            chaining_proxy: false,
            retransmissions_max: 2,
            instances_tried_max: 4,
            stopped_chains_max: 65_536,
            listeners_max: 16_384,
            sets_per_chain_max: 64,
            set_unread_bytes_max: 16 << 20,
            rights_max: 65_536,
            reply_bytes_max: 16 << 20,
            reply_burst_us: 50,
            reply_window: 1_024,
            reply_window_bytes: 4 << 20,
            replies_unread_max: 16_384,
            replies_unread_bytes_max: 64 << 20,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }
}
