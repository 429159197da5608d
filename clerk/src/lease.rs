//! Failure of the server, noticed by timed READs (section 3.7).

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catena::Exception;
use tokio::{task::AbortHandle, time::Instant};

use crate::{layout::BEAT_AT, table::FarTable};

/// Whether the server of a table was alive a moment ago. Guarantee: while the lease is good, the server incremented its beat word at most `within` ago. So a
/// server that waits that long after its start before it changes anything is not contradicted by what clerks still read of its previous run.
#[derive(Debug)]
pub struct Lease {
    table: FarTable,
    seen: Arc<Mutex<Instant>>,
    within: Duration,
    task: AbortHandle,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lease {
    /// Reads the beat word of a table every `every`, from now on. Needs a tokio runtime.
    ///
    /// # Errors
    /// What a READ is refused for.
    pub async fn begin(table: FarTable, every: Duration, within: Duration) -> Result<Self, Exception> {
        let start = Instant::now();
        let mut last = table.beat().await?;
        let seen = Arc::new(Mutex::new(start));
        let (reading, noting) = (table.clone(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            loop {
                // Taken before the READ: the value that it returns was current at a later moment.
                let start = Instant::now();
                if let Ok(Ok(beat)) = tokio::time::timeout(within, reading.beat()).await
                    && beat != last
                {
                    last = beat;
                    *noting.lock().unwrap_or_else(PoisonError::into_inner) = start;
                }
                tokio::time::sleep(every).await;
            }
        });
        Ok(Self { table, seen, within, task: task.abort_handle() })
    }

    /// Whether the beat word was seen to rise within the last `within`.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < self.within
    }

    /// Waits until the lease is not good any more, and reports what is wrong, as far as that can be known here.
    pub async fn lost(&self) -> Exception {
        loop {
            let left = {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                self.within.saturating_sub(seen.elapsed())
            };
            if left.is_zero() {
                return self.table.segment().why_still(BEAT_AT, self.within).await;
            }
            tokio::time::sleep(left).await;
        }
    }
}
