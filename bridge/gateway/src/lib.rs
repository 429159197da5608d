//! The browser's door into Catena: calls and chains over HTTP, their replies as Server-Sent Events while they come.
//!
//! | request | what it does |
//! | --- | --- |
//! | `POST /call/SERVICE/FUNCTION` | a call, its parameters as JSON in the body |
//! | `POST /run/NAME` (or its hash) | a chain of a function that the gateway was given, its input as JSON in the body |
//! | `GET /openapi.json` | what is offered, as OpenAPI 3.1 |
//! | `GET /catena.js` | the client for browsers: `for await (const reply of replies("search/find", query))` |
//! | `GET /blob/ADDRESS` | a blob of a reply, whole or a part, once |
//! | `GET` anything else | files of the folder named, if one is |
//!
//! With `Accept: text/event-stream` each reply is an event when it comes: `reply`; then `missing`, for each branch whose replies do not come; and exactly one `end`,
//! the last, which says whether all came. Otherwise the one answer is JSON, or what went wrong is `application/problem+json` (RFC 9457).
//!
//! What a browser may ask for is a list, empty by default, and so are the origins whose pages may ask. A browser that leaves drops its reply set, which cancels
//! what is under way for it everywhere; so a stream is never resumed, and `Last-Event-ID` is refused.
#![forbid(unsafe_code)]

mod answers;
mod asking;
mod blobs;
mod charge;
mod door;
mod events;
mod files;
mod limits;
mod listing;
mod offer;
mod origins;
mod pace;
mod problem;
mod ranges;
mod reply;
mod server;
mod visitors;

pub use files::media_type;
pub use limits::{LimitError, Limits};
pub use offer::{Named, Offer, OfferError};
pub use origins::{Origin, OriginError};
pub use pace::Paced;
pub use server::{Config, Gateway, GatewayError};
