//! The step store's file, and the thread that writes it. Each commit takes all writes that wait, so that concurrent calls share the disk's time.
//!
//! A file that could not be written is opened again; a file that was deleted while it was open is written anew from the descriptor that is still open. So a
//! full disk that has room again, or a deleted folder, fails only the calls of that time, and none later.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::mpsc::Receiver,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use catena_wire::{Exception, Hash, PossibleDuplicate, StepKey, Value};
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, TableDefinition, TableHandle};
use tokio::sync::oneshot;

use super::{StepStoreLimits, overloaded, record::Record, unusable};
use catena_net::LogLimit;

/// The most writes in one commit.
const WRITES_PER_COMMIT_MAX: usize = 1_024;
/// How long a file that failed is not tried again: opening it may mean reading all of it.
const REOPEN_EVERY: Duration = Duration::from_millis(100);

/// What has begun: a [`Record`] by the step's key. The keys of one chain are adjacent.
const STEPS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("steps.2");
/// The results, by the same key.
const RESULTS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("results");
/// Keys in the order in which their steps began.
const ORDER: TableDefinition<u64, &[u8]> = TableDefinition::new("order.2");

pub(super) type Failed = Box<dyn std::error::Error + Send + Sync>;
type Answer<T> = oneshot::Sender<Result<T, Exception>>;

/// A write, and who waits until it is on disk.
pub(super) enum Write {
    Begin { step: StepKey, fingerprint: Hash, duplicate: Option<PossibleDuplicate>, answer: Answer<Before> },
    Finish { step: StepKey, result: Vec<u8>, answer: Answer<()> },
}

/// What was known of a step when it was to begin.
pub(super) enum Before {
    /// Nothing; now there is an intent.
    Nothing,
    /// An intent without a result.
    Intent,
    /// This answer.
    Answered(Vec<u8>),
    /// The step was another call.
    Another,
    /// Another way of the chain has been here: it may have had the same effect as another step.
    Overtaken,
}

impl Write {
    fn tell(self, done: Result<Before, Exception>) {
        // The waiting task may be gone: its call was dropped.
        match self {
            Self::Begin { answer, .. } => drop(answer.send(done)),
            Self::Finish { answer, .. } => drop(answer.send(done.map(drop))),
        }
    }
}

/// The file, identified by its path.
pub(super) struct File {
    path: PathBuf,
    limits: StepStoreLimits,
    /// `None` after a failure: a failed database can only be opened again.
    opened: Option<Opened>,
    failed: Option<(Instant, String)>,
}

impl File {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path, limits: StepStoreLimits) -> Result<Self, Failed> {
        let opened = Opened::new(Database::create(path)?, path)?;
        Ok(Self { path: path.to_owned(), limits, opened: Some(opened), failed: None })
    }

    /// Performs writes until no sender is left.
    pub(super) fn write_all(mut self, incoming: &Receiver<Write>) {
        while let Ok(first) = incoming.recv() {
            let more = incoming.try_iter().take(WRITES_PER_COMMIT_MAX - 1);
            self.commit(std::iter::once(first).chain(more).collect());
        }
    }

    /// Commits all of these writes, or none.
    fn commit(&mut self, writes: Vec<Write>) {
        static LINES: LogLimit = LogLimit::new();
        let limits = self.limits;
        match self.usable().and_then(|opened| opened.commit(&writes, &limits)) {
            Ok(done) => writes.into_iter().zip(done).for_each(|(write, done)| write.tell(done)),
            Err(why) => {
                let path = self.path.display();
                if let Some(left_out) = LINES.pass() {
                    tracing::error!(%path, %why, left_out, "the step store cannot be used");
                }
                let told = unusable(&format!("{path}: {why}"));
                writes.into_iter().for_each(|write| write.tell(Err(told.clone())));
                self.fail(&why);
            }
        }
    }

    fn fail(&mut self, why: &Failed) {
        // A deleted file is still open here, and this is the only copy left.
        self.opened.take_if(|opened| opened.is_at(&self.path));
        if self.failed.as_ref().is_none_or(|(at, _)| at.elapsed() >= REOPEN_EVERY) {
            self.failed = Some((Instant::now(), why.to_string()));
        }
    }

    /// The open file; reopens or restores it if need be.
    fn usable(&mut self) -> Result<&mut Opened, Failed> {
        let again = match (&self.opened, &self.failed) {
            (Some(opened), _) if opened.is_at(&self.path) => None,
            (_, Some((at, why))) if at.elapsed() < REOPEN_EVERY => return Err(why.as_str().into()),
            (Some(taken_away), _) => Some(taken_away.copy_to(&self.path)?),
            // A missing file is not created anew: steps that it knew would be forgotten and done again.
            (None, _) => Some(Opened::new(Database::open(&self.path)?, &self.path)?),
        };
        if again.is_some() {
            self.opened = again;
        }
        self.opened.as_mut().ok_or_else(|| "it is not open".into())
    }
}

