//! A local photo search engine, as a service: it knows one country, and takes its time.

use std::{future::Future, pin::Pin, sync::Arc};

use catena::{Service, ServiceError};
use serde::{Deserialize, Serialize};

use crate::photos::{Index, Photo};

/// Longest keyword, in bytes.
pub const KEYWORD_BYTES_MAX: usize = 64;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// As its service is named: `photos.fr`.
    pub id: &'static str,
    /// Its country, as people say.
    pub name: &'static str,
    /// Its country's code (ISO 3166-1).
    pub country: &'static str,
}

/// What a search is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// One of [`crate::keywords::KEYWORDS`]; there are no photos of others.
    pub keyword: String,
}

/// What an engine found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Which engine.
    pub engine: String,
    /// Its photos.
    pub photos: Vec<Photo>,
}

/// Waits as long as an engine takes for a keyword; chosen by whoever starts the engine.
pub type Wait = Arc<dyn Fn(Engine, &str) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl Engine {
    /// Its service's name.
    #[must_use]
    pub fn service_name(&self) -> String {
        format!("photos.{}", self.id)
    }

    /// The service, with one function: `search`.
    #[must_use]
    pub fn service(self, index: Index, wait: Wait) -> Service {
        let index = Arc::new(index);
        let service = Service::new(self.service_name()).function("search", move |query: Query| {
            let (index, waiting) = (Arc::clone(&index), wait(self, &query.keyword));
            async move {
                query.check()?;
                waiting.await;
                Ok(Found { engine: self.id.to_owned(), photos: index.search(&query.keyword).to_vec() })
            }
        });
        service.repeatable("search")
    }
}

impl Query {
    /// Whether it can be looked for at all.
    ///
    /// # Errors
    /// `BadKeyword`.
    pub fn check(&self) -> Result<(), ServiceError> {
        if self.keyword.trim().is_empty() || self.keyword.len() > KEYWORD_BYTES_MAX {
            let message = format!("a keyword has 1 to {KEYWORD_BYTES_MAX} bytes, such as \"tower\"");
            return Err(ServiceError::named("BadKeyword", message));
        }
        Ok(())
    }
}
