//! Services: named groups of async functions over serde types.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use catena_core::{Answer, Ticket};
use catena_wire::{Exception, Fault, Kinds, StepKey, Value, names};
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

/// What a function may know of its call, besides its parameters.
#[derive(Clone)]
pub struct Context {
    /// Microseconds that the caller will wait.
    pub time_left_us: u64,
    /// What it may spend of the call's hops; of a chain's step, what any call may.
    pub(crate) hops_left: u32,
    /// The node on which it runs.
    pub node: Arc<str>,
    /// That node's site.
    pub site: Option<Arc<str>>,
    /// On whose behalf the chain or call runs, as its caller says: what it is worth is for the service to judge.
    pub credentials: Option<Value>,
    /// Where replies go.
    pub(crate) right: Right,
    /// The step of a chain that this is. If it is ever done again it has the same key: the idempotency key for whatever
    /// the function itself calls.
    pub step: Option<StepKey>,
    /// The running function that it is for.
    pub(crate) ticket: Ticket,
    pub(crate) shell: Arc<Shell>,
}

impl Context {
    /// A client that calls from this node.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.shell))
    }

    /// Decodes the parameters; a blob among them is begun to be fetched.
    fn take<P: DeserializeOwned>(&self, params: &Value) -> Result<P, Exception> {
        decoded_in(Here::Parameters(Arc::clone(&self.shell), self.ticket), || from_value(params))
    }

    /// Keeps bytes at this node, to be passed by reference: until the chain is over, or as long as the call may take, and a grace.
    ///
    /// # Errors
    /// `Overloaded`: there is no room for so many bytes (`blob_bytes_max`). `BadParameters`: the media type has more than 256 bytes.
    pub fn blob(&self, bytes: &[u8], media_type: &str) -> Result<Blob, Exception> {
        let lasts = Duration::from_micros(self.time_left_us);
        let chain = self.step.as_ref().map(|step| step.chain);
        self.shell.blobs.offer(&self.shell, bytes, media_type, (lasts, chain))
    }

    /// The same for so long, and a grace; [`Blob::release`] ends it earlier.
    ///
    /// # Errors
    /// As [`Context::blob`].
    pub fn blob_for(&self, bytes: &[u8], media_type: &str, lasts: Duration) -> Result<Blob, Exception> {
        self.shell.blobs.offer(&self.shell, bytes, media_type, (lasts, None))
    }

    /// On the same behalf, within the same time and hops.
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

/// A service: its name, and its functions.
#[derive(Clone)]
pub struct Service {
    name: String,
    functions: BTreeMap<String, Handler>,
    repeatable: BTreeSet<String>,
    durable: BTreeSet<String>,
    chains: BTreeSet<String>,
    /// Functions that reply as often as they like, and return nothing.
    replying: BTreeSet<String>,
    /// What bounds calls of this service, if it does.
    admission: Option<Admission>,
    /// What bounds its blocking functions.
    threads: Admission,
    /// A name that was given to two functions.
    twice: Option<String>,
}

impl Service {
    /// A service without functions. Dots part its name (`files.mtv`); a slash parts it from a function (`files.mtv/read`).
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

    /// Adds a function. Dropping a call drops its future: write functions that may end at any `await`.
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

    /// Adds a function that wants to know its [`Context`].
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

    /// Adds a function that replies as often as it likes ([`Context::preturn`]) and returns nothing (Quatrain). Whoever makes a plain call gets all
    /// replies as one list, when the last has come.
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

    /// The same, with parameters as they are, whatever is in them.
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

    /// Adds a function that answers with a stream: each of its items is a reply, as it comes.
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

    /// Adds a function that answers with an iterator, on a thread of its own from a bounded pool ([`Service::threads`]): each item is a reply, as it comes.
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

    /// So many of its calls are done at one time, and so many more may wait for their turn; a call beyond is refused as `Overloaded` (Quatrain, section
    /// 3.4). Without this the node's own bound holds.
    #[must_use]
    pub fn at_once(mut self, at_once_max: usize, waiting_max: usize) -> Self {
        self.admission = Some(Admission::new(at_once_max, waiting_max));
        self
    }

    /// Its blocking functions have so many threads at one time, and so many more calls may wait for one; a call beyond is refused as `Overloaded`.
    #[must_use]
    pub fn threads(mut self, at_once_max: usize, waiting_max: usize) -> Self {
        self.threads = Admission::new(at_once_max, waiting_max);
        self
    }

    /// Whether plain calls get its replies as a list.
    pub(crate) fn is_replying(&self, function: &str) -> bool {
        self.replying.contains(function)
    }

