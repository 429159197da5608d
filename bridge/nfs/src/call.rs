//! One call of one NFS procedure: a connection, the time it may take, and what a lost connection means.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use catena_files::{FileError, Status};
use nfs3_client::RpcError;
use nfs3_client::nfs3_types::nfs3::{NFS_PROGRAM, Nfs3Result, PROGRAM, VERSION};
use nfs3_client::nfs3_types::rpc::opaque_auth;
use nfs3_client::nfs3_types::xdr_codec::{Pack, Unpack};
use nfs3_client::rpc::RpcClient;
use tokio::time::Instant;

use crate::config::{Credentials, NfsConfig};
use crate::pool::Pool;
use crate::stream::Lent;

/// The pause before the first repeat; each further one is four times as long.
const RETRY_PAUSE_MS: u64 = 50;
/// The part of a call's time after which it is asked once more beside the first, if it may be repeated and nothing came.
const ASK_AGAIN_PART: u32 = 4;

/// Makes calls to one server as one user.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) pool: Arc<Pool>,
    credentials: Credentials,
    authority: opaque_auth<'static>,
    timeout: Duration,
    retries_max: u32,
}

/// Which procedure, and what it is about in words.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) procedure: NFS_PROGRAM,
    /// The function and the path or handle, for messages.
    pub(crate) what: String,
    /// Whether the call is idempotent, so that it may be sent again when the answer was lost.
    pub(crate) repeatable: bool,
}

/// Why an attempt brought no answer.
enum Lost {
    /// It was never sent.
    Before(String),
    /// It was sent; the server may have done it.
    After(String),
    /// It was answered, but not with a result: repeating it would bring the same.
    Refused(RpcError),
}

impl Caller {
    pub(crate) fn new(pool: Arc<Pool>, config: &NfsConfig) -> Self {
        Self {
            pool,
            authority: config.credentials.to_wire(),
            credentials: config.credentials.clone(),
            timeout: Duration::from_millis(config.call_timeout_ms),
            retries_max: config.retries_max,
        }
    }

    /// The same connections, another user.
    pub(crate) fn acting_as(&self, credentials: Credentials) -> Self {
        Self { authority: credentials.to_wire(), credentials, ..self.clone() }
    }

    pub(crate) fn machine(&self) -> &str {
        &self.credentials.machine
    }

    /// Calls; what may be repeated is repeated within the bounds.
    pub(crate) async fn call<A, T, E>(&self, call: &Call, args: &A) -> Result<T, FileError>
    where
        A: Pack + Send + Sync,
        T: Unpack + Send,
        E: Unpack + Send,
    {
        let deadline = Instant::now() + self.timeout;
        let mut pause = Duration::from_millis(RETRY_PAUSE_MS);
        let mut attempt = 0;
        loop {
            let lost = match self.answer::<A, Nfs3Result<T, E>>(call, args, deadline).await? {
                Ok(Nfs3Result::Ok(done)) => return Ok(done),
                Ok(Nfs3Result::Err((code, _))) => {
                    let status = Status::from_number(code as u32).unwrap_or(Status::ServerFault);
                    return Err(FileError::nfs(status, self.about(call)));
                }
                Err(Lost::Refused(error)) => return Err(self.refused(call, &error)),
                Err(lost) => lost,
            };
            let (what, server) = (self.about(call), self.pool.server());
            let cause = match lost {
                Lost::After(cause) if !call.repeatable => {
                    return Err(FileError::OutcomeUnknown { what, server, cause });
                }
                Lost::After(cause) | Lost::Before(cause) => cause,
                Lost::Refused(error) => error.to_string(),
            };
            if attempt >= self.retries_max || Instant::now() + pause >= deadline {
                return Err(FileError::Unreachable { what, server, cause });
            }
            tracing::debug!(what, server, cause, attempt, "trying again");
            tokio::time::sleep(pause).await;
            (attempt, pause) = (attempt + 1, pause * 4);
        }
    }

