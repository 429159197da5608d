//! A TCP relay in front of a node, which holds back what was not let through yet.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{broadcast, watch},
};

pub(crate) struct Relay {
    pub(crate) address: String,
    /// Bytes towards the node that may pass.
    allowed: watch::Sender<u64>,
    passed: watch::Receiver<u64>,
    cuts: broadcast::Sender<()>,
    held: watch::Receiver<bool>,
}

impl Relay {
    /// For one connection at a time, to the node that listens, or will, at `target`.
    pub(crate) async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let allowed = watch::Sender::new(u64::MAX);
        let (passing, passed) = watch::channel(0);
        let (holding, held) = watch::channel(false);
        let permits = allowed.subscribe();
        let (cuts, _) = broadcast::channel(1);
        let cutting = cuts.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (from, mut back) = near.into_split();
                let (mut answers, to) = TcpStream::connect(&target).await.unwrap().into_split();
                let back = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut back).await });
                let mut cut = cutting.subscribe();
                tokio::select! {
                    () = forward(from, to, permits.clone(), &passing, &holding) => {}
                    _ = cut.recv() => {}
                }
                back.abort();
            }
        });
        Self { address, allowed, passed, cuts, held }
    }

    /// Lets so many bytes more pass than have passed by now.
    pub(crate) fn allow(&self, more: u64) {
        self.allowed.send_replace(self.passed.borrow().saturating_add(more));
    }

    /// Ends the connection that there is; the next may be made at once.
    pub(crate) fn cut(&self) {
        let _ = self.cuts.send(());
    }

    /// Until it holds something back.
    pub(crate) async fn holds(&mut self) {
        self.held.wait_for(|held| *held).await.unwrap();
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut allowed: watch::Receiver<u64>,
    passing: &watch::Sender<u64>,
    holding: &watch::Sender<bool>,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let total = *passing.borrow() + count as u64;
        holding.send_replace(total > *allowed.borrow());
        if allowed.wait_for(|allowed| total <= *allowed).await.is_err() || to.write_all(&buffer[..count]).await.is_err()
        {
            return;
        }
        passing.send_replace(total);
    }
}
