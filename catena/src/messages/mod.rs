//! Messages between services (libRIPC, section III.A), on segments, grants, READ and WRITE: nothing else carries their bytes.
//!
//! `catena_core::messages` makes the decisions; this module gives it links, segments and a clock:
//!
//! | file | what it does |
//! | --- | --- |
//! | `post` | the machine under its lock; messages from links for it; release of what has ended |
//! | `sending` | finds a service's node, and sends there; buffers become segments with a grant to that node |
//! | `lending` | memory that partners on one host map, in which buffers lie for them |
//! | `offer` | room in that memory, for the answer to a READ or for a message |
//! | `carrying` | long calls and results put into that memory, unseen by their callers |
//! | `mailbox` | a service's messages: taken, sent, asked |
//! | `received` | a message that has arrived, and its buffers, which are read when its receiver likes |
//! | `answering` | the answer to a question, by the way that load decides |
//! | `question` | waiting for an answer: in a frame, in a return buffer, or left to be read |

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