    /// Adds a function that answers with a chain (rpc-chains section 3.4): the chain that called becomes that one, and
    /// goes on with its result wherever it ends. Neither knows of the other.
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
                    let (shell, step) = (Arc::clone(&context.shell), context.step.clone());
                    let running = function(context, params);
                    Box::pin(async move {
                        let sub = running.await.map_err(|why| *why.0)?;
                        if let (Some(step), Some(listener)) = (step, sub.listener) {
                            shell.listen(step, listener);
                        }
                        Ok(Answer::Chain(sub.chain))
                    })
                }
            }
        };
        self.chains.insert(name.to_owned());
        self.with(name, Arc::new(handler))
    }

    /// Declares that a function may be done again when it is unknown whether it was done: doing it twice is as good as once
    /// (rpc-chains section 3.9). Chains then go on at another instance when the one that they called is lost.
    #[must_use]
    pub fn repeatable(mut self, name: &str) -> Self {
        self.repeatable.insert(name.to_owned());
        self
    }

    /// Keeps what a function did for each step of a chain in the node's step store ([`crate::NodeBuilder::step_store`]), where it survives a crash: before
    /// it runs an intent is on the disk, after it its result (rpc-chains section 3.9). A step that comes again, also after a restart, is answered with that
    /// result; if the node was lost in between, with an exception that says that the outcome is unknown. It never runs twice. So chains that lost the
    /// node ask it again after a restart, by its name; another instance of the service, which has not got its store, they do not ask.
    ///
    /// It costs two waits for the disk. Plain calls have no step, and run each time. A function that answers with a chain has no effect of its own: it
    /// is repeatable, nothing more.
    #[must_use]
    pub fn durable(mut self, name: &str) -> Self {
        self.durable.insert(name.to_owned());
        self
    }

    /// Adds a function that takes and gives payloads as they are, whatever is in them.
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

    /// Adds a function that takes and gives payloads as they are, and may have nothing to add to what it has replied.
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

    /// What a mistake in writing it down would have left unsaid.
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

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// What it says of them to others.
    pub(crate) fn kinds(&self) -> Kinds {
        // A chain has no effect of its own: it may begin again anywhere.
        let harmless = self.durable.intersection(&self.chains);
        Kinds {
            repeatable: self.repeatable.union(&harmless.cloned().collect()).cloned().collect(),
            durable: self.durable_functions().map(str::to_owned).collect(),
            chaining: self.chains.iter().cloned().collect(),
        }
    }

    /// Those whose steps are kept.
    pub(crate) fn durable_functions(&self) -> impl Iterator<Item = &str> {
        self.durable.iter().filter(|name| !self.chains.contains(*name)).map(String::as_str)
    }

    pub(crate) fn call(&self, function: &str, context: Context, params: Value) -> Option<Running> {
        let handler = self.functions.get(function)?;
        let Some(admission) = self.admission.clone() else { return Some(handler(context, params)) };
        let (handler, service) = (Arc::clone(handler), self.name.clone());
        Some(Box::pin(async move {
            let _turn = admission.enter(&service, &context.node).await?;
            handler(context, params).await
        }))
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("name", &self.name).field("functions", &self.functions.keys()).finish()
    }
}

/// Runs code that may block where it may: on a thread of its own, when there is one for it.
async fn on_thread<R: Send + 'static>(
    service: String,
    context: Context,
    work: impl FnOnce(Context) -> Result<R, ServiceError> + Send + 'static,
) -> Result<R, ServiceError> {
    let turn = match context.shell.service(&service) {
        Some(known) => Some(known.threads.clone().enter(&service, &context.node).await?),
        None => None,
    };
    let done = tokio::task::spawn_blocking(move || {
        // Also if nobody waits for the result any more, the thread is taken for as long as it is.
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

/// A chain that a service function answers with.
pub struct SubChain {
    chain: catena_core::SubChain,
    listener: Option<Listener>,
}

impl SubChain {
    /// A chain of this function, which the node must have taken in ([`Context::client`], [`Client::javascript`]).
    ///
    /// # Errors
    /// The input cannot be encoded.
    pub fn new<T: Serialize + ?Sized>(code: &Code, input: &T) -> Result<Self, ServiceError> {
        let input = to_value(input).map_err(|why| ServiceError(Box::new(why)))?;
        let chain =
            catena_core::SubChain { number: random::bits128(), code: code.hash(), input, catch: None, hears: false };
        Ok(Self { chain, listener: None })
    }

    /// Has the sub-chain's uncaught exceptions brought to a function of the same service, which answers in its place
    /// (rpc-chains section 3.8). Its parameter is the exception.
    #[must_use]
    pub fn catch(mut self, function: &str) -> Self {
        self.chain.catch = Some(function.to_owned());
        self
    }

    /// Has the sub-chain's intermediate answers brought here, in order and once. Without it they go nowhere. It must not
    /// block: the node waits for it.
    #[must_use]
    pub fn hear(mut self, listener: impl Fn(Value) + Send + Sync + 'static) -> Self {
        self.chain.hears = true;
        self.listener = Some(Arc::new(listener));
        self
    }
}

/// A result that cannot be sent. Its function has run, so this is the service's to answer for.
fn unencodable(why: Exception) -> Exception {
    Exception { fault: Fault::Service, ..why }
}

/// How a service function fails: an [`Exception`] of its own name, or any error, which becomes `ServiceFailed`.
#[derive(Debug)]
pub struct ServiceError(Box<Exception>);

impl ServiceError {
    /// A failure that callers can tell by its name, such as `NFS3ERR_NOENT`.
    #[must_use]
    pub fn named(name: &str, message: impl Into<String>) -> Self {
        Self(Box::new(Exception::new(name, Fault::Service, message)))
    }

    /// This exception as it is, of a service that stands for another.
    #[must_use]
    pub fn as_it_is(why: Exception) -> Self {
        Self(Box::new(why))
    }

    /// The same failure, with parameters for programs.
    #[must_use]
    pub fn with_params<T: Serialize>(self, params: &T) -> Self {
        match to_value(params) {
            Ok(params) => Self(Box::new(self.0.with_params(params))),
            Err(_) => self,
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for ServiceError {
    /// An exception stays what it is, with its name and whether its outcome is unknown: a service that calls another passes it on. From then on it is
    /// that service's: that the other call was not made says nothing of what the service did.
    fn from(error: E) -> Self {
        let any: &(dyn std::error::Error + 'static) = &error;
        if let Some(exception) = any.downcast_ref::<Exception>() {
            let (why, of_a_call) = (exception.clone(), exception.target.is_some() || !exception.path.is_empty());
            let why = if of_a_call { Exception { fault: Fault::Service, target: None, ..why } } else { why };
            return Self(Box::new(why));
        }
        // The whole chain of causes: the outermost alone often says little.
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self(Box::new(Exception::new(names::SERVICE_FAILED, Fault::Service, message)))
    }
}
