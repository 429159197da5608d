//! Catena: a chain is your own async function, hopping from server to server.
//!
//! An ordinary remote call ties four things together: where control goes, where the data goes, how many answers come back, and where the callee lives.
//! Here a function moves to the services that it calls: every `await call(...)` takes it there, and the result goes straight home.
//!
//! ```no_run
//! use catena::{Client, Node, Service};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Greet { name: String }
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let greeter = Service::new("greeter").function("hello", async |greet: Greet| Ok(format!("hello, {}", greet.name)));
//! let node = Node::builder("here").listen("127.0.0.1:0").service(greeter).start().await?;
//!
//! let client = Client::connect(&node.address().unwrap().to_string()).await?;
//! let plain: String = client.call("greeter", "hello", &Greet { name: "you".into() }).await?;
//!
//! let function = client.javascript("greet.js", r#"
//!     import { call } from "catena";
//!     export default async (name) => (await call("greeter/hello", { name })).toUpperCase();
//! "#).await?;
//! let chained: String = client.run(&function, &"you").await?.value().await?;
//! # Ok(()) }
//! ```
//!
//! A [`Node`] serves [`Service`]s and hosts chains; a [`Client`] begins chains and makes plain calls. Both are cheap to clone, `Send + Sync`, and whatever they
//! return may be dropped at any time. Every failure is an [`Exception`]: its name, whose fault it is, at which step, along which hosts.
#![forbid(unsafe_code)]

mod admission;
mod blobs;
mod builder;
mod client;
mod clock;
mod durable;
mod incoming;
mod memory;
mod messages;
mod node;
mod random;
mod replies;
mod replying;
mod segments;
mod service;
mod shell;
mod store;
mod value;

pub use blobs::Blob;
pub use builder::{Names, NodeBuilder, StartError};
pub use catena_core::{
    Missing, Policy, Start,
    messages::{Carrier, MessageCounts, MessagePolicy},
    segments::{Export, Notify, SegmentId, SegmentPolicy},
};
pub use catena_directory::{self as directory, Registry, Resolver};
pub use catena_guest::{Function, FunctionKind, Limits, Sandbox, SandboxConfig, SandboxError};
pub use catena_net::{LinkShape, LogLimit, MEMORY_BYTES_MIN, NetError, Place, Topology};
pub use catena_segment::RemoteMemory;
pub use catena_wire::{
    Asked, BlobBytes, Branch, Budget, ChainId, Completion, Exception, Fault, Hash, LogLine, Mode, NodeId, NodeRef,
    Order, Outcome, ResolverAnswer, Rights, SegmentEntry, ServiceEntry, Sighting, StepKey, StepLimits, StepTrace, Told,
    Value, What, names as exceptions,
};
pub use client::{Client, Code, RunOptions, Traffic};
pub use durable::StepStoreLimits;
pub use messages::{Answer, Buffered, Long, Mailbox, Question, Received, Sent};
pub use node::Node;
pub use replies::{BlockingReplies, Ended, Reply, ReplySet};
pub use segments::{Access, GrantTerms, Granted, Imported, Lookup, Mapped, Notice, Notifications, Segment, Way, Wish};
pub use service::{Context, Service, ServiceError, SubChain};
pub use value::{from_value, to_value};
