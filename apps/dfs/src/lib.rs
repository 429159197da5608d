//! A file service without calls (Separating Data and Control Transfer, section 5): the server of a directory exports its caches as segments, and clerks on the
//! clients' machines READ them. Control goes to the server only for what is not cached, and for changes.
//!
//! | file | what it does |
//! | --- | --- |
//! | `server`, `reading`, `changing` | the server: what it does when it is asked |
//! | `caches`, `known`, `packed` | its four tables; where and how files were when it last saw them; how values lie in them |
//! | `session`, `clerk`, `files` | the clerk: one run of its server, what happens when that is lost, and the operations |
//! | `nfs`, `listening` | the clerk as an NFSv3 server on loopback, and that it goes on listening |
//! | `protocol`, `limits` | what both say, and every bound |
#![forbid(unsafe_code)]

mod caches;
mod changing;
mod clerk;
mod files;
mod known;
pub mod limits;
mod listening;
mod nfs;
mod packed;
mod places;
mod protocol;
mod reading;
mod server;
mod session;
pub mod workload;

pub use clerk::{Clerk, ClerkConfig, Counts, Way};
pub use nfs::{Callers, NfsDoor};
pub use server::{ServeError, Server, ServerConfig};
