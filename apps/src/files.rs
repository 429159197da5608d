//! A file service as a service of a node: each function by its NFSv3 name.

use std::sync::Arc;

use catena::{Service, ServiceError};
use catena_files::{FileError, FileService};

/// Registers every function of `files` under the service name given (`files.mtv`). Works alike for an embedded directory and for the NFS bridge.
#[must_use]
pub fn service(name: &str, files: Arc<dyn FileService>) -> Service {
    macro_rules! functions {
        ($service:expr, $($function:ident: $params:ident),* $(,)?) => {{
            let mut service = $service;
            $(
                let files_here = Arc::clone(&files);
                service = service.function(stringify!($function), move |params: catena_files::$params| {
                    let files = Arc::clone(&files_here);
                    async move { files.$function(params).await.map_err(named) }
                });
            )*
            service
        }};
    }
    functions!(
        Service::new(name),
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

fn named(why: FileError) -> ServiceError {
    ServiceError::named(why.name(), why.to_string())
}
