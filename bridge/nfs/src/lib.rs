//! The file-service interface over a real NFSv3 server (RFC 1813).
//!
//! This is the paper's wrapper for a legacy service (RPC Chains, section 3.5): it runs beside the server, and each function
//! of [`FileService`](catena_files::FileService) passes one request to the procedure of the same name and its answer back.
//! Errors keep their NFS names. [`NfsService`] makes a service of it that acts as its callers.
//!
//! The wire format is the crate `nfs3_client`'s; connections, retries and limits are here.

mod acting;
mod call;
mod config;
mod convert;
mod mount;
mod pool;
mod reply;
mod service;
mod stream;

pub use acting::NfsService;
pub use config::{ConnectError, Credentials, NfsConfig};
pub use service::NfsBridge;
