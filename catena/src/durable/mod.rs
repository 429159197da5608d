//! Steps that outlive the node: a file of what durable functions have begun and done (rpc-chains section 3.9).
//!
//! Before the effect of a step an intent is on disk, and after it the result. So after a crash the same step is answered with its result or, if there is only
//! an intent, with an exception that says that the outcome is unknown: it never runs twice.

mod file;
mod record;

use std::{
    path::Path,
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
};

use catena_core::Answer;
use catena_wire::{Brought, Encoded, Exception, Fault, Hash, Message, PossibleDuplicate, StepKey, Value, names};
use tokio::sync::oneshot;

use catena_net::LogLimit;
use file::{Before, Failed, File, Write};

/// Limits of a step store. While it is full of steps that are not old yet, further durable calls are refused as `Overloaded`, since a step that is forgotten
/// could run twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepStoreLimits {
    /// The number of steps. Default: 1,000,000.
    pub entries_max: u64,
    /// The bytes of keys and results. Default: 1 GiB.
    pub bytes_max: u64,
    /// How long a step is kept, in milliseconds of the machine's clock. Default: an hour, which is six times as long as any chain may take.
    pub age_max_ms: u64,
    /// The bytes of one result. A larger one is returned but not kept, so the same step then ends as unknown. Default: 4 MiB.
    pub result_bytes_max: usize,
}

impl Default for StepStoreLimits {
    fn default() -> Self {
        Self { entries_max: 1_000_000, bytes_max: 1 << 30, age_max_ms: 3_600_000, result_bytes_max: 4 << 20 }
    }
}

/// Writes that may wait for the disk; a call beyond is refused as `Overloaded`.
const WRITES_WAITING_MAX: usize = 4_096;
/// Errors here may occur at every call, so their log lines are limited.
static LINES: LogLimit = LogLimit::new();

/// An open step store. Cheap to share; dropping it ends the writer.
#[derive(Debug)]
pub(crate) struct StepStore {
    writer: SyncSender<Write>,
    result_bytes_max: usize,
}

impl StepStore {
    /// Opens the file, or creates it. Blocks.
    pub(crate) fn open(path: &Path, limits: StepStoreLimits) -> Result<Self, Failed> {
        let file = File::open(path, limits)?;
        let (writer, incoming) = sync_channel(WRITES_WAITING_MAX);
        std::thread::Builder::new().name("catena-steps".to_owned()).spawn(move || file.write_all(&incoming))?;
        Ok(Self { writer, result_bytes_max: limits.result_bytes_max })
    }

    /// Runs a step, unless it has begun before: then returns its result, or that its outcome is unknown. It is also unknown for a chain of which another way
    /// has been here after the two parted, since the effect may have been that way's.
    pub(crate) async fn once(
        &self,
        step: &StepKey,
        fingerprint: Hash,
        duplicate: Option<PossibleDuplicate>,
        running: impl Future<Output = Result<Answer, Exception>>,
    ) -> Result<Answer, Exception> {
        let begun = self.write(|answer| Write::Begin { step: step.clone(), fingerprint, duplicate, answer }).await?;
        let lost = |message| Err(Exception::new(names::NODE_LOST, Fault::Node, message).outcome_unknown());
        match begun {
            Before::Nothing => {}
            Before::Answered(bytes) => return answered(bytes),
            Before::Intent => {
                return lost(
                    "this step was begun before and its node was lost: whether it took effect is unknown; look before doing it again",
                );
            }
            Before::Overtaken => {
                return lost(
                    "a step before was done twice, and the other time this chain has been here: whether this took effect is unknown; look before doing it again",
                );
            }
            Before::Another => {
                let message = "another call was made under this step; whether this one took effect is unknown";
                return Err(Exception::new(names::PROTOCOL, Fault::Caller, message).outcome_unknown());
            }
        }
        let result = running.await;
        let kept = match &result {
            // The sub-chain is run again, and its own steps are remembered where they are done.
            Ok(Answer::Chain(_)) => return result,
            Ok(Answer::Value(value)) => Ok(value.clone()),
            Ok(Answer::Nothing) => Ok(catena_wire::Value::null()),
            Err(why) => Err(why.clone()),
        };
        let result_bytes = Message::Return(0, kept.into(), Brought::default()).encode().head.to_vec();
        if result_bytes.len() > self.result_bytes_max {
            let (bytes, max) = (result_bytes.len(), self.result_bytes_max);
            if let Some(left_out) = LINES.pass() {
                tracing::warn!(bytes, max, left_out, "a result too large for the step store");
            }
            return result;
        }
        // The effect has happened: an answer that could not be kept is returned all the same, and is unknown if the step is repeated.
        let kept = self.write(|answer| Write::Finish { step: step.clone(), result: result_bytes, answer }).await;
        if let Err(why) = kept
            && let Some(left_out) = LINES.pass()
        {
            tracing::warn!(%why, left_out, "the result of a durable step was not kept");
        }
        result
    }

    async fn write<T>(
        &self,
        write: impl FnOnce(oneshot::Sender<Result<T, Exception>>) -> Write,
    ) -> Result<T, Exception> {
        let (answer, answered) = oneshot::channel();
        self.writer.try_send(write(answer)).map_err(|why| match why {
            TrySendError::Full(_) => overloaded(&format!("{WRITES_WAITING_MAX} writes wait for the step store's disk")),
            TrySendError::Disconnected(_) => unusable("its writer has ended"),
        })?;
        answered.await.unwrap_or_else(|_| Err(unusable("its writer has ended")))
    }
}

/// The fingerprint of a call, by which another call under the same step is recognised.
pub(crate) fn fingerprint_of(service: &str, function: &str, params: &Value) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for name in [service, function] {
        hasher.update(&(name.len() as u64).to_be_bytes()).update(name.as_bytes());
    }
    Hash(*hasher.update(params.as_bytes()).finalize().as_bytes())
}

fn answered(bytes: Vec<u8>) -> Result<Answer, Exception> {
    use catena_wire::Outcome;
    match Message::decode(Encoded { head: bytes.into(), tail: Default::default() }) {
        Ok(Message::Return(_, Outcome::Done(value), _)) => Ok(Answer::Value(value)),
        Ok(Message::Return(_, Outcome::Threw(why), _)) => Err(why),
        _ => Err(unusable("it holds an answer of another version").outcome_unknown()),
    }
}

fn overloaded(message: &str) -> Exception {
    Exception::new(names::OVERLOADED, Fault::Node, format!("{message}; nothing was done; try again later"))
}

fn unusable(why: &str) -> Exception {
    let message = format!(
        "the node's step store cannot be used, so its durable functions do nothing until it can; it is tried again with each call: {why}"
    );
    Exception::new(names::SERVICE_FAILED, Fault::Node, message)
}

#[cfg(test)]
mod tests;
