//! The bridge as a service: each call acts as whom the node's owner lets its caller act.

use async_trait::async_trait;
use catena::{ServiceError, Value, from_value, to_value};
use catena_bridge::{Acting, Bridge, Caller, Function, Identity};
use catena_files::{
    CommitParams, CreateParams, FileError, FileService, GetattrParams, LookupParams, MkdirParams, ReadParams,
    ReaddirParams, RemoveParams, RenameParams, RootParams, Status, WriteParams,
};

use crate::{Credentials, NfsBridge};

/// Functions that change nothing, so that doing them twice is as good as once.
const REPEATABLE: [&str; 6] = ["root", "lookup", "getattr", "read", "readdir", "commit"];

/// An export of an NFSv3 server as a service of a node. Make a service of it with [`catena_bridge::service_of`].
#[derive(Debug)]
pub struct NfsService {
    name: String,
    bridge: NfsBridge,
    identity: Identity,
}

impl NfsService {
    /// The service `name` over an export; `identity` says as whom it acts there. The node's own credentials are those of the bridge.
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
        let function = |name: &&str| Function { name: (*name).to_owned(), repeatable: REPEATABLE.contains(name) };
        catena_files::functions().iter().map(function).collect()
    }

    async fn call(&self, caller: &Caller, function: &str, params: Value) -> Result<Value, ServiceError> {
        let acting = self.identity.of(caller)?;
        let files = self.acting(&acting)?;
        macro_rules! pass {
            ($($name:ident: $params:ty),* $(,)?) => {
                match function {
                    $(stringify!($name) => {
                        let params: $params = from_value(&params)?;
                        Ok(to_value(&files.$name(params).await.map_err(|why| named(&why, &acting))?)?)
                    })*
                    _ => Err(ServiceError::named(catena::exceptions::UNKNOWN_FUNCTION, format!("no function {function}"))),
                }
            };
        }
        pass!(
            root: RootParams,
            lookup: LookupParams,
            getattr: GetattrParams,
            read: ReadParams,
            write: WriteParams,
            create: CreateParams,
            commit: CommitParams,
            remove: RemoveParams,
            readdir: ReaddirParams,
            mkdir: MkdirParams,
            rename: RenameParams,
        )
    }
}

/// The server's word; where it refuses somebody, with who that was.
fn named(why: &FileError, acting: &Acting) -> ServiceError {
    match why.status() {
        Some(Status::Acces | Status::Perm) => ServiceError::named(why.name(), format!("{why}; refused were {acting}")),
        _ => ServiceError::named(why.name(), why.to_string()),
    }
}
