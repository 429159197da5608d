//! Keeps an NFS server listening. The library's listener ends with the first connection whose client is gone before it is taken, by a panic, and when the process has no file left.

use std::{io, sync::Arc, time::Duration};

use nfs3_server::{
    tcp::{NFSTcp, NFSTcpListener},
    vfs::NfsFileSystem,
};
use tokio::{task::JoinSet, time::Instant};

/// The pause after a failure: it bounds the processor time that somebody can cost by making the listener fail again and again.
const PAUSE: Duration = Duration::from_millis(10);
/// How often failures are logged.
const SAID_EVERY: Duration = Duration::from_secs(1);
/// How often one listener is resumed. Each time, the library starts a task that ends only with the listener, so it is replaced after this many.
pub(crate) const RESUMED_MAX: u32 = 1_024;

/// Binds to this port of loopback (0: any).
pub(crate) async fn bind<T>(files: T, port: u16, run: u64) -> io::Result<NFSTcpListener<T>>
where
    T: NfsFileSystem + 'static,
{
    // This number is in handles, and is the verifier of writes: both are valid for as long as the server runs, whichever clerk gave them out.
    NFSTcpListener::bind_with_generation(&format!("127.0.0.1:{port}"), files, run).await
}

/// Serves whoever comes, until this is dropped.
pub(crate) async fn serve<T>(listener: NFSTcpListener<T>, files: T, run: u64, resumed_max: u32)
where
    T: NfsFileSystem + Clone + 'static,
{
    let port = listener.get_listen_port();
    let (mut listener, mut trouble) = (Arc::new(listener), Trouble::default());
    loop {
        for _ in 0..resumed_max {
            trouble.say(&failure(Arc::clone(&listener)).await);
            tokio::time::sleep(PAUSE).await;
        }
        // The port becomes free only when the old listener is gone.
        drop(listener);
        listener = loop {
            match bind(files.clone(), port, run).await {
                Ok(bound) => break Arc::new(bound),
                Err(why) => trouble.say(&why.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        };
    }
}

/// Serves until the listener fails; returns why.
async fn failure<T>(listener: Arc<NFSTcpListener<T>>) -> String
where
    T: NfsFileSystem + 'static,
{
    // A task of its own, so that a panic ends only that task; in a set, so that it also ends when this future is dropped.
    let mut serving = JoinSet::new();
    serving.spawn(async move { listener.handle_forever().await });
    match serving.join_next().await {
        Some(Ok(Err(why))) => why.to_string(),
        Some(Err(why)) => why.to_string(),
        Some(Ok(Ok(()))) | None => "it ended".to_owned(),
    }
}

/// Limits how often failures are logged.
#[derive(Default)]
struct Trouble {
    said: Option<Instant>,
    unsaid: u64,
}

impl Trouble {
    fn say(&mut self, why: &str) {
        match self.pass(Instant::now()) {
            Some(unsaid) => eprintln!("dfs: no connection to be had: {why}; {unsaid} times more since the last line"),
            None => self.unsaid += 1,
        }
    }

    /// Whether a failure may be logged now; if so, how many were not logged since the last one that was.
    fn pass(&mut self, now: Instant) -> Option<u64> {
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < SAID_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
#[path = "listening_tests.rs"]
mod tests;
