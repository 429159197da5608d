//! A way to a server that can be broken: from then on what is asked arrives, and no answer comes back.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Bytes taken from the server at one time.
const PIECE_BYTES: usize = 16 << 10;

/// A port of this machine that leads to another one, while this lives.
#[derive(Debug)]
pub struct Way {
    /// Where it begins, on the loopback.
    pub port: u16,
    broken: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Way {
    /// A way to a port of the loopback.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let begins = listener.local_addr().expect("its address").port();
        let broken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&broken);
        let task = tokio::spawn(async move {
            while let Ok((asking, _)) = listener.accept().await {
                let broken = Arc::clone(&seen);
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                        lead(asking, server, &broken).await;
                    }
                });
            }
        });
        Self { port: begins, broken, task }
    }

    /// Breaks it: instead of each further answer its connection ends.
    pub fn break_off(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Until either side ends, or there is an answer and the way is broken.
async fn lead(asking: TcpStream, server: TcpStream, broken: &AtomicBool) {
    let (mut asked, mut answers) = asking.into_split();
    let (mut answered, mut asks) = server.into_split();
    let back = async {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match answered.read(&mut piece).await {
                Ok(count) if count > 0 && !broken.load(Ordering::SeqCst) => {
                    if answers.write_all(&piece[..count]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut asked, &mut asks) => {}
        () = back => {}
    }
}
