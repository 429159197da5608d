//! What each site offers: the numbers of a community, from everywhere or from here alone.

use std::sync::Arc;

use catena::{Context, Exception, Fault, Service};
use futures_util::{StreamExt, TryStreamExt, future::join_all};
use serde::{Deserialize, Serialize};

use crate::{
    database::{Database, DatabaseError, Phone},
    sites::SITES,
};

/// Which community is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Its number.
    pub community: u32,
}

/// What the baseline gives: all numbers at once, and which sites' numbers are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// From all sites that answered.
    pub phones: Vec<Phone>,
    /// Why others did not.
    pub missing: Vec<Missing>,
}

/// Why a site's numbers are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The exception's name.
    pub name: String,
    /// Which site, why, and what to do there.
    pub message: String,
}

impl From<Exception> for Missing {
    fn from(why: Exception) -> Self {
        Self { name: why.name, message: why.message }
    }
}

/// The name of a site's service.
#[must_use]
pub fn name(site: usize) -> String {
    format!("corsair.{}", SITES.get(site).map_or("nowhere", |site| site.id))
}

/// A site's service over its database.
#[must_use]
pub fn service(site: usize, database: Arc<dyn Database>) -> Service {
    let [here, everywhere, gathered] = [(); 3].map(|()| Arc::clone(&database));
    Service::new(name(site))
        .replies("here", move |context: Context, ask: Ask| {
            let database = Arc::clone(&here);
            async move { Ok(reply_here(site, &*database, &context, ask).await?) }
        })
        .replies("phones", move |context: Context, ask: Ask| {
            let database = Arc::clone(&everywhere);
            async move { Ok(reply(site, &*database, &context, ask).await?) }
        })
        .function_in("gather", move |context: Context, ask: Ask| {
            let database = Arc::clone(&gathered);
            async move { Ok(gather(site, &*database, &context, ask).await?) }
        })
}

/// Has the other sites reply to the caller directly, and replies with this site's numbers meanwhile. The caller's set ends when all have finished.
async fn reply(site: usize, database: &dyn Database, context: &Context, ask: Ask) -> Result<(), Exception> {
    for other in others(site, database, ask).await? {
        context.delegate(&format!("{}/here", name(other)), &ask)?;
    }
    reply_here(site, database, context, ask).await
}

/// Replies with each number as the database finds it: numbers found before a failure have already been delivered.
async fn reply_here(site: usize, database: &dyn Database, context: &Context, ask: Ask) -> Result<(), Exception> {
    let mut phones = database.phones(ask.community);
    while let Some(phone) = phones.next().await {
        context.preturn(&phone.map_err(|why| failed(site, &why))?).await?;
    }
    Ok(())
}

/// The baseline: asks all sites in parallel, this one's database included, and returns when the last has answered.
async fn gather(site: usize, database: &dyn Database, context: &Context, ask: Ask) -> Result<Gathered, Exception> {
    let client = &context.client();
    let others = others(site, database, ask).await?;
    let there =
        others.into_iter().map(|other| async move { client.call::<_, Vec<Phone>>(&name(other), "here", &ask).await });
    let here = async { database.phones(ask.community).try_collect::<Vec<_>>().await.map_err(|why| failed(site, &why)) };
    let (here, there) = tokio::join!(here, join_all(there));
    let mut gathered = Gathered::default();
    for answer in std::iter::once(here).chain(there) {
        match answer {
            Ok(phones) => gathered.phones.extend(phones),
            Err(why) => gathered.missing.push(why.into()),
        }
    }
    Ok(gathered)
}

/// The sites beside this one where the community has members.
async fn others(site: usize, database: &dyn Database, ask: Ask) -> Result<Vec<usize>, Exception> {
    let sites = database.sites_of(ask.community).await.map_err(|why| failed(site, &why))?;
    if sites.is_empty() {
        let message = format!("there is no community {} at any site", ask.community);
        return Err(Exception::new("NoCommunity", Fault::Caller, message));
    }
    Ok(sites.into_iter().filter_map(|other| usize::try_from(other).ok()).filter(|other| *other != site).collect())
}

/// What a caller is told when a site's database fails: which site, and what to do there.
fn failed(site: usize, why: &DatabaseError) -> Exception {
    let at = SITES.get(site).map_or("nowhere", |site| site.place);
    Exception::new(why.name(), Fault::Service, format!("{at}: {why}"))
}
