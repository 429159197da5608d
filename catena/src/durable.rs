//! Steps that outlive the node: what durable functions have begun and done, in a file (rpc-chains section 3.9).
//!
//! Before the effect of a step an intent is on the disk, after it its result. So the same step after a crash is answered with its result, or, where there
//! is an intent alone, with an exception that says that the outcome is unknown: it never runs twice.
//!
//! One thread writes. It takes all that waits into one commit, so that calls side by side share the disk's time.

use std::{
    path::Path,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    time::{SystemTime, UNIX_EPOCH},
};

use catena_core::Answer;
use catena_wire::{Brought, Encoded, Exception, Fault, Hash, Message, StepKey, Value, names};
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};
use tokio::sync::oneshot;

/// What a step store keeps. While it is full of what is not old yet, further durable calls are refused as `Overloaded`, since forgetting a step would let it
/// run twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepStoreLimits {
    /// Steps. Default: 1,000,000.
    pub entries_max: u64,
    /// Bytes of their keys and results. Default: 1 GiB.
    pub bytes_max: u64,
    /// How long a step is kept, in milliseconds of the machine's clock. Default: an hour, which is six times as long as any chain may take.
    pub age_max_ms: u64,
    /// Bytes of one result; a larger one is given, but not kept: the same step then ends as unknown. Default: 4 MiB.
    pub result_bytes_max: usize,
}

impl Default for StepStoreLimits {
    fn default() -> Self {
        Self { entries_max: 1_000_000, bytes_max: 1 << 30, age_max_ms: 3_600_000, result_bytes_max: 4 << 20 }
    }
}

/// Writes that may wait for the disk; a call beyond is refused as `Overloaded`.
const WRITES_WAITING_MAX: usize = 4_096;
/// Writes in one commit.
const WRITES_PER_COMMIT_MAX: usize = 1_024;

/// What is known of a step, by its key: time, print of the call, then its answer if there is one.
const STEPS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("steps");
/// Their keys in the order in which they were begun.
const ORDER: TableDefinition<u64, &[u8]> = TableDefinition::new("order");
/// Bytes before the answer: time (8) and print (32).
const ENTRY_HEAD_BYTES: usize = 40;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A step store, open. Cheap to share; dropping it ends the writer.
#[derive(Debug)]
pub(crate) struct Steps {
    writer: SyncSender<Write>,
    result_bytes_max: usize,
}

enum Write {
    Begin { key: Vec<u8>, print: Hash, answer: oneshot::Sender<Result<Before, Exception>> },
    Finish { key: Vec<u8>, result: Vec<u8>, answer: oneshot::Sender<Result<(), Exception>> },
}

/// What was known of a step when it was to begin.
enum Before {
    /// Nothing; now there is an intent.
    Nothing,
    /// An intent without a result.
    Intent,
    /// This answer.
    Answered(Vec<u8>),
    /// It was another call.
    Another,
}

impl Steps {
    /// Opens the file, or makes it. Blocks.
    pub(crate) fn open(path: &Path, limits: StepStoreLimits) -> Result<Self, Failed> {
        let mut file = File { database: Database::create(path)?, limits, bytes: 0 };
        file.measure()?;
        let (writer, incoming) = sync_channel(WRITES_WAITING_MAX);
        std::thread::Builder::new().name("catena-steps".to_owned()).spawn(move || write_all(&mut file, &incoming))?;
        Ok(Self { writer, result_bytes_max: limits.result_bytes_max })
    }

