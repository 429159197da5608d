//! A file service as a service of a node: each function by its NFSv3 name.

use std::sync::Arc;

use catena::{Context, Exception, Fault, Service, ServiceError, Value, from_value, to_value};
use catena_files::{FUNCTIONS, FileError, FileService, Form, LIST, Listing, ReaddirParams};
use serde::{Serialize, de::DeserializeOwned};

use crate::offers;

/// Registers every function of `files` under the service name given (`files.mtv`), whoever calls, and those by which its bytes go by reference
/// ([`crate::offers`]). Those that change nothing may be done again. `list` replies with each name in a directory as it comes, however large that is.
#[must_use]
pub fn service(name: &str, files: Arc<dyn FileService>) -> Service {
    let listed = Arc::clone(&files);
    let service = offers::with_offers(Service::new(name), &files);
    let service = FUNCTIONS.iter().fold(service, |service, function| {
        let files = Arc::clone(&files);
        let service = service.function_raw(function.name, move |_, params| {
            let files = Arc::clone(&files);
            async move { catena_files::call(&*files, function.name, &params, &Payloads).await }
        });
        if function.repeatable { service.repeatable(function.name) } else { service }
    });
    service.replies(LIST, move |context, params| list(Arc::clone(&listed), context, params))
}

async fn list(files: Arc<dyn FileService>, context: Context, params: ReaddirParams) -> Result<(), ServiceError> {
    let mut listing = Listing::new(&*files, params);
    while let Some(names) = listing.next().await.map_err(told)? {
        for name in names {
            context.preturn(&name).await?;
        }
    }
    Ok(())
}

/// The file service's values as Catena's payloads.
struct Payloads;

impl Form for Payloads {
    type Value = Value;
    type Error = ServiceError;

    fn params<P: DeserializeOwned>(&self, value: &Value) -> Result<P, ServiceError> {
        Ok(from_value(value)?)
    }

    fn result<R: Serialize>(&self, result: Result<R, FileError>) -> Result<Value, ServiceError> {
        Ok(to_value(&result.map_err(told)?)?)
    }
}

/// The error that a caller gets: under its own name, and whether the outcome is unknown.
pub(crate) fn told(why: FileError) -> ServiceError {
    let told = Exception::new(why.name(), Fault::Service, why.message());
    let unknown = matches!(why, FileError::OutcomeUnknown { .. });
    ServiceError::from(if unknown { told.outcome_unknown() } else { told })
}
