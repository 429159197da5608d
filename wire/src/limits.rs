//! Bounds on the encoding itself, whatever a node's own policy is.

/// Longest name of a service, function, node or site, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Deepest nesting of a payload value (RFC 8949 section 10 asks decoders to bound it).
pub const VALUE_DEPTH_MAX: usize = 64;
/// Hosts remembered in the path of a chain: the oldest are kept, since they say where it came from.
pub const PATH_HOSTS_MAX: usize = 256;
/// Steps profiled for `--explain`; later ones run unprofiled.
pub const TRACE_STEPS_MAX: usize = 2_048;
/// Deepest split of a split of a split (rpc-chains section 3.10: 74.1.2 has depth 2).
pub const BRANCH_DEPTH_MAX: usize = 16;
/// Chains that may enclose a chain (rpc-chains section 3.4).
pub const STACK_DEPTH_MAX: usize = 32;
/// Branches of one chain whose answers are counted, or that are named in one message.
pub const BRANCHES_MAX: usize = 4_096;

/// Chains that one [`crate::Message::Over`] names.
pub const CHAINS_OVER_MAX: usize = 256;
/// Functions of one service.
pub const FUNCTIONS_MAX: usize = 4_096;
/// Lines of the virtual console that a call brings back with its result.
pub const CONSOLE_LINES_MAX: usize = 4_096;
/// Instances of one service.
pub const INSTANCES_MAX: usize = 64;
/// Ways in which one node finds services.
pub const RESOLVERS_MAX: usize = 16;
/// Services in one listing.
pub const LISTING_ENTRIES_MAX: usize = 4_096;
/// Names of functions and kinds in one listing or greeting, all its services together.
pub const LISTING_NAMES_MAX: usize = 65_536;
/// Replies in one message.
pub const REPLIES_MAX: usize = 4_096;
/// Rights that one right may delegate.
pub const DELEGATES_MAX: usize = 4_096;
/// Limit on the memory that the lists of one message take when decoded, in bytes, beyond their bytes on the wire. Of all [`crate::Message`]s, the listing has
/// the longest lists.
pub const LISTS_BYTES_MAX: usize = 16 << 20;
/// How many times larger than its bytes a decoded message may be: an empty name of one byte becomes a `String` of 24.
pub const DECODED_TIMES_MAX: usize = 64;