    /// Runs a step, unless it has been begun before: then its result, or that it is unknown.
    pub(crate) async fn once(
        &self,
        step: &StepKey,
        print: Hash,
        running: impl Future<Output = Result<Answer, Exception>>,
    ) -> Result<Answer, Exception> {
        let key = Value::encode(step).as_bytes().to_vec();
        match self.write(|answer| Write::Begin { key: key.clone(), print, answer }).await? {
            Before::Nothing => {}
            Before::Answered(bytes) => return answered(bytes),
            Before::Intent => {
                let message = "this step was begun before and its node was lost: whether it took effect is unknown; look before doing it again";
                return Err(Exception::new(names::NODE_LOST, Fault::Node, message).outcome_unknown());
            }
            Before::Another => {
                let message = "another call was made under this step; whether this one took effect is unknown";
                return Err(Exception::new(names::PROTOCOL, Fault::Caller, message).outcome_unknown());
            }
        }
        let result = running.await;
        let kept = match &result {
            // The chain is run again, and its own steps are remembered where they are done.
            Ok(Answer::Chain(_)) => return result,
            Ok(Answer::Value(value)) => Ok(value.clone()),
            Err(why) => Err(why.clone()),
        };
        let result_bytes = Message::Return(0, kept.into(), Brought::default()).encode().head.to_vec();
        if result_bytes.len() > self.result_bytes_max {
            tracing::warn!(
                bytes = result_bytes.len(),
                max = self.result_bytes_max,
                "a result too large for the step store"
            );
            return result;
        }
        // What was done is done: an answer that could not be kept is given all the same, and is unknown when asked for again.
        if let Err(why) = self.write(|answer| Write::Finish { key, result: result_bytes, answer }).await {
            tracing::warn!(%why, "the result of a durable step was not kept");
        }
        result
    }

    async fn write<T>(
        &self,
        write: impl FnOnce(oneshot::Sender<Result<T, Exception>>) -> Write,
    ) -> Result<T, Exception> {
        let (answer, answered) = oneshot::channel();
        self.writer.try_send(write(answer)).map_err(|why| match why {
            TrySendError::Full(_) => overloaded(format!("{WRITES_WAITING_MAX} writes wait for the step store's disk")),
            TrySendError::Disconnected(_) => broken("its writer has ended"),
        })?;
        answered.await.unwrap_or_else(|_| Err(broken("its writer has ended")))
    }
}

/// The print of a call: another under the same step is told by it.
pub(crate) fn print_of(service: &str, function: &str, params: &Value) -> Hash {
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
        _ => Err(broken("it holds an answer of another version").outcome_unknown()),
    }
}

fn overloaded(message: String) -> Exception {
    Exception::new(names::OVERLOADED, Fault::Node, message + "; nothing was done; try again later")
}

fn broken(why: impl std::fmt::Display) -> Exception {
    let message = format!("the node's step store cannot be used, so its durable functions do nothing: {why}");
    Exception::new(names::SERVICE_FAILED, Fault::Node, message)
}

fn write_all(file: &mut File, incoming: &Receiver<Write>) {
    while let Ok(first) = incoming.recv() {
        let more = incoming.try_iter().take(WRITES_PER_COMMIT_MAX - 1);
        file.commit(std::iter::once(first).chain(more).collect());
    }
}

/// The file and what it may hold.
struct File {
    database: Database,
    limits: StepStoreLimits,
    bytes: u64,
}

/// An answer that goes out when what it says is on the disk.
enum Ready {
    Begun(oneshot::Sender<Result<Before, Exception>>, Result<Before, Exception>),
    Finished(oneshot::Sender<Result<(), Exception>>),
}