/// A file that is open.
struct Opened {
    database: Database,
    bytes: u64,
    /// Identifies the file whatever its name: device and inode number.
    identity: (u64, u64),
}

impl Opened {
    fn new(database: Database, path: &Path) -> Result<Self, Failed> {
        let transaction = database.begin_write()?;
        if transaction.list_tables()?.any(|table| table.name() == "steps") {
            return Err(
                "an earlier version of Catena made it: move it away once the chains of the last hour are over".into()
            );
        }
        transaction.open_table(ORDER)?;
        transaction.open_table(STEPS)?;
        transaction.open_table(RESULTS)?;
        transaction.commit()?;
        let reading = database.begin_read()?;
        let mut bytes = 0;
        for table in [STEPS, RESULTS] {
            for entry in reading.open_table(table)?.iter()? {
                let (key, value) = entry?;
                bytes += entry_bytes(key.value(), value.value());
            }
        }
        Ok(Self { database, bytes, identity: identity(path)? })
    }

    fn is_at(&self, path: &Path) -> bool {
        identity(path).is_ok_and(|identity| identity == self.identity)
    }

    /// Copies the whole content to a file of this name.
    fn copy_to(&self, path: &Path) -> Result<Self, Failed> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let database = Database::create(path)?;
        let (reading, writing) = (self.database.begin_read()?, database.begin_write()?);
        for table in [STEPS, RESULTS] {
            let mut copy = writing.open_table(table)?;
            for entry in reading.open_table(table)?.iter()? {
                let (key, value) = entry?;
                copy.insert(key.value(), value.value())?;
            }
        }
        {
            let mut copy = writing.open_table(ORDER)?;
            for entry in reading.open_table(ORDER)?.iter()? {
                let (number, key) = entry?;
                copy.insert(number.value(), key.value())?;
            }
        }
        writing.commit()?;
        Self::new(database, path)
    }

    fn commit(&mut self, writes: &[Write], limits: &StepStoreLimits) -> Result<Vec<Result<Before, Exception>>, Failed> {
        let transaction = self.database.begin_write()?;
        let mut batch = Batch {
            steps: transaction.open_table(STEPS)?,
            results: transaction.open_table(RESULTS)?,
            order: transaction.open_table(ORDER)?,
            bytes: self.bytes,
            limits,
        };
        batch.forget_old()?;
        let done = writes.iter().map(|write| batch.apply(write)).collect::<Result<_, _>>()?;
        let bytes = batch.bytes;
        drop(batch);
        transaction.commit()?;
        self.bytes = bytes;
        Ok(done)
    }
}

/// One transaction.
struct Batch<'t> {
    steps: Table<'t, &'static [u8], &'static [u8]>,
    results: Table<'t, &'static [u8], &'static [u8]>,
    order: Table<'t, u64, &'static [u8]>,
    bytes: u64,
    limits: &'t StepStoreLimits,
}

