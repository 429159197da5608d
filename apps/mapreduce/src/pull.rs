//! Push and pull as in MapReduce Online: unnecessary with Quatrain's replies (section 4.3), kept here for comparison.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use catena::{Client, Exception, Fault};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::{
    data::Kept,
    map::Part,
    store::Made,
    worker::{AskParts, name},
};

/// Parts on their way to a reduce.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pushed {
    /// The job.
    pub job: u64,
    /// The partition: that of the reduce.
    pub partition: u32,
    /// The parts; their words go beside the call, as all small blobs of parameters do.
    pub parts: Vec<Kept>,
}

/// By job and partition.
type Arrivals = HashMap<(u64, u32), mpsc::Sender<Vec<Part>>>;

/// Where pushed parts arrive for the reduces that run here.
#[derive(Debug, Default)]
pub struct Inbox(Mutex<Arrivals>);

impl Inbox {
    /// Registers a reduce that takes what is pushed to it from now on.
    pub fn open(&self, job: u64, partition: u32, to: mpsc::Sender<Vec<Part>>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((job, partition), to);
    }

    /// The job is over.
    pub fn close(&self, job: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| *of != job);
    }

    /// Hands in what was pushed; waits while the reduce has enough to do.
    ///
    /// # Errors
    /// No such reduce runs here.
    pub async fn push(&self, job: u64, partition: u32, parts: Vec<Part>) -> Result<(), Exception> {
        let to = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(job, partition)).cloned();
        let gone =
            || Exception::new("NoReduce", Fault::Caller, format!("no reduce of partition {partition} runs here"));
        let to = to.ok_or_else(gone)?;
        let gone = gone();
        to.send(parts).await.map_err(|_| gone)
    }
}

/// Pushes what a map task makes, from part `from` on, until the task is done or the reduce is gone. Runs as a task of its own, so that a slow reduce does not
/// hold up the map.
pub async fn push_on(client: Client, made: Arc<Made>, ask: AskParts, mut from: usize) {
    let mut stage = made.follow();
    let to = name(ask.reduce_at);
    loop {
        let ended = stage.borrow_and_update().ended.clone();
        let parts = made.parts(ask.partition, from);
        from += parts.len();
        if !parts.is_empty() {
            let pushed = Pushed { job: ask.job.id, partition: ask.partition, parts };
            // If the reduce is gone, it is started again elsewhere, and pulls.
            if client.call::<_, ()>(&to, "push", &pushed).await.is_err() {
                return;
            }
        }
        if ended.is_some() || stage.changed().await.is_err() {
            return;
        }
    }
}
