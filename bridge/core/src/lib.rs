//! Bridges: legacy services, wrapped so that chains can call them (rpc-chains section 3.5).
//!
//! A bridge is one folder beside this one, and implements one trait, [`Bridge`]: its name, its functions, and what to do when one is called. It runs at
//! the legacy server or near it, speaks that server's own protocol, and knows nothing of chains, frames or sandboxes. [`service_of`] makes a service of it.
//!
//! To add one: a crate `bridge/PROTOCOL` that depends on this one; a row in `tools/xtask/src/tidy.rs` that says so; a row in `docs/dependencies.md` for
//! the protocol's library; a test against a real server. What a bridge owes its callers:
//!
//! - **Act for the caller**, not for the node, where the protocol can: [`Caller`] has what the caller says of itself; [`Identity`] is the rule by which
//!   the node's owner lets Unix users through. Where the server refuses, say whose credentials it refused.
//! - **Say what may be repeated.** A function marked [`Function::repeatable`] is called again when its answer was lost.
//! - **Keep the server's words**: its errors are exceptions with its own names, such as `NFS3ERR_NOENT`.
//! - **Have bounds**: on connections, on calls that wait, on bytes, on time. A call's future may be dropped at any `await`.
//!
//! # A whole bridge
//!
//! To a server that reads a word on one line and answers with its definition on one line:
//!
//! ```
//! use catena::{Client, Node, ServiceError, Value, from_value, to_value};
//! use catena_bridge::{Bridge, Caller, Function, service_of};
//! use tokio::{
//!     io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
//!     net::{TcpListener, TcpStream},
//! };
//!
//! struct Dictionary {
//!     server: String,
//! }
//!
//! #[async_trait::async_trait]
//! impl Bridge for Dictionary {
//!     fn name(&self) -> &str {
//!         "dictionary"
//!     }
//!
//!     fn functions(&self) -> Vec<Function> {
//!         vec![Function::repeatable("define")]
//!     }
//!
//!     async fn call(&self, _caller: &Caller, _function: &str, params: Value) -> Result<Value, ServiceError> {
//!         let word: String = from_value(&params)?;
//!         let mut stream = TcpStream::connect(&self.server).await?;
//!         stream.write_all(format!("{word}\n").as_bytes()).await?;
//!         let mut line = String::new();
//!         BufReader::new(stream.take(4_096)).read_line(&mut line).await?;
//!         match line.trim_end() {
//!             "" => Err(ServiceError::named("NoSuchWord", format!("{} does not know {word:?}", self.server))),
//!             definition => Ok(to_value(definition)?),
//!         }
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let legacy = TcpListener::bind("127.0.0.1:0").await?;
//! # let server = legacy.local_addr()?.to_string();
//! # tokio::spawn(async move {
//! #     while let Ok((mut stream, _)) = legacy.accept().await {
//! #         let mut word = String::new();
//! #         let _ = BufReader::new(&mut stream).read_line(&mut word).await;
//! #         let answer = if word == "chain\n" { "links, one after the other\n" } else { "\n" };
//! #         let _ = stream.write_all(answer.as_bytes()).await;
//! #     }
//! # });
//! let node = Node::builder("library").listen("127.0.0.1:0").service(service_of(Dictionary { server })).start().await?;
//! let client = Client::connect(node.address().unwrap()).await?;
//! let definition: String = client.call("dictionary", "define", "chain").await?;
//! assert_eq!(definition, "links, one after the other");
//! let unknown = client.call::<_, String>("dictionary", "define", "qwzx").await.unwrap_err();
//! assert_eq!(unknown.name, "NoSuchWord");
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod identity;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use catena::{Context, Exception, Fault, Service, ServiceError, StepKey, Value, exceptions};

pub use identity::{Acting, Identity, NOBODY, Root, UnixUser, Who};

/// A legacy service, as chains see it.
#[async_trait]
pub trait Bridge: Send + Sync + 'static {
    /// The service's name, such as `files.mtv`.
    fn name(&self) -> &str;

    /// Its functions. Asked once.
    fn functions(&self) -> Vec<Function>;

    /// Passes one call on, and its answer back. Only functions of [`Bridge::functions`] are asked for.
    ///
    /// # Errors
    /// What the legacy service says, by its own name.
    async fn call(&self, caller: &Caller, function: &str, params: Value) -> Result<Value, ServiceError>;

    /// Answers one call of a function that replies many times ([`Function::replying`]), by [`Context::preturn`].
    ///
    /// # Errors
    /// What the legacy service says, by its own name.
    async fn replies(
        &self,
        _caller: &Caller,
        function: &str,
        _params: Value,
        _context: &Context,
    ) -> Result<(), ServiceError> {
        let message = format!("{} says that {function} replies many times, and has no such function", self.name());
        Err(Exception::new(exceptions::UNKNOWN_FUNCTION, Fault::Service, message).into())
    }
}

/// A function of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Whether the function is idempotent, so that it may be called again when it is unknown whether the first call took effect.
    pub repeatable: bool,
    /// Whether it replies many times: [`Bridge::replies`] answers it.
    pub replying: bool,
}

impl Function {
    /// A function that must not be done twice.
    #[must_use]
    pub fn once(name: &str) -> Self {
        Self { name: name.to_owned(), repeatable: false, replying: false }
    }

    /// A function that may be repeated.
    #[must_use]
    pub fn repeatable(name: &str) -> Self {
        Self { repeatable: true, ..Self::once(name) }
    }

    /// A function that replies as often as it likes, and returns nothing (Quatrain).
    #[must_use]
    pub fn replying(name: &str) -> Self {
        Self { replying: true, ..Self::once(name) }
    }
}

/// Who calls.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// On whose behalf the call is, as the caller claims. This is no proof: a bridge accepts only what its node's owner allows.
    pub credentials: Option<Value>,
    /// How long the caller will wait.
    pub time_left: Duration,
    /// The chain step that this call is, the same however often it is repeated: the idempotency key for a legacy protocol that has such keys.
    pub step: Option<StepKey>,
}

impl Caller {
    fn of(context: &Context) -> Self {
        let time_left = Duration::from_micros(context.time_left_us);
        Self { credentials: context.credentials.clone(), time_left, step: context.step.clone() }
    }
}

/// The service that a node offers for a bridge.
#[must_use]
pub fn service_of(bridge: impl Bridge) -> Service {
    let bridge = Arc::new(bridge);
    let mut service = Service::new(bridge.name());
    for Function { name, repeatable, replying } in bridge.functions() {
        let (bridge, function): (_, Arc<str>) = (Arc::clone(&bridge), name.as_str().into());
        if replying {
            service = service.replies_raw(&name, move |context, params| {
                let (bridge, function) = (Arc::clone(&bridge), Arc::clone(&function));
                async move { bridge.replies(&Caller::of(&context), &function, params, &context).await }
            });
            continue;
        }
        service = service.function_raw(&name, move |context, params| {
            let (bridge, function) = (Arc::clone(&bridge), Arc::clone(&function));
            async move { bridge.call(&Caller::of(&context), &function, params).await }
        });
        if repeatable {
            service = service.repeatable(&name);
        }
    }
    service
}
