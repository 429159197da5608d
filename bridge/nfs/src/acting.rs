//! The bridge as a service: each call acts under the identity that the node's owner grants to its caller.

use async_trait::async_trait;
use catena::{Context, Exception, Fault, ServiceError, Value, from_value, to_value};
use catena_bridge::{Acting, Bridge, Caller, Function, Identity};
use catena_files::{FUNCTIONS, FileError, Form, LIST, Listing, Status};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Credentials, NfsBridge};

/// An export of an NFSv3 server as a service of a node. Make a service of it with [`catena_bridge::service_of`].
#[derive(Debug)]
pub struct NfsService {
    name: String,
    bridge: NfsBridge,
    identity: Identity,
}

impl NfsService {
    /// The service `name` over an export; `identity` says under which identity calls act there. The node's own credentials are those of the bridge.
    #[must_use]
    pub fn new(name: &str, bridge: NfsBridge, identity: Identity) -> Self {
        Self { name: name.to_owned(), bridge, identity }
    }

    /// The export as this caller sees it.
    fn acting(&self, acting: &Acting) -> Result<NfsBridge, ServiceError> {
        let Acting::Caller(user) = acting else { return Ok(self.bridge.clone()) };
        let machine = self.bridge.machine().to_owned();
        let credentials = Credentials { uid: user.uid, gid: user.gid, gids: user.groups.clone(), machine };
        let bridge = self.bridge.with_credentials(credentials);
        bridge.map_err(|why| ServiceError::named("CredentialsRefused", format!("{user}: {why}")))
    }
}

#[async_trait]
impl Bridge for NfsService {
    fn name(&self) -> &str {
        &self.name
    }

    fn functions(&self) -> Vec<Function> {
        let named = |one: &catena_files::Function| match one.repeatable {
            true => Function::repeatable(one.name),
            false => Function::once(one.name),
        };
        FUNCTIONS.iter().map(named).chain([Function::replying(LIST)]).collect()
    }

    async fn call(&self, caller: &Caller, function: &str, params: Value) -> Result<Value, ServiceError> {
        let acting = self.identity.of(caller)?;
        let files = self.acting(&acting)?;
        catena_files::call(&files, function, &params, &Answers { acting }).await
    }

    async fn replies(
        &self,
        caller: &Caller,
        _function: &str,
        params: Value,
        context: &Context,
    ) -> Result<(), ServiceError> {
        let acting = self.identity.of(caller)?;
        let files = self.acting(&acting)?;
        let mut listing = Listing::new(&files, from_value(&params)?);
        while let Some(names) = listing.next().await.map_err(|why| named(&why, &acting))? {
            for name in names {
                context.preturn(&name).await?;
            }
        }
        Ok(())
    }
}

/// The file service's values as Catena's payloads; a refusal says whose credentials were refused.
struct Answers {
    acting: Acting,
}

impl Form for Answers {
    type Value = Value;
    type Error = ServiceError;

    fn params<P: DeserializeOwned>(&self, value: &Value) -> Result<P, ServiceError> {
        Ok(from_value(value)?)
    }

    fn result<R: Serialize>(&self, result: Result<R, FileError>) -> Result<Value, ServiceError> {
        Ok(to_value(&result.map_err(|why| named(&why, &self.acting))?)?)
    }
}

/// The server's status, and whether the outcome is unknown; for a refusal of access, also who was refused.
fn named(why: &FileError, acting: &Acting) -> ServiceError {
    match why.status() {
        Some(Status::Acces | Status::Perm) => {
            ServiceError::named(why.name(), format!("{}; refused were {acting}", why.message()))
        }
        _ => {
            let told = Exception::new(why.name(), Fault::Service, why.message());
            let unknown = matches!(why, FileError::OutcomeUnknown { .. });
            ServiceError::from(if unknown { told.outcome_unknown() } else { told })
        }
    }
}
