//! The front service: asks all engines for one keyword, in either mode; and tells the page what there is.

use catena::{Service, ServiceError};
use futures_util::future::try_join_all;

use serde::{Serialize, de::IgnoredAny};

use crate::{
    ENGINES,
    engine::{Engine, Found, Query},
    keywords::KEYWORDS,
};

/// As it is called.
pub const FRONT: &str = "glickr";

/// What there is to be asked, and for what.
#[derive(Serialize)]
struct About {
    engines: [Engine; ENGINES.len()],
    keywords: Vec<&'static str>,
}

/// The service.
///
/// `search`, multi-return: each engine answers the caller directly, when it has something, and the caller knows when all have. `standard`, the baseline of the
/// paper: the engines are asked in parallel, and what they found is one answer when the last of them has answered.
#[must_use]
pub fn service() -> Service {
    let service = Service::new(FRONT)
        .replies("search", async |context, query: Query| {
            query.check()?;
            for engine in ENGINES {
                context.delegate(&format!("{}/search", engine.service_name()), &query)?;
            }
            Ok(())
        })
        .function("about", async |_: IgnoredAny| Ok(About { engines: ENGINES, keywords: KEYWORDS.to_vec() }))
        .function_in("standard", async |context, query: Query| {
            query.check()?;
            let client = context.client();
            let asked = ENGINES.map(|engine| {
                let (client, query) = (client.clone(), query.clone());
                async move { client.call::<_, Found>(&engine.service_name(), "search", &query).await }
            });
            Ok::<Vec<Found>, ServiceError>(try_join_all(asked).await?)
        });
    ["about", "search", "standard"].into_iter().fold(service, Service::repeatable)
}
