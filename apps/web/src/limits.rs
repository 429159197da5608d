//! Every bound of the server, the client, the proxy and the folder, by name and unit.

use std::time::Duration;

/// What a mounted service allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Requests that the service works on at one time; further ones get 503.
    pub requests_max: usize,
    /// Of those, of one client.
    pub requests_per_client_max: usize,
    /// Bytes of a request's body.
    pub request_bytes_max: u64,
    /// How long the service may take for the head of a response.
    pub head_time_max: Duration,
    /// Bodies that are being pulled.
    pub bodies_max: usize,
    /// Of those, by one client.
    pub bodies_per_client_max: usize,
    /// How long a client may not ask for the next part of a body before the body is dropped.
    pub body_idle_max: Duration,
    /// How long a request for the next part may wait, before the answer says that there is none yet.
    pub part_time_max: Duration,
    /// How long the head of a response of known length may wait for the first part of its body, to be sent with it.
    pub first_time_max: Duration,
    /// Bytes of a part.
    pub part_bytes: usize,
    /// Bytes of the segments that clients were told of ([`crate::Lying`]) and that are kept for them.
    pub lent_bytes_max: u64,
    /// Bytes of all segments in which parts lie; beyond, parts go as messages.
    pub staging_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_max: 512,
            requests_per_client_max: 128,
            request_bytes_max: 64 << 20,
            head_time_max: Duration::from_secs(30),
            bodies_max: 512,
            bodies_per_client_max: 128,
            body_idle_max: Duration::from_secs(30),
            part_time_max: Duration::from_secs(2),
            first_time_max: Duration::from_millis(50),
            part_bytes: 1 << 20,
            lent_bytes_max: 512 << 20,
            staging_bytes_max: 128 << 20,
        }
    }
}

/// What a client allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchLimits {
    /// How long an answer is awaited, and the next part of a body.
    pub answer_time_max: Duration,
    /// Bytes of a response's head.
    pub head_bytes_max: u64,
    /// Bytes of a part of a body.
    pub part_bytes_max: u64,
    /// Segments of servers that stay imported.
    pub imports_max: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            answer_time_max: Duration::from_secs(40),
            head_bytes_max: 256 << 10,
            part_bytes_max: 1 << 20,
            imports_max: 1_024,
        }
    }
}

/// What the proxy on loopback allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxyLimits {
    /// Connections at one time.
    pub connections_max: usize,
    /// Bytes of a request's body.
    pub request_bytes_max: usize,
    /// How long the head of a request may take to come.
    pub head_time_max: Duration,
    /// How long its body may.
    pub request_time_max: Duration,
    /// How long a client may take none of the data waiting for it.
    pub write_time_max: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections_max: 256,
            request_bytes_max: 16 << 20,
            head_time_max: Duration::from_secs(10),
            request_time_max: Duration::from_secs(60),
            write_time_max: Duration::from_secs(30),
        }
    }
}

/// What the cache of a folder holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileLimits {
    /// Bytes of a file that is kept; larger ones are read each time.
    pub kept_file_bytes_max: u64,
    /// Bytes of all that are kept.
    pub kept_bytes_max: u64,
    /// How many are kept.
    pub kept_files_max: usize,
    /// How long cached content may be sent without looking at the file: the longest time after which readers see a change.
    pub believed: Duration,
    /// Bytes that are read from a file at one time.
    pub read_bytes: usize,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            kept_file_bytes_max: 64 << 20,
            kept_bytes_max: 512 << 20,
            kept_files_max: 4_096,
            believed: Duration::from_secs(1),
            read_bytes: 1 << 20,
        }
    }
}
