//! Primary-backup replication of a file service (rpc-chains section 4.1, Figure 5).
//!
//! The replicated service has the functions of a file service. Reads go to the primary, at the same node. A change is answered by a chain
//! (`functions/replicate.ts`): it is done at the primary, in place, then at the backup, and the caller's chain goes on from there. So a chain that copies to
//! the service is composed with that chain, without either knowing of the other.
//!
//! Whether the primary or backup is a directory or an NFS server makes no difference: both are called by their names, with the caller's credentials.
//!
//! What this is not: the two are not ordered. Changes to the *same* bytes that are under way together may be done in different orders at the two.

mod pair;

use std::{collections::BTreeMap, future::Future, sync::Arc};

use catena::{Code, Context, Exception, RunOptions, Service, ServiceError, SubChain, Value, from_value, to_value};
use catena_files::{
    CommitParams, CreateParams, Entry, FileError, GetattrParams, Handle, LookupParams, MkdirParams, ReadParams,
    ReaddirParams, RemoveParams, RenameParams, Status, WriteParams, each_function,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;
use tokio::sync::OnceCell;

use crate::files::told;
use pair::Pair;

/// As figures and tests name the file service that is copied from.
pub const SOURCE: &str = "files.source";
/// The replicated one that is copied to.
pub const REPLICATED: &str = "files";
/// What it does first, at its own node.
pub const PRIMARY: &str = "files.primary";
/// What it does then, elsewhere.
pub const BACKUP: &str = "files.backup";

/// The replicating chain's source.
pub const FUNCTION: &str = include_str!("../../functions/replicate.ts");

/// A file service that does every change at `primary`, a service of the same node, and then at `backup`, a service of any node.
///
/// Its functions fail as theirs do. If the backup does not follow, the exception has the backup's name in it, and says what the primary did.
#[must_use]
pub fn replicated(name: &str, primary: &str, backup: &str) -> Service {
    let two = Arc::new(Two { primary: primary.to_owned(), backup: backup.to_owned(), code: OnceCell::new() });
    let mut service = Service::new(name);
    macro_rules! offer {
        ($($(#[$doc:meta])* $kind:ident $function:ident($params:ty) -> $result:ty;)*) => { $(
            let here = Arc::clone(&two);
            service = offer!(@ $kind here, $function, $params);
        )* };
        (@ reads $here:ident, $function:ident, $params:ty) => {
            service.function_raw(stringify!($function), move |context, params| {
                let two = Arc::clone(&$here);
                async move { two.$function(&context, params).await }
            })
        };
        (@ $changes:ident $here:ident, $function:ident, $params:ty) => {
            service.chain(stringify!($function), move |context, params: $params| {
                let two = Arc::clone(&$here);
                async move { two.change(&context, stringify!($function), params).await }
            })
        };
    }
    each_function!(offer);
    service
}

/// The two services.
struct Two {
    primary: String,
    backup: String,
    code: OnceCell<Code>,
}

/// The input of `replicate.ts`.
#[derive(Serialize)]
struct Order<'a, P> {
    primary: &'a str,
    backup: &'a str,
    function: &'a str,
    params: P,
    at_backup: BTreeMap<&'static str, Handle>,
    path: ByteBuf,
}

impl Two {
    async fn root(&self, context: &Context, _params: Value) -> Result<Value, ServiceError> {
        let found: Entry = self.at_primary(context, "root", to_value(&())?).await?;
        entry(found, String::new())
    }

    async fn lookup(&self, context: &Context, params: Value) -> Result<Value, ServiceError> {
        let mut params: LookupParams = from_value(&params)?;
        let dir = unpack(&mut params.dir)?;
        let below = params.path.as_ref().or(params.name.as_ref()).cloned().unwrap_or_default();
        let path = dir.map_or(below.clone(), |dir| dir.below(&below));
        let found: Entry = self.at_primary(context, "lookup", to_value(&params)?).await?;
        entry(found, path)
    }

    async fn getattr(&self, context: &Context, params: Value) -> Result<Value, ServiceError> {
        self.read_by_handle(context, "getattr", params, |params: &mut GetattrParams| &mut params.handle).await
    }

    async fn read(&self, context: &Context, params: Value) -> Result<Value, ServiceError> {
        self.read_by_handle(context, "read", params, |params: &mut ReadParams| &mut params.handle).await
    }

    async fn readdir(&self, context: &Context, params: Value) -> Result<Value, ServiceError> {
        let mut params: ReaddirParams = from_value(&params)?;
        unpack(&mut params.dir)?;
        Ok(call(context, &self.primary, "readdir", to_value(&params)?).await?)
    }

    async fn read_by_handle<P: DeserializeOwned + Serialize>(
        &self,
        context: &Context,
        function: &str,
        params: Value,
        handle: impl Fn(&mut P) -> &mut Handle,
    ) -> Result<Value, ServiceError> {
        let mut params: P = from_value(&params)?;
        let place = handle(&mut params);
        *place = Pair::unpack(place).map_err(told)?.primary;
        Ok(call(context, &self.primary, function, to_value(&params)?).await?)
    }

    async fn at_primary<R: DeserializeOwned>(
        &self,
        context: &Context,
        function: &str,
        params: Value,
    ) -> Result<R, Exception> {
        from_value(&call(context, &self.primary, function, params).await?)
    }

    /// The chain that does a change at both.
    async fn change<P: Change + Serialize>(
        &self,
        context: &Context,
        function: &str,
        mut params: P,
    ) -> Result<SubChain, ServiceError> {
        let mut at_backup = BTreeMap::new();
        let mut path = params.made().unwrap_or_default();
        for (field, handle) in params.handles() {
            let pair = Pair::unpack(handle).map_err(told)?;
            if field == "dir" {
                path = pair.below(&path);
            }
            at_backup.insert(field, self.at_backup(context, &pair).await?);
            *handle = pair.primary;
        }
        let order = Order {
            primary: &self.primary,
            backup: &self.backup,
            function,
            params,
            at_backup,
            path: ByteBuf::from(path.into_bytes()),
        };
        let client = context.client();
        let code = self.code.get_or_try_init(|| crate::shipped(&client, "replicate.ts", FUNCTION)).await?;
        SubChain::new(code, &order)
    }

    /// The backup's handle. For what was only looked up it is asked for by its path, if that still leads to the same file at the primary.
    async fn at_backup(&self, context: &Context, pair: &Pair) -> Result<Handle, ServiceError> {
        if let Some(handle) = &pair.backup {
            return Ok(handle.clone());
        }
        let (function, params) = match pair.path.as_str() {
            "" => ("root", to_value(&())?),
            path => ("lookup", to_value(&LookupParams { path: Some(path.to_owned()), ..LookupParams::default() })?),
        };
        let now: Entry = self.at_primary(context, function, params.clone()).await?;
        if now.handle != pair.primary {
            let what = format!("{:?}, which is another file now than when it was looked up", pair.path);
            return Err(told(FileError::nfs(Status::Stale, what)));
        }
        let there = call(context, &self.backup, function, params).await.and_then(|found| from_value::<Entry>(&found));
        let nothing_done = |mut why: Exception| {
            why.message = format!("the backup {}: {}; nothing was done at {}", self.backup, why.message, self.primary);
            why
        };
        Ok(there.map_err(nothing_done)?.handle)
    }
}

/// Parameters of a change: the handles in them, and what it creates.
trait Change {
    /// Its handles, by the names of their fields.
    fn handles(&mut self) -> Vec<(&'static str, &mut Handle)>;
    /// The name or path, below its `dir`, of what it creates.
    fn made(&self) -> Option<String> {
        None
    }
}

macro_rules! change {
    ($params:ty, one $field:ident) => {
        impl Change for $params {
            fn handles(&mut self) -> Vec<(&'static str, &mut Handle)> {
                vec![(stringify!($field), &mut self.$field)]
            }
        }
    };
    ($params:ty, maybe $($field:ident)* $(, makes $made:expr)?) => {
        impl Change for $params {
            fn handles(&mut self) -> Vec<(&'static str, &mut Handle)> {
                let fields = [$((stringify!($field), &mut self.$field)),*];
                fields.into_iter().filter_map(|(name, handle)| Some((name, handle.as_mut()?))).collect()
            }
            $(fn made(&self) -> Option<String> {
                let made: fn(&Self) -> Option<String> = $made;
                made(self)
            })?
        }
    };
}

change!(WriteParams, one handle);
change!(CommitParams, one handle);
change!(CreateParams, maybe dir, makes |params| params.path.clone().or_else(|| params.name.clone()));
change!(MkdirParams, maybe dir, makes |params| params.path.clone().or_else(|| params.name.clone()));
change!(RemoveParams, maybe dir);
change!(RenameParams, maybe from_dir to_dir);

/// A call with the credentials of whoever called here.
fn call(
    context: &Context,
    service: &str,
    function: &str,
    params: Value,
) -> impl Future<Output = Result<Value, Exception>> + Send {
    let (client, service, function) = (context.client(), service.to_owned(), function.to_owned());
    let timeout = std::time::Duration::from_micros(context.time_left_us);
    let options = RunOptions { timeout, credentials: context.credentials.clone(), ..RunOptions::default() };
    async move { client.call_with(&service, &function, params, &options).await }
}

/// Replaces the pair by the primary's handle.
fn unpack(handle: &mut Option<Handle>) -> Result<Option<Pair>, ServiceError> {
    let Some(given) = handle else { return Ok(None) };
    let pair = Pair::unpack(given).map_err(told)?;
    *given = pair.primary.clone();
    Ok(Some(pair))
}

fn entry(found: Entry, path: String) -> Result<Value, ServiceError> {
    let pair = Pair { primary: found.handle, backup: None, path };
    Ok(to_value(&Entry { handle: pair.pack().map_err(told)?, ..found })?)
}
