//! Services: named groups of async functions over serde types.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use catena_core::{Answer, Party, Ticket};
use catena_wire::{Exception, Fault, Kinds, NAME_BYTES_MAX, StepKey, Value, names};
use futures_core::Stream;
use futures_util::StreamExt;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Blob, Client, Code, RunOptions, StartError,
    admission::{Admission, BLOCKING_AT_ONCE_MAX, BLOCKING_WAITING_MAX},
    blobs::{Here, decoded_in},
    random,
    replying::Right,
    shell::{Listener, Shell},
    value::{from_value, to_value},
};

/// What a function may know about its call besides the parameters.
#[derive(Clone)]
pub struct Context {
    /// How long the caller still waits, in microseconds.
    pub time_left_us: u64,
    /// How many of the call's hops it may spend; in a chain's step, as many as any call may.
    pub(crate) hops_left: u32,
    /// The node on which it runs.
    pub node: Arc<str>,
    /// That node's site.
    pub site: Option<Arc<str>>,
    /// On whose behalf the chain or call runs, as its caller claims: the service must judge whether to trust it.
    pub credentials: Option<Value>,
    /// Where replies are sent.
    pub(crate) right: Right,
    /// The step of a chain for which the function runs. If the step is ever done again it has the same key, so this is the idempotency key for whatever the
    /// function itself calls.
    pub step: Option<StepKey>,
    /// Identifies this running call of the function.
    pub(crate) ticket: Ticket,
    /// For whom it runs: whose share it takes of what calls share here.
    pub(crate) by: Party,
    pub(crate) shell: Arc<Shell>,
}

impl Context {
    /// A client that calls from this node.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.shell))
    }

    /// Decodes the parameters, and begins to fetch the blobs among them.
    fn take<P: DeserializeOwned>(&self, params: &Value) -> Result<P, Exception> {
        decoded_in(Here::Parameters(Arc::clone(&self.shell), self.ticket), || from_value(params))
    }

    /// Keeps bytes at this node as a blob, to be passed by reference: until the chain is over, or for a plain call's remaining time, plus a grace.
    ///
    /// # Errors
    /// `Overloaded`: there is no room for that many bytes (`blob_bytes_max`). `BadParameters`: the media type has more than 256 bytes.
    pub fn blob(&self, bytes: &[u8], media_type: &str) -> Result<Blob, Exception> {
        let lasts = Duration::from_micros(self.time_left_us);
        let chain = self.step.as_ref().map(|step| step.chain);
        self.shell.blobs.offer(&self.shell, bytes, media_type, (lasts, chain))
    }

    /// Like [`Context::blob`], but the blob lasts for `lasts` plus the grace, unless [`Blob::release`] ends it earlier.
    ///
    /// # Errors
    /// As [`Context::blob`].
    pub fn blob_for(&self, bytes: &[u8], media_type: &str, lasts: Duration) -> Result<Blob, Exception> {
        self.shell.blobs.offer(&self.shell, bytes, media_type, (lasts, None))
    }

    /// Options for calls with the same credentials, and within the same time and hops.
    #[must_use]
    pub fn options(&self) -> RunOptions {
        let timeout = Duration::from_micros(self.time_left_us);
        RunOptions { timeout, hops_max: self.hops_left, credentials: self.credentials.clone(), ..RunOptions::default() }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("node", &self.node).field("step", &self.step).finish_non_exhaustive()
    }
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Answer, Exception>> + Send>>;
type Handler = Arc<dyn Fn(Context, Value) -> Running + Send + Sync>;

/// A service: its name and its functions.
#[derive(Clone)]
pub struct Service {
    name: String,
    functions: BTreeMap<String, Handler>,
    repeatable: BTreeSet<String>,
    durable: BTreeSet<String>,
    chains: BTreeSet<String>,
    /// Functions that reply any number of times, and return nothing.
    replying: BTreeSet<String>,
    /// The limit on concurrent calls of this service, if it has one.
    admission: Option<Admission>,
    /// The limit on concurrent calls of its blocking functions.
    threads: Admission,
    /// A name that was used for two functions.
    twice: Option<String>,
}

