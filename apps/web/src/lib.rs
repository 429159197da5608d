//! HTTP over Catena instead of sockets (libRIPC, section IV): requests are short messages, and what answers them comes from where it lies.
//!
//! [`mount`] puts any [`hyper::service::Service`] behind a service ID, so any `hyper`, `axum` or `tower` application; [`Fetcher`] is its client; [`Proxy`] is
//! that client as an HTTP server on loopback, for browsers; [`Files`] is a service that serves a folder out of segments.
//!
//! ```no_run
//! use catena_web::{Fetcher, FetchLimits, Limits, mount};
//! use hyper::{Request, Response, body::Bytes, service::service_fn};
//! # use http_body_util::Full;
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let node = catena::Node::builder("here").listen("127.0.0.1:0").start().await?;
//! let hello = service_fn(async |_request| Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("hello")))));
//! let _mounted = mount(&node, "shop", hello, Limits::default())?;
//!
//! let client = catena::Client::connect(&node.address().unwrap_or_default()).await?;
//! let fetcher = Fetcher::new(client, FetchLimits::default());
//! let response = fetcher.fetch("shop", Request::get("/").body(Bytes::new())?).await?;
//! assert_eq!(response.into_body().whole(1 << 20).await?, "hello");
//! # Ok(()) }
//! ```
//!
//! | file | what it does |
//! | --- | --- |
//! | `head`, `frame` | what goes in messages: heads as HTTP/1.1 has them, and where the body is |
//! | `site` | the server: takes requests from a mailbox, has the service answer them |
//! | `bodies`, `staging` | bodies that are pulled part by part, and the segments in which their parts lie |
//! | `fetch`, `body`, `pulling`, `imports` | the client |
//! | `proxy` | the client as a server on loopback |
//! | `files` | a folder as a service, its cache in segments |
#![forbid(unsafe_code)]

mod bodies;
mod body;
mod fetch;
mod files;
mod frame;
mod head;
mod imports;
mod limits;
mod proxy;
mod pulling;
mod site;
mod staging;

pub use body::{FetchBody, InPlace, Lying};
pub use fetch::{FetchError, Fetcher};
pub use files::{FileBody, Files, Keep};
pub use head::HeadError;
pub use limits::{FetchLimits, FileLimits, Limits, ProxyLimits};
pub use proxy::{Proxy, ProxyError};
pub use site::{Mounted, mount};