impl File {
    /// Adds up what is there.
    fn measure(&mut self) -> Result<(), Failed> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(ORDER)?;
        transaction.open_table(STEPS)?;
        transaction.commit()?;
        let reading = self.database.begin_read()?;
        let steps = reading.open_table(STEPS)?;
        for entry in steps.iter()? {
            let (key, value) = entry?;
            self.bytes += entry_bytes(key.value(), value.value());
        }
        Ok(())
    }

    fn commit(&mut self, writes: Vec<Write>) {
        let before = self.bytes;
        let (mut ready, mut failed) = (Vec::new(), None);
        let done = self.database.begin_write().map_err(Failed::from).and_then(|transaction| {
            self.forget_old(&transaction)?;
            for write in writes {
                match self.apply(&transaction, write) {
                    Ok(one) => ready.push(one),
                    Err(why) => return Err(why),
                }
            }
            Ok(transaction.commit()?)
        });
        if let Err(why) = done {
            self.bytes = before;
            failed = Some(broken(&why));
            tracing::error!(%why, "the step store's file cannot be written");
        }
        for one in ready {
            // Nobody may be waiting any more: the call was dropped.
            match (one, &failed) {
                (Ready::Begun(answer, result), None) => drop(answer.send(result)),
                (Ready::Begun(answer, _), Some(why)) => drop(answer.send(Err(why.clone()))),
                (Ready::Finished(answer), why) => drop(answer.send(why.clone().map_or(Ok(()), Err))),
            }
        }
    }

    fn apply(&mut self, transaction: &WriteTransaction, write: Write) -> Result<Ready, Failed> {
        Ok(match write {
            Write::Begin { key, print, answer } => Ready::Begun(answer, self.begin(transaction, &key, print)?),
            Write::Finish { key, result, answer } => {
                let mut steps = transaction.open_table(STEPS)?;
                let entry = steps.get(&*key)?.map(|entry| entry.value().to_vec());
                // Forgotten meanwhile: then its age says that nobody asks any more.
                if let Some(mut entry) = entry.filter(|entry| entry.len() == ENTRY_HEAD_BYTES) {
                    entry.extend_from_slice(&result);
                    self.bytes += result.len() as u64;
                    steps.insert(&*key, &*entry)?;
                }
                Ready::Finished(answer)
            }
        })
    }

    fn begin(
        &mut self,
        transaction: &WriteTransaction,
        key: &[u8],
        print: Hash,
    ) -> Result<Result<Before, Exception>, Failed> {
        let (mut steps, mut order) = (transaction.open_table(STEPS)?, transaction.open_table(ORDER)?);
        if let Some(entry) = steps.get(key)? {
            let (head, result) = entry.value().split_at_checked(ENTRY_HEAD_BYTES).ok_or("an entry is cut short")?;
            return Ok(Ok(match (head.ends_with(&print.0), result) {
                (false, _) => Before::Another,
                (true, []) => Before::Intent,
                (true, result) => Before::Answered(result.to_vec()),
            }));
        }
        let StepStoreLimits { entries_max, bytes_max, .. } = self.limits;
        if steps.len()? >= entries_max {
            return Ok(Err(overloaded(format!("the step store holds entries_max = {entries_max} steps"))));
        }
        if self.bytes >= bytes_max {
            return Ok(Err(overloaded(format!("the step store holds bytes_max = {bytes_max} bytes"))));
        }
        let entry = [&now_ms().to_be_bytes()[..], &print.0].concat();
        self.bytes += entry_bytes(key, &entry);
        steps.insert(key, &*entry)?;
        let next = order.last()?.map_or(0, |(last, _)| last.value() + 1);
        order.insert(next, key)?;
        Ok(Ok(Before::Nothing))
    }

    /// Oldest first.
    fn forget_old(&mut self, transaction: &WriteTransaction) -> Result<(), Failed> {
        let (mut steps, mut order) = (transaction.open_table(STEPS)?, transaction.open_table(ORDER)?);
        let old = now_ms().saturating_sub(self.limits.age_max_ms);
        loop {
            let first = order.first()?.map(|(number, key)| (number.value(), key.value().to_vec()));
            let Some((number, key)) = first else { break };
            let entry = steps.get(&*key)?.map(|entry| entry.value().to_vec()).unwrap_or_default();
            let begun = entry.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            if begun >= old {
                break;
            }
            self.bytes = self.bytes.saturating_sub(entry_bytes(&key, &entry));
            steps.remove(&*key)?;
            order.remove(number)?;
        }
        Ok(())
    }
}

/// What an entry counts: both tables have its key.
const fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    (2 * key.len() + value.len() + 8) as u64
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;
