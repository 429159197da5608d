//! The interface that every file service implements: the one list of its functions.

use async_trait::async_trait;
use serde::{Serialize, de::DeserializeOwned};

use crate::error::FileError;
use crate::status::Status;
use crate::types::{
    Attributes, CommitParams, CommitResult, CreateParams, Done, Entry, GetattrParams, LookupParams, MkdirParams,
    ReadParams, ReadResult, ReaddirParams, ReaddirResult, RemoveParams, RenameParams, RootParams, WriteParams,
    WriteResult,
};

/// A function of [`FileService`], as chains call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name: that of the method.
    pub name: &'static str,
    /// Whether doing it twice is as good as once.
    pub repeatable: bool,
}

/// How parameters and results are encoded between a file service and its callers: this crate does not know about payloads.
pub trait Form: Sync {
    /// A payload.
    type Value: Sync;
    /// What a caller is told when there is no result.
    type Error;

    /// The parameters in a payload.
    ///
    /// # Errors
    /// They are not what the function takes.
    fn params<P: DeserializeOwned>(&self, value: &Self::Value) -> Result<P, Self::Error>;

    /// The result of the call, as a payload.
    ///
    /// # Errors
    /// The service's own, in the caller's form.
    fn result<R: Serialize>(&self, result: Result<R, FileError>) -> Result<Self::Value, Self::Error>;
}

/// The list of a file service's functions, passed to a macro of the caller's. For each function: its documentation, a keyword, its name, its parameters and its
/// result. The keyword is `reads` for what changes nothing, `again` for what changes something and may be repeated, `once` for what must not be.
#[macro_export]
macro_rules! each_function {
    ($macro:ident) => {
        $macro! {
            /// The root directory.
            reads root(RootParams) -> Entry;
            /// Finds a name or path (LOOKUP).
            reads lookup(LookupParams) -> Entry;
            /// Reads attributes (GETATTR).
            reads getattr(GetattrParams) -> Attributes;
            /// Reads bytes of a file (READ).
            reads read(ReadParams) -> ReadResult;
            /// Writes bytes to a file (WRITE).
            once write(WriteParams) -> WriteResult;
            /// Makes a file, or opens the one that is there (CREATE).
            once create(CreateParams) -> Entry;
            /// Puts what was written on stable storage (COMMIT).
            again commit(CommitParams) -> CommitResult;
            /// Removes a file (REMOVE).
            once remove(RemoveParams) -> Done;
            /// Lists names in a directory (READDIR).
            reads readdir(ReaddirParams) -> ReaddirResult;
            /// Makes a directory (MKDIR).
            once mkdir(MkdirParams) -> Entry;
            /// Renames a file or directory (RENAME).
            once rename(RenameParams) -> Done;
        }
    };
}

/// Defines [`FileService`], [`FUNCTIONS`] and [`call`].
macro_rules! functions {
    ($($(#[doc = $doc:literal])* $kind:ident $name:ident($params:ty) -> $result:ty;)*) => {
        /// NFSv3's procedures (RFC 1813, section 3.3) as functions: one params value in, one result value out. Links are never
        /// followed, so what is outside the service's directory or export cannot be named.
        ///
        /// Every call is bounded (see [`limits`](crate::limits)) and may be dropped at any time; a dropped call that changes
        /// something may still take effect.
        #[async_trait]
        pub trait FileService: Send + Sync + 'static {
            $($(#[doc = $doc])* async fn $name(&self, params: $params) -> Result<$result, FileError>;)*
        }

        /// Every function of [`FileService`].
        pub const FUNCTIONS: &[Function] =
            &[$(Function { name: stringify!($name), repeatable: functions!(@ $kind) }),*];

        /// Calls a function by its name.
        ///
        /// # Errors
        /// What `form` makes of bad parameters and of the service's refusal; `NFS3ERR_NOTSUPP` for a name that is not among [`FUNCTIONS`].
        pub async fn call<F: Form>(
            files: &dyn FileService,
            function: &str,
            params: &F::Value,
            form: &F,
        ) -> Result<F::Value, F::Error> {
            match function {
                $(stringify!($name) => form.result(files.$name(form.params(params)?).await),)*
                _ => form.result::<Done>(Err(FileError::nfs(Status::NotSupp, function))),
            }
        }
    };
    (@ reads) => { true };
    (@ again) => { true };
    (@ once) => { false };
}

each_function!(functions);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::Directory;
    use serde_json::{Value, json};

    struct Json;

    impl Form for Json {
        type Value = Value;
        type Error = String;

        fn params<P: DeserializeOwned>(&self, value: &Value) -> Result<P, String> {
            serde_json::from_value(value.clone()).map_err(|why| format!("params: {why}"))
        }

        fn result<R: Serialize>(&self, result: Result<R, FileError>) -> Result<Value, String> {
            serde_json::to_value(result.map_err(|why| why.name().to_owned())?).map_err(|why| why.to_string())
        }
    }

    #[tokio::test]
    async fn every_function_is_called_by_its_name_and_no_other_is() {
        let folder = tempfile::tempdir().unwrap();
        let files = Directory::open(folder.path()).unwrap();
        call(&files, "mkdir", &json!({ "path": "made" }), &Json).await.unwrap();
        assert!(folder.path().join("made").is_dir());
        // An error about the parameters or the directory shows that the function was reached.
        for function in FUNCTIONS {
            let answer = call(&files, function.name, &json!({ "path": "a" }), &Json).await;
            assert_ne!(answer, Err("NFS3ERR_NOTSUPP".to_owned()), "{}", function.name);
        }
        assert_eq!(call(&files, "chmod", &json!({}), &Json).await, Err("NFS3ERR_NOTSUPP".to_owned()));
    }
}
