//! Every bound of the file service, by name and unit.

use std::time::Duration;

use catena_clerk::{Lanes, Shape};

/// Bytes of a block of file data.
pub const BLOCK_BYTES: u64 = 8 << 10;
/// Bytes of data that one request carries.
pub const TRANSFER_BYTES_MAX: u64 = 64 << 10;
/// Bytes of names in one page of a directory.
pub const PAGE_NAME_BYTES_MAX: usize = 2_048;
/// Names in one page of a directory.
pub const PAGE_NAMES_MAX: usize = 64;
/// Clerks of one server.
pub const CLERKS_MAX: usize = 256;
/// Of them, clerks of one node.
pub const CLERKS_PER_NODE_MAX: usize = 64;
/// Requests that one clerk may have under way: each has a lane, with room for a transfer and its request or reply.
pub const LANES: Lanes = Lanes { count: 8, bytes: (TRANSFER_BYTES_MAX + 4_096) as u32 };
/// Bytes of the message that refuses an invalid request, so that the refusal fits into a lane whatever the request was.
pub const REFUSAL_BYTES_MAX: usize = 1_024;
/// How long a clerk believes what it reads after the server's beat word last rose.
pub const LEASE: Duration = Duration::from_secs(2);
/// How often a clerk reads the beat word.
pub const LEASE_EVERY: Duration = Duration::from_millis(200);
/// How often the server increments it.
pub const BEAT_EVERY: Duration = Duration::from_millis(200);
/// How often the server looks whether files were changed by others than its clerks.
pub const RECHECK_EVERY: Duration = Duration::from_secs(1);
/// Files that it looks at each time.
pub const RECHECKED_FILES_MAX: usize = 4_096;
/// Files whose state it remembers.
pub const KNOWN_FILES_MAX: usize = 65_536;
/// How long a request may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a clerk tries to reach its server again.
pub const RECONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// READs or requests that a clerk has under way for one read or write of a file.
pub const REQUESTS_AT_ONCE_MAX: usize = 8;

/// The dimensions of the four tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measures {
    /// Blocks of file data: a word with their length, and the bytes. In sectors, so that a short read fetches little.
    pub data: Shape,
    /// Names: a handle and the attributes of its file.
    pub names: Shape,
    /// Attributes.
    pub attributes: Shape,
    /// Pages of directories, and where links point.
    pub entries: Shape,
}

impl Default for Measures {
    /// 64 MiB of data, 32,768 names and attributes, 4,096 pages.
    fn default() -> Self {
        Self {
            data: Shape { slots: 8_192, sectors: 8, payload: 1_032 },
            names: Shape { slots: 32_768, sectors: 3, payload: 192 },
            attributes: Shape { slots: 32_768, sectors: 1, payload: 80 },
            entries: Shape { slots: 4_096, sectors: 4, payload: 1_024 },
        }
    }
}