impl Batch<'_> {
    fn apply(&mut self, write: &Write) -> Result<Result<Before, Exception>, Failed> {
        match write {
            Write::Begin { step, fingerprint, duplicate, .. } => {
                self.begin(step, &Record::new(now_ms(), *fingerprint, step, duplicate.as_ref()))
            }
            Write::Finish { step, result, .. } => {
                let (_, key) = key_of(step);
                // If the step was forgotten meanwhile, it is so old that nobody asks for it any more.
                if self.steps.get(&*key)?.is_some() && self.results.insert(&*key, &**result)?.is_none() {
                    self.bytes += entry_bytes(&key, result);
                }
                Ok(Ok(Before::Nothing))
            }
        }
    }

    fn begin(&mut self, step: &StepKey, record: &Record) -> Result<Result<Before, Exception>, Failed> {
        let (chain, key) = key_of(step);
        if let Some(known) = self.steps.get(&*key)? {
            let same = read(known.value())?.fingerprint == record.fingerprint;
            let result = self.results.get(&*key)?.map(|result| result.value().to_vec());
            return Ok(Ok(match (same, result) {
                (false, _) => Before::Another,
                (true, None) => Before::Intent,
                (true, Some(result)) => Before::Answered(result),
            }));
        }
        for entry in self.steps.range(&*chain..)? {
            let (other, known) = entry?;
            if !other.value().starts_with(&chain) {
                break;
            }
            if record.is_overtaken_by(&read(known.value())?) {
                return Ok(Ok(Before::Overtaken));
            }
        }
        let StepStoreLimits { entries_max, bytes_max, .. } = *self.limits;
        if self.steps.len()? >= entries_max {
            return Ok(Err(overloaded(&format!("the step store holds entries_max = {entries_max} steps"))));
        }
        if self.bytes >= bytes_max {
            return Ok(Err(overloaded(&format!("the step store holds bytes_max = {bytes_max} bytes"))));
        }
        let record = record.to_bytes();
        self.bytes += entry_bytes(&key, &record);
        self.steps.insert(&*key, &*record)?;
        let next = self.order.last()?.map_or(0, |(last, _)| last.value() + 1);
        self.order.insert(next, &*key)?;
        Ok(Ok(Before::Nothing))
    }

    /// Forgets steps, oldest first.
    fn forget_old(&mut self) -> Result<(), Failed> {
        let old = now_ms().saturating_sub(self.limits.age_max_ms);
        while let Some((number, key)) = self.oldest()? {
            let begun_ms =
                self.steps.get(&*key)?.map(|known| read(known.value())).transpose()?.map(|known| known.begun_ms);
            if begun_ms.is_some_and(|begun_ms| begun_ms >= old) {
                break;
            }
            for table in [&mut self.steps, &mut self.results] {
                let freed = table.remove(&*key)?.map_or(0, |gone| entry_bytes(&key, gone.value()));
                self.bytes = self.bytes.saturating_sub(freed);
            }
            self.order.remove(number)?;
        }
        Ok(())
    }

    fn oldest(&self) -> Result<Option<(u64, Vec<u8>)>, Failed> {
        Ok(self.order.first()?.map(|(number, key)| (number.value(), key.value().to_vec())))
    }
}

fn read(record: &[u8]) -> Result<Record, Failed> {
    Record::from_bytes(record).ok_or_else(|| "a record is cut short".into())
}

/// The prefix of the keys of the step's chain, and the step's own key.
fn key_of(step: &StepKey) -> (Vec<u8>, Vec<u8>) {
    let chain = Value::encode(&step.chain).as_bytes().to_vec();
    let key = [&chain[..], Value::encode(step).as_bytes()].concat();
    (chain, key)
}

/// How many bytes an entry counts.
const fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len() + 8) as u64
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let known = fs::metadata(path)?;
    Ok((known.dev(), known.ino()))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