    /// One attempt, and a second one beside it if the first brings nothing in its part of the time and the call may be repeated:
    /// a server may drop a call and keep the connection. nfs-ganesha does so after errors that it holds to be temporary, such as
    /// ENOMEM, which Linux gives for a stale handle while its inode is being used for a new file.
    async fn answer<A, R>(&self, call: &Call, args: &A, deadline: Instant) -> Result<Result<R, Lost>, FileError>
    where
        A: Pack + Send + Sync,
        R: Unpack + Send,
    {
        let mut first = pin!(self.attempt(call, args, deadline));
        if !call.repeatable {
            return first.await;
        }
        if let Ok(answer) = tokio::time::timeout(self.timeout / ASK_AGAIN_PART, &mut first).await {
            return answer;
        }
        tracing::debug!(what = call.what, "no answer yet: asking again beside it");
        tokio::select! {
            answer = &mut first => return answer,
            second = self.attempt(call, args, deadline) => {
                if matches!(second, Ok(Ok(_) | Err(Lost::Refused(_)))) {
                    return second;
                }
            }
        }
        first.await
    }

    /// One attempt on one connection. The outer error means that too many calls wait.
    async fn attempt<A, R>(&self, call: &Call, args: &A, deadline: Instant) -> Result<Result<R, Lost>, FileError>
    where
        A: Pack + Send + Sync,
        R: Unpack + Send,
    {
        let timeout_ms = self.timeout.as_millis();
        let Ok(pass) = tokio::time::timeout_at(deadline, self.pool.gate.enter(&call.what)).await else {
            return Ok(Err(Lost::Before(format!("every connection was busy for {timeout_ms} ms"))));
        };
        let _pass = pass?;
        let mut stream = match tokio::time::timeout_at(deadline, self.pool.take()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Ok(Err(Lost::Before(error.to_string()))),
            Err(_) => return Ok(Err(Lost::Before(format!("no connection within {timeout_ms} ms")))),
        };
        let authority = self.authority.clone();
        let mut client = RpcClient::new_with_auth(Lent(&mut stream), authority, opaque_auth::default());
        let answer = client.call::<A, R>(PROGRAM, VERSION, call.procedure as u32, args);
        Ok(match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(result)) => {
                self.pool.give_back(stream);
                Ok(result)
            }
            Ok(Err(RpcError::Io(error))) => Err(Lost::After(error.to_string())),
            Ok(Err(error)) => Err(match answered(&error) {
                true => Lost::Refused(error),
                false => Lost::After(format!("its answer makes no sense: {error}")),
            }),
            Err(_) => Err(Lost::After(format!("no answer within {timeout_ms} ms"))),
        })
    }

    fn about(&self, call: &Call) -> String {
        format!("{} at {}", call.what, self.pool.server())
    }

    /// The server understood the message and did not do it.
    fn refused(&self, call: &Call, error: &RpcError) -> FileError {
        let (status, why) = match error {
            RpcError::Auth(why) => {
                let Credentials { uid, gid, .. } = &self.credentials;
                (Status::Acces, format!("the server does not take the credentials uid {uid}, gid {gid}: {why}"))
            }
            RpcError::SystemErr | RpcError::GarbageArgs => (Status::ServerFault, error.to_string()),
            _ => (Status::NotSupp, error.to_string()),
        };
        FileError::nfs(status, format!("{} ({why})", self.about(call)))
    }
}

/// Whether an error is the server's proper answer that it did nothing.
fn answered(error: &RpcError) -> bool {
    matches!(
        error,
        RpcError::Auth(_)
            | RpcError::RpcMismatch { .. }
            | RpcError::ProgUnavail
            | RpcError::ProgMismatch { .. }
            | RpcError::ProcUnavail
            | RpcError::GarbageArgs
            | RpcError::SystemErr
    )
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
