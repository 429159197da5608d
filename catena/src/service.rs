//! Services: named groups of async functions over serde types.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc};

use catena_wire::{Exception, Fault, Value, names};
use serde::{Serialize, de::DeserializeOwned};

use crate::value::{from_value, to_value};

/// What a function may know of its call, besides its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// Microseconds that the caller will wait.
    pub time_left_us: u64,
    /// The node on which it runs.
    pub node: Arc<str>,
    /// That node's site.
    pub site: Option<Arc<str>>,
}

type Running = Pin<Box<dyn Future<Output = Result<Value, Exception>> + Send>>;
type Handler = Arc<dyn Fn(Context, Value) -> Running + Send + Sync>;

/// A service: its name, and its functions.
#[derive(Clone)]
pub struct Service {
    name: String,
    functions: BTreeMap<String, Handler>,
}

impl Service {
    /// A service without functions. Dots part its name (`files.mtv`); a slash parts it from a function (`files.mtv/read`).
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), functions: BTreeMap::new() }
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
    pub fn function_in<P, R, F, Fut>(mut self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned,
        R: Serialize,
        F: Fn(Context, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ServiceError>> + Send + 'static,
    {
        let handler = move |context: Context, params: Value| -> Running {
            match from_value(&params) {
                Err(why) => Box::pin(std::future::ready(Err(why))),
                Ok(params) => {
                    let running = function(context, params);
                    Box::pin(async move { running.await.map_err(|why| why.0).and_then(|result| to_value(&result)) })
                }
            }
        };
        self.functions.insert(name.to_owned(), Arc::new(handler));
        self
    }

    /// Adds a function that takes and gives payloads as they are, whatever is in them.
    #[must_use]
    pub fn function_raw<F, Fut>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(Context, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, ServiceError>> + Send + 'static,
    {
        let handler = move |context: Context, params: Value| -> Running {
            let running = function(context, params);
            Box::pin(async move { running.await.map_err(|why| why.0) })
        };
        self.functions.insert(name.to_owned(), Arc::new(handler));
        self
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

    pub(crate) fn call(&self, function: &str, context: Context, params: Value) -> Option<Running> {
        Some(self.functions.get(function)?(context, params))
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("name", &self.name).field("functions", &self.functions.keys()).finish()
    }
}

/// How a service function fails: an [`Exception`] of its own name, or any error, which becomes `ServiceFailed`.
#[derive(Debug)]
pub struct ServiceError(Exception);

impl ServiceError {
    /// A failure that callers can tell by its name, such as `NFS3ERR_NOENT`.
    #[must_use]
    pub fn named(name: &str, message: impl Into<String>) -> Self {
        Self(Exception::new(name, Fault::Service, message))
    }

    /// The same failure, with parameters for programs.
    #[must_use]
    pub fn with_params<T: Serialize>(self, params: &T) -> Self {
        match to_value(params) {
            Ok(params) => Self(self.0.with_params(params)),
            Err(_) => self,
        }
    }
}

impl<E: std::error::Error> From<E> for ServiceError {
    fn from(error: E) -> Self {
        // The whole chain of causes: the outermost alone often says little.
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self(Exception::new(names::SERVICE_FAILED, Fault::Service, message))
    }
}
