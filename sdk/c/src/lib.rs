//! The C interface of Catena (libRIPC's, in the paper's sense): nodes and clients, segments, short and long messages, return buffers, service IDs. Other languages stand on it.
//!
//! Its header is `include/catena.h`, made of the files here by `xtask header`, which reads the functions below as they stand: each is `pub unsafe extern "C" fn` with its
//! comment above. Calls block; they may come from any thread. Nothing here panics into C: a panic within is caught, and is an error.
//!
//! | file | what it does |
//! | --- | --- |
//! | `abi` | the version, codes, errors of a thread |
//! | `handles` | numbers for what is held, each checked: what is closed, or another thing, is refused |
//! | `raw` | the one place where what C gives is read and written |
//! | `party`, `segments`, `messages` | the functions |

mod abi;
mod handles;
mod messages;
mod party;
mod raw;
mod segments;

pub use abi::*;
pub use messages::*;
pub use party::*;
pub use segments::*;
