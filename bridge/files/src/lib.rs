//! The file-service interface, and its embedded implementation over one directory.
//!
//! The words and shapes are those of NFSv3 (RFC 1813), so that one chain runs over this crate's [`Directory`] and over a
//! real NFS server alike (RPC Chains, sections 3.5 and 4.1). This crate knows nothing of chains: whoever registers a
//! service offers each of [`FUNCTIONS`], and passes calls on by [`call`].

pub mod check;
mod directory;
mod error;
mod gate;
pub mod limits;
mod listing;
mod service;
mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod types;

pub use directory::{Change, Directory, FileSystemState, IDENTITY_BYTES, Listed, OpenError};
pub use error::FileError;
pub use gate::{Gate, Pass};
pub use listing::{LIST, Listing};
pub use service::{FUNCTIONS, FileService, Form, Function, call};
pub use status::Status;
pub use types::*;