impl Service {
    /// A service without functions. Dots structure its name (`files.mtv`); a slash separates it from a function's name (`files.mtv/read`).
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            functions: BTreeMap::new(),
            repeatable: BTreeSet::new(),
            durable: BTreeSet::new(),
            chains: BTreeSet::new(),
            replying: BTreeSet::new(),
            admission: None,
            threads: Admission::new(BLOCKING_AT_ONCE_MAX, BLOCKING_WAITING_MAX),
            twice: None,
        }
    }

    /// Adds a function. If the call is dropped, so is the function's future: write it so that it may end at any `await`.
    #[must_use]
    pub fn function<P, R, F, Fut>(self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned,
        R: Serialize,
        F: Fn(P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ServiceError>> + Send + 'static,
    {
        self.function_in(name, move |_, params| function(params))
    }

    /// Adds a function that takes its [`Context`] besides the parameters.
    #[must_use]
    pub fn function_in<P, R, F, Fut>(self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned,
        R: Serialize,
        F: Fn(Context, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ServiceError>> + Send + 'static,
    {
        let handler = move |context: Context, params: Value| -> Running {
            match context.take(&params) {
                Err(why) => Box::pin(std::future::ready(Err(why))),
                Ok(params) => {
                    let running = function(context, params);
                    Box::pin(async move {
                        let result = running.await.map_err(|why| *why.0)?;
                        to_value(&result).map(Answer::Value).map_err(unencodable)
                    })
                }
            }
        };
        self.with(name, Arc::new(handler))
    }

    /// Adds a function that replies any number of times ([`Context::preturn`]) and returns nothing (Quatrain). A plain call to it gets all replies as one list,
    /// when the last has arrived.
    #[must_use]
    pub fn replies<P, F, Fut>(self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned,
        F: Fn(Context, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ServiceError>> + Send + 'static,
    {
        self.replies_raw(name, move |context, params| {
            let running = context.take(&params).map(|params| function(context, params));
            async move { running?.await }
        })
    }

    /// Like [`Service::replies`], with the parameters as an undecoded payload.
    #[must_use]
    pub fn replies_raw<F, Fut>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(Context, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ServiceError>> + Send + 'static,
    {
        let handler = move |context: Context, params: Value| -> Running {
            let running = function(context, params);
            Box::pin(async move { running.await.map(|()| Answer::Nothing).map_err(|why| *why.0) })
        };
        self.replying.insert(name.to_owned());
        self.with(name, Arc::new(handler))
    }

    /// Adds a function that answers with a stream; each item is sent as a reply as soon as the stream yields it.
    #[must_use]
    pub fn stream<P, R, S, F, Fut>(self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        S: Stream<Item = Result<R, ServiceError>> + Send,
        F: Fn(Context, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S, ServiceError>> + Send + 'static,
    {
        self.replies(name, move |context: Context, params: P| {
            let opening = function(context.clone(), params);
            async move {
                let stream = opening.await?;
                let mut stream = pin!(stream);
                while let Some(item) = stream.next().await {
                    let value = to_value(&item?)?;
                    context.preturn_value(value).await?;
                }
                Ok(())
            }
        })
    }

    /// Adds a function that may block, on a thread of its own from a bounded pool ([`Service::threads`]).
    #[must_use]
    pub fn blocking<P, R, F>(self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(Context, P) -> Result<R, ServiceError> + Send + Sync + 'static,
    {
        let (function, service) = (Arc::new(function), self.name.clone());
        self.function_in(name, move |context: Context, params: P| {
            let function = Arc::clone(&function);
            on_thread(service.clone(), context, move |context| function(context, params))
        })
    }

    /// Adds a function that answers with an iterator, on a thread of its own from a bounded pool ([`Service::threads`]); each item is sent as a reply at once.
    #[must_use]
    pub fn iterator<P, R, I, F>(self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize,
        I: IntoIterator<Item = R>,
        F: Fn(Context, P) -> Result<I, ServiceError> + Send + Sync + 'static,
    {
        let (function, service) = (Arc::new(function), self.name.clone());
        self.replies(name, move |context: Context, params: P| {
            let function = Arc::clone(&function);
            on_thread(service.clone(), context, move |context| {
                for item in function(context.clone(), params)? {
                    context.preturn_blocking(&item)?;
                }
                Ok(())
            })
        })
    }

    /// Limits the service to `at_once_max` concurrent calls, with up to `waiting_max` more waiting for their turn; a call beyond that is refused as
    /// `Overloaded` (Quatrain, section 3.4). Without this the node's own limit holds. Callers of one address take no more of these places than they leave free, and
    /// an eighth is this node's own.
    #[must_use]
    pub fn at_once(mut self, at_once_max: usize, waiting_max: usize) -> Self {
        self.admission = Some(Admission::new(at_once_max, waiting_max));
        self
    }

    /// Limits the service's blocking functions to `at_once_max` threads, with up to `waiting_max` more calls waiting; the next is refused as `Overloaded`.
    /// The places are shared as those of [`Service::at_once`].
    #[must_use]
    pub fn threads(mut self, at_once_max: usize, waiting_max: usize) -> Self {
        self.threads = Admission::new(at_once_max, waiting_max);
        self
    }

    /// Whether a plain call to this function gets its replies as a list.
    pub(crate) fn is_replying(&self, function: &str) -> bool {
        self.replying.contains(function)
    }

    /// Adds a function that answers with a chain (rpc-chains section 3.4). The calling chain continues as that sub-chain, and resumes with its result wherever
    /// it ends. Neither chain knows of the other.
    #[must_use]
    pub fn chain<P, F, Fut>(mut self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned,
        F: Fn(Context, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<SubChain, ServiceError>> + Send + 'static,
    {
        let handler = move |context: Context, params: Value| -> Running {
            match context.take(&params) {
                Err(why) => Box::pin(std::future::ready(Err(why))),
                Ok(params) => {
                    let (shell, ticket, step) = (Arc::clone(&context.shell), context.ticket, context.step.clone());
                    let running = function(context, params);
                    Box::pin(async move {
                        let sub = running.await.map_err(|why| *why.0)?;
                        if let (Some(step), Some(listener)) = (step, sub.listener) {
                            shell.listen(ticket, step, listener);
                        }
                        Ok(Answer::Chain(sub.chain))
                    })
                }
            }
        };
        self.chains.insert(name.to_owned());
        self.with(name, Arc::new(handler))
    }

    /// Declares that a function may be run again when it is unknown whether it has run: running it twice has the same effect as once (rpc-chains section 3.9).
    /// Chains then go on at another instance when the one that they called is lost.
    #[must_use]
    pub fn repeatable(mut self, name: &str) -> Self {
        self.repeatable.insert(name.to_owned());
        self
    }

    /// Makes a function durable: the node's step store ([`crate::NodeBuilder::step_store`]), which survives a crash, keeps what it did for each step of a
    /// chain. An intent is on disk before the function runs, and its result afterwards (rpc-chains section 3.9). A repeated step, also after a restart, is
    /// answered with that result or, if the node was lost in between, with an exception that says that the outcome is unknown; it never runs twice. So chains
    /// that lost the node ask it again, by its name, after its restart. They do not ask another instance of the service, which does not have this store.
    ///
    /// This costs two waits for the disk. Plain calls have no step, and run each time. A function that answers with a chain has no effect of its own, so
    /// declaring it durable only makes it repeatable.
    #[must_use]
    pub fn durable(mut self, name: &str) -> Self {
        self.durable.insert(name.to_owned());
        self
    }

    /// Adds a function that takes and returns undecoded payloads.
    #[must_use]
    pub fn function_raw<F, Fut>(self, name: &str, function: F) -> Self
    where
        F: Fn(Context, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, ServiceError>> + Send + 'static,
    {
        let handler = move |context: Context, params: Value| -> Running {
            let running = function(context, params);
            Box::pin(async move { running.await.map_err(|why| *why.0).map(Answer::Value) })
        };
        self.with(name, Arc::new(handler))
    }

    /// Adds a function that takes and returns undecoded payloads, and may return nothing beyond what it has replied.
    #[must_use]
    pub fn answers_raw<F, Fut>(self, name: &str, function: F) -> Self
    where
        F: Fn(Context, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Value>, ServiceError>> + Send + 'static,
    {
        let handler = move |context: Context, params: Value| -> Running {
            let running = function(context, params);
            Box::pin(async move {
                let answer = running.await.map_err(|why| *why.0)?;
                Ok(answer.map_or(Answer::Nothing, Answer::Value))
            })
        };
        self.with(name, Arc::new(handler))
    }

    fn with(mut self, name: &str, handler: Handler) -> Self {
        if self.functions.insert(name.to_owned(), handler).is_some() {
            self.twice = Some(name.to_owned());
        }
        self
    }

    /// Reports mistakes in the service's definition, such as a duplicate function name.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        if let Some(twice) = &self.twice {
            return Err(StartError::Twice(format!("{}/{twice}", self.name)));
        }
        for (kind, declared) in [("durable", &self.durable), ("repeatable", &self.repeatable)] {
            if let Some(missing) = declared.iter().find(|name| !self.functions.contains_key(*name)) {
                let (declared, functions) =
                    (format!("{}/{missing}", self.name), self.functions().collect::<Vec<_>>().join(", "));
                return Err(StartError::NoFunction { declared, kind, service: self.name.clone(), functions });
            }
        }
        Ok(())
    }

    /// The service's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// What the service announces about its functions.
    pub(crate) fn kinds(&self) -> Kinds {
        // A chain has no effect of its own, so it may begin again anywhere.
        let harmless = self.durable.intersection(&self.chains);
        Kinds {
            repeatable: self.repeatable.union(&harmless.cloned().collect()).cloned().collect(),
            durable: self.durable_functions().map(str::to_owned).collect(),
            chaining: self.chains.iter().cloned().collect(),
        }
    }

    /// The functions whose steps are kept in the step store.
    pub(crate) fn durable_functions(&self) -> impl Iterator<Item = &str> {
        self.durable.iter().filter(|name| !self.chains.contains(*name)).map(String::as_str)
    }

    pub(crate) fn call(&self, function: &str, context: Context, params: Value) -> Option<Running> {
        let handler = self.functions.get(function)?;
        let Some(admission) = self.admission.clone() else { return Some(handler(context, params)) };
        let (handler, service) = (Arc::clone(handler), self.name.clone());
        Some(Box::pin(async move {
            let _turn = admission.enter(context.by, &service, &context.node).await?;
            handler(context, params).await
        }))
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("name", &self.name).field("functions", &self.functions.keys()).finish()
    }
}

/// Runs blocking code on a thread of its own, as soon as the pool has room.
async fn on_thread<R: Send + 'static>(
    service: String,
    context: Context,
    work: impl FnOnce(Context) -> Result<R, ServiceError> + Send + 'static,
) -> Result<R, ServiceError> {
    let turn = match context.shell.service(&service) {
        Some(known) => Some(known.threads.clone().enter(context.by, &service, &context.node).await?),
        None => None,
    };
    let done = tokio::task::spawn_blocking(move || {
        // Held by the thread itself: it stays occupied until the work ends, even if nobody waits for the result any more.
        let _turn = turn;
        work(context)
    });
    match done.await {
        Ok(result) => result,
        Err(why) => match why.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(why) => Err(why.into()),
        },
    }
}

/// A chain with which a service function answers.
pub struct SubChain {
    chain: catena_core::SubChain,
    listener: Option<Listener>,
}

impl SubChain {
    /// A chain that runs this function, which must have been added to the node ([`Context::client`], [`Client::javascript`]).
    ///
    /// # Errors
    /// The input cannot be encoded.
    pub fn new<T: Serialize + ?Sized>(code: &Code, input: &T) -> Result<Self, ServiceError> {
        let input = to_value(input).map_err(|why| ServiceError(Box::new(why)))?;
        let chain =
            catena_core::SubChain { number: random::bits128(), code: code.hash(), input, catch: None, hears: false };
        Ok(Self { chain, listener: None })
    }

    /// Passes the sub-chain's uncaught exceptions to a function of the same service, which answers in its place (rpc-chains section 3.8). Its parameter is the
    /// exception.
    #[must_use]
    pub fn catch(mut self, function: &str) -> Self {
        // No function has a longer name, and one that cannot be called catches nothing.
        self.chain.catch = (function.len() <= NAME_BYTES_MAX).then(|| function.to_owned());
        self
    }

    /// Has `listener` called at this node with the sub-chain's intermediate answers, in order and each once. Without it they are discarded. It must not block:
    /// the node waits for it.
    #[must_use]
    pub fn hear(mut self, listener: impl Fn(Value) + Send + Sync + 'static) -> Self {
        self.chain.hears = true;
        self.listener = Some(Arc::new(listener));
        self
    }
}

/// The exception for a result that cannot be encoded. The function has run, so the service is at fault.
fn unencodable(why: Exception) -> Exception {
    Exception { fault: Fault::Service, ..why }
}

/// How a service function fails: with an [`Exception`] of its own name, or with any other error, which becomes `ServiceFailed`.
#[derive(Debug)]
pub struct ServiceError(Box<Exception>);

impl ServiceError {
    /// A failure that callers can recognise by its name, such as `NFS3ERR_NOENT`.
    #[must_use]
    pub fn named(name: &str, message: impl Into<String>) -> Self {
        Self(Box::new(Exception::new(name, Fault::Service, message)))
    }

    /// The given exception unchanged, for a service that stands for another.
    #[must_use]
    pub fn as_it_is(why: Exception) -> Self {
        Self(Box::new(why))
    }

    /// The same failure, with parameters for the calling program.
    #[must_use]
    pub fn with_params<T: Serialize>(self, params: &T) -> Self {
        match to_value(params) {
            Ok(params) => Self(Box::new(self.0.with_params(params))),
            Err(_) => self,
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for ServiceError {
    /// An exception keeps its name and whether its outcome is unknown, so that a service can pass on the exception of a service that it calls. It then counts
    /// as this service's failure: that the inner call was not made says nothing about what this service did.
    fn from(error: E) -> Self {
        let any: &(dyn std::error::Error + 'static) = &error;
        if let Some(exception) = any.downcast_ref::<Exception>() {
            let (why, of_a_call) = (exception.clone(), exception.target.is_some() || !exception.path.is_empty());
            let why = if of_a_call { Exception { fault: Fault::Service, target: None, ..why } } else { why };
            return Self(Box::new(why));
        }
        // Includes the whole chain of causes, since the outermost error alone often says little.
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self(Box::new(Exception::new(names::SERVICE_FAILED, Fault::Service, message)))
    }
}
