//! The bounds that the bytes themselves must keep, whatever a node's own policy is.

/// Longest name of a service, function, node or site, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Deepest nesting of a payload value (RFC 8949 section 10 asks decoders to bound it).
pub const VALUE_DEPTH_MAX: usize = 64;
/// Hosts remembered in the path of a chain: the oldest of them stay, since they say where it came from.
pub const PATH_HOSTS_MAX: usize = 256;
/// Steps profiled for `--explain`; later ones run unprofiled.
pub const TRACE_STEPS_MAX: usize = 2_048;
/// Deepest split of a split of a split (rpc-chains section 3.10: 74.1.2 has depth 2).
pub const BRANCH_DEPTH_MAX: usize = 16;
/// Chains around a chain (rpc-chains section 3.4).
pub const STACK_DEPTH_MAX: usize = 32;
/// Branches of one chain, all splits together.
pub const BRANCHES_MAX: usize = 4_096;
/// Functions of one service.
pub const FUNCTIONS_MAX: usize = 4_096;
/// Lines of the virtual console that a call brings back beside its result.
pub const CONSOLE_LINES_MAX: usize = 4_096;
