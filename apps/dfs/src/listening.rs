//! Keeps an NFS server listening. The library's listener ends with the first connection whose client is gone before it is taken, by a panic, and when the process has no file left.

use std::{io, sync::Arc, time::Duration};

use nfs3_server::{
    tcp::{NFSTcp, NFSTcpListener},
    vfs::NfsFileSystem,
};
use tokio::{task::JoinSet, time::Instant};

/// How long it rests after it ended: whoever ends it over and over has that much of the processor, and no more.
const PAUSE: Duration = Duration::from_millis(10);
/// How often what ends it is said.
const SAID_EVERY: Duration = Duration::from_secs(1);
/// How often one listener is taken up again. Each time the library starts a task that ends with the listener only, so that another takes its place then.
pub(crate) const RESUMED_MAX: u32 = 1_024;

/// Binds to this port of loopback (0: any).
pub(crate) async fn bind<T>(files: T, port: u16, run: u64) -> io::Result<NFSTcpListener<T>>
where
    T: NfsFileSystem + 'static,
{
    // This number is in handles, and it is the verifier of writes: both are good for as long as the server runs, whichever clerk gave them.
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
        // Its port is free once it is gone.
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

/// Serves until the listener fails, and says why.
async fn failure<T>(listener: Arc<NFSTcpListener<T>>) -> String
where
    T: NfsFileSystem + 'static,
{
    // A task of its own, which its panic ends alone, in a set, with which it ends too.
    let mut serving = JoinSet::new();
    serving.spawn(async move { listener.handle_forever().await });
    match serving.join_next().await {
        Some(Ok(Err(why))) => why.to_string(),
        Some(Err(why)) => why.to_string(),
        Some(Ok(Ok(()))) | None => "it ended".to_owned(),
    }
}

/// What goes wrong, said from time to time.
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

    /// Whether it may be said now; if so, how often it was not since it last was.
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
