//! A database that answers in time, or says that it did not.

use std::{future::Future, time::Duration};

use async_trait::async_trait;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::{sync::watch, time::timeout};

use super::{Database, DatabaseError, Phone};
use crate::data::Rows;

/// Pauses a database as if its machine stood still, and resumes it. For the embedded one: a real server's process is stopped itself.
#[derive(Clone, Debug)]
pub struct Switch(watch::Sender<bool>);

impl Default for Switch {
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

impl Switch {
    /// Whether the database runs, from now on.
    pub fn set(&self, runs: bool) {
        self.0.send_replace(runs);
    }

    async fn runs(&self) {
        // Fails only if all senders are gone, and one is here.
        let _ = self.0.subscribe().wait_for(|runs| *runs).await;
    }
}

/// Rows that are still to come.
type Rest<'a> = BoxStream<'a, Result<Phone, DatabaseError>>;

/// Waits for the database no longer than `wait`: for each answer, and for each row after the one before.
pub struct Bounded {
    inner: Box<dyn Database>,
    wait: Duration,
    switch: Switch,
}

impl Bounded {
    /// Bounds a database.
    pub fn new(inner: impl Database + 'static, wait: Duration, switch: Switch) -> Self {
        Self { inner: Box::new(inner), wait, switch }
    }

    async fn within<T>(&self, answer: impl Future<Output = T> + Send) -> Result<T, DatabaseError> {
        let answer = async {
            self.switch.runs().await;
            answer.await
        };
        timeout(self.wait, answer).await.map_err(|_| self.slow())
    }

    /// The next row, and those after it; none after an error.
    async fn next<'a>(&'a self, rows: Option<Rest<'a>>) -> Option<(Result<Phone, DatabaseError>, Option<Rest<'a>>)> {
        let mut rows = rows?;
        match self.within(rows.next()).await {
            Ok(Some(Ok(phone))) => Some((Ok(phone), Some(rows))),
            Ok(Some(Err(why))) | Err(why) => Some((Err(why), None)),
            Ok(None) => None,
        }
    }

    fn slow(&self) -> DatabaseError {
        DatabaseError::Slow { wait_ms: u64::try_from(self.wait.as_millis()).unwrap_or(u64::MAX) }
    }
}

#[async_trait]
impl Database for Bounded {
    async fn sites_of(&self, community: u32) -> Result<Vec<u32>, DatabaseError> {
        self.within(self.inner.sites_of(community)).await?
    }

    fn phones(&self, community: u32) -> BoxStream<'_, Result<Phone, DatabaseError>> {
        stream::unfold(Some(self.inner.phones(community)), |rows| self.next(rows)).boxed()
    }

    async fn fill(&self, rows: &Rows) -> Result<(), DatabaseError> {
        self.inner.fill(rows).await
    }
}
