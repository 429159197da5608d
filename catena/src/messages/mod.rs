//! Messages between services (libRIPC, section III.A), on segments, grants, READ and WRITE: nothing else carries their bytes.
//!
//! The decisions are `catena_core::messages`; this gives them links, segments and a clock:
//!
//! | file | what it does |
//! | --- | --- |
//! | `post` | the machine under its lock; what links bring for it; what is over is let go of |
//! | `sending` | finds a service's node, and sends there; buffers become segments with a grant to that node |
//! | `lending` | memory that partners on one host map, in which buffers lie for them |
//! | `offer` | room there, for the answer to a READ or for a message |
//! | `carrying` | long calls and results that lie there too, without a word from whoever makes them |
//! | `mailbox` | a service's messages: taken, sent, asked |
//! | `received` | a message that came, and its buffers, which are read when its receiver likes |
//! | `answering` | the answer to a question, by the way that load decides |
//! | `question` | who waits for an answer, in a frame, in a return buffer, or to be read |

mod answering;
mod carrying;
mod lending;
mod mailbox;
mod offer;
mod post;
mod question;
mod received;
mod sending;

pub(crate) use lending::is_near;
pub use mailbox::Mailbox;
pub(crate) use mailbox::send_short;
pub(crate) use offer::Offer;
pub(crate) use post::{Post, offer};
pub(crate) use question::ask;
pub use question::{Answer, Question};
pub use received::{Buffered, Received};
pub use sending::{Long, Sent};
