//! Every bound of the file service, in one place. Each is named with its unit, and an error that breaks one names it.

/// Bytes that one `read` may ask for.
pub const READ_BYTES_MAX: u32 = 1 << 20;
/// Bytes that one `write` may carry.
pub const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Entries in one answer of `readdir`.
pub const READDIR_ENTRIES_MAX: u32 = 1024;
/// Entries in one answer of `readdir` when the caller names no count.
pub const READDIR_ENTRIES_DEFAULT: u32 = 256;
/// Bytes in one name: what Linux file systems allow.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes in one path, from the root: it travels inside the embedded service's handles, so it is kept short.
pub const PATH_BYTES_MAX: usize = 1024;
/// Components in one path: over NFS each costs one round trip.
pub const PATH_DEPTH_MAX: usize = 64;
/// Bytes in one handle: the embedded service's are the longest (a path and what identifies the file).
pub const HANDLE_BYTES_MAX: usize = PATH_BYTES_MAX + 32;
/// Bytes in one `readdir` cookie: NFS's cookie and cookie verifier, 8 bytes each.
pub const COOKIE_BYTES_MAX: usize = 16;
/// Calls of one service that do blocking work at the same time.
pub const RUNNING_CALLS_MAX: usize = 32;
/// Calls of one service that may wait for a place among the running ones.
pub const WAITING_CALLS_MAX: usize = 256;
/// Files that the embedded service keeps open between calls.
pub const OPEN_FILES_MAX: usize = 64;
/// Renames that the embedded service remembers, so that handles from before them go on working.
pub const MOVES_MAX: usize = 1024;
/// Largest `read` that the embedded service copies out of the page cache without leaving the async thread.
pub const INLINE_READ_BYTES_MAX: u32 = 64 << 10;
