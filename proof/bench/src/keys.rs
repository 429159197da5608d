//! Every figure by its key: what it is, and its goal. What each says and what bounds it is in `docs/src/figures.md`.

use Goal::{AtLeast, AtMost, Open};

/// What a figure should come to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// It explains others.
    Open,
}

impl Goal {
    pub(crate) fn is_met(self, median: f64) -> bool {
        match self {
            AtMost(goal) => median <= goal,
            AtLeast(goal) => median >= goal,
            Open => true,
        }
    }

    /// The goal, and whether a median meets it, for a page.
    pub(crate) fn judge(self, median: f64) -> String {
        let met = if self.is_met(median) { "met" } else { "missed" };
        match self {
            AtMost(goal) => format!("at most {goal}: {met}"),
            AtLeast(goal) => format!("at least {goal}: {met}"),
            Open => String::new(),
        }
    }
}

/// Measured only where what it needs is installed.
pub(crate) const OPTIONAL: &[&str] = &["read_rdma_tcp_ratio"];

/// Key, what it is, goal.
pub(crate) const KEYS: &[(&str, &str, Goal)] = &[
    ("hop_js_us", "one hop in the guest, JavaScript, warm, µs", AtMost(11.0)),
    ("hop_js_cold_us", "the same after 1 MiB of other memory was touched, µs", Open),
    ("hop_wasm_us", "one hop in the guest, compiled, warm, µs", AtMost(4.0)),
    ("load_js_us", "load a 5 KB JavaScript function, µs", AtMost(700.0)),
    ("mail_state_bytes", "continuation of the mail function on the wire, bytes", AtMost(1_200.0)),
    ("cached_js_bytes", "resident memory of a cached 5 KB JavaScript function, bytes", AtMost(16_384.0)),
    ("chain4_ring_wasm", "chain of 4 / raw ring, compiled", AtMost(3.5)),
    ("chain4_ring_js", "chain of 4 / raw ring, JavaScript", AtMost(6.0)),
    ("chain4_tonic_wasm", "chain of 4 / 4 tonic calls, compiled", AtMost(0.6)),
    ("chain4_tonic_js", "chain of 4 / 4 tonic calls, JavaScript", AtMost(1.0)),
    ("break_even_rtt_us", "round trip at which a JavaScript chain of 4 equals 4 tonic calls, µs", AtMost(40.0)),
    ("call_tonic", "client.call / tonic unary", AtMost(0.15)),
    ("call_near", "client.call on one host by a Unix socket / by TCP", Open),
    ("chain4_near_js", "chain of 4, JavaScript, on one host by Unix sockets / by TCP", Open),
    ("ring_us", "raw ring, µs", Open),
    ("tonic4_us", "4 tonic calls, µs", Open),
    ("chain4_js_us", "chain of 4, JavaScript, µs", Open),
    ("chain4_wasm_us", "chain of 4, compiled, µs", Open),
    ("call_us", "client.call, µs", Open),
    ("custody_cost_pct", "custody, heartbeats and step records, % of a chain's processor time", AtMost(10.0)),
    ("accepted_us", "an acceptance on its way, with others of its kind: both ends' processor time, µs", Open),
    ("cpu_tonic_js", "chains per CPU-second / tonic's, JavaScript, 64 in flight", AtLeast(0.9)),
    ("cpu_tonic_wasm", "chains per CPU-second / tonic's, compiled, 64 in flight", AtLeast(1.5)),
    ("cpu_js", "chains of 4 per CPU-second, JavaScript", Open),
    ("cpu_wasm", "chains of 4 per CPU-second, compiled", Open),
    ("cpu_tonic", "4 tonic calls per CPU-second", Open),
    ("read_shm_ns", "READ of 64 bytes in shared memory, ns", AtMost(300.0)),
    ("write_shm_ratio", "WRITE of 40 bytes in shared memory / a copy to memory of one's own", AtMost(8.0)),
    ("read_tcp_ratio", "READ of 64 bytes over TCP / raw TCP there and back", AtMost(1.15)),
    ("read_rdma_tcp_ratio", "READ of 64 KiB by libfabric's tcp;ofi_rxm / by the link over TCP", Open),
    ("cas_read", "CAS over TCP / READ over TCP", AtMost(1.1)),
    (
        "notify_us",
        "from a WRITE in shared memory until the owner's task that waits for the notification runs, µs",
        Open,
    ),
    ("read_cpu_call", "owner's processor time, READ over TCP / client.call", AtMost(0.6)),
    ("read_cpu_tonic", "owner's processor time, READ over TCP / tonic unary", AtMost(0.25)),
    ("read_cpu_shm", "owner's processor time, READ in shared memory / READ over TCP", AtMost(0.01)),
    ("read_cpu_us", "owner's processor time of a READ over TCP, µs", Open),
    ("write_stream_ratio", "WRITEs of 64 KiB over TCP / raw TCP stream, bytes a second", AtLeast(0.9)),
    ("write_memcpy_ratio", "WRITEs of 64 KiB in shared memory / memcpy, bytes a second", AtLeast(0.8)),
    ("short_ratio", "short message of 64 bytes one way / half a raw TCP round trip", AtMost(1.2)),
    ("long_tonic", "long message of 1 MiB by the link / a tonic call with as much", AtMost(0.4)),
    ("long_tonic_near", "the same between nodes that share memory", AtMost(0.1)),
    ("import_cached_ns", "import of what is imported already, ns", Open),
    ("import_read_ratio", "import of what is not / READ over TCP", AtMost(1.3)),
    ("reply_stream_tonic", "one reply of many as they come / tonic server streaming, time", AtMost(0.5)),
    ("reply_stream_cpu_tonic", "the same, processor time", AtMost(0.5)),
    ("reply_gathered_tonic", "one reply of many that are all there, gathered / tonic server streaming, time", Open),
    ("reply_gathered_cpu_tonic", "the same, processor time", Open),
    ("end_after_last_us", "from the last reply to the end, across 3 delegations, µs", Open),
    ("end_after_last_message", "the same / one message's time", AtMost(1.0)),
    ("migration_pause_ms", "longest call while its service moves once, ms", Open),
    ("split8_speedup", "8 calls of 5 ms in a row / a split into 8", Open),
    ("composition_saved_pct", "copy to a replicated service: composition saves, %", AtLeast(10.0)),
    ("composition_allowed_pct", "what the delays between its places allow it to save, %", Open),
    ("composed_ms", "that copy, composed, ms", Open),
    ("not_composed_ms", "that copy, composition off, ms", Open),
    ("blob_chain_bound", "chain of 4 hops whose answer holds 10 MB by reference / its bound", AtMost(1.05)),
    ("blob_bytes_needed", "bytes over the client's links and in its hops / bytes of the blob", AtMost(1.02)),
    ("state_blob_calls", "chain of two whose 4 MiB of state are a blob / two calls, over a link of 32 ms", AtMost(1.0)),
    ("state_value_calls", "the same with the state as a value", Open),
    (
        "adaptive_worst_pct",
        "adaptive over the better of chain and RPC, exploring and a move included, worst case, %",
        AtMost(5.0),
    ),
    ("waiting_chain_bytes", "memory of a waiting chain, at its node and its origin, bytes", AtMost(6_000.0)),
    ("segment_bytes", "memory of an exported segment, of 100,000, bytes", AtMost(1_024.0)),
    ("import_bytes", "memory of an import, of 10,000, bytes", AtMost(1_024.0)),
    ("soak_growth_pct", "growth over an hour's worth of mixed chains, %", AtMost(2.0)),
];

#[cfg(test)]
mod tests {
    use super::KEYS;

    #[test]
    fn each_key_is_explained_and_nothing_else_is() {
        let page = include_str!("../../../docs/src/figures.md");
        let explained: Vec<_> = page.lines().filter_map(crate::page::key_of).collect();
        let keys: Vec<_> = KEYS.iter().map(|(key, ..)| *key).collect();
        assert_eq!(explained, keys, "docs/src/figures.md has a row for each key, in this order");
    }
}
