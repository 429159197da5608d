//! A TCP relay in front of a node, which holds back what was not let through yet.
#![allow(dead_code, reason = "each of the tests that share it needs a part")]

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{broadcast, watch},
    task::JoinHandle,
};

/// Connections that may wait to be accepted, beside the first.
const BACKLOG: u32 = 16;

pub(crate) struct Relay {
    pub(crate) address: String,
    /// Bytes towards the node that may pass.
    allowed: watch::Sender<u64>,
    passed: watch::Receiver<u64>,
    cuts: broadcast::Sender<()>,
    held: watch::Receiver<bool>,
    listener: Arc<TcpListener>,
    accepting: JoinHandle<()>,
    /// They wait to be accepted.
    waiting: Vec<TcpStream>,
}

impl Relay {
    /// To the node that listens, or will, at `target`. All connections count against one allowance.
    pub(crate) async fn to(target: String) -> Self {
        Self::between([127, 0, 0, 1], target).await
    }

    /// The same, and the node there takes whoever comes this way for somebody at that address.
    pub(crate) async fn between(from: [u8; 4], target: String) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = Arc::new(socket.listen(BACKLOG).unwrap());
        let address = listener.local_addr().unwrap().to_string();
        let allowed = watch::Sender::new(u64::MAX);
        let (passing, passed) = watch::channel(0);
        let (holding, held) = watch::channel(false);
        let (cuts, _) = broadcast::channel(1);
        let gate = Gate { allowed: allowed.subscribe(), passing: Arc::new(passing), holding: Arc::new(holding) };
        let (cutting, from, host) = (cuts.clone(), Arc::clone(&listener), from);
        let target: SocketAddr = target.parse().unwrap();
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = from.accept().await {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(SocketAddr::from((host, 0))).unwrap();
                let far = socket.connect(target).await.unwrap();
                tokio::spawn(relayed(near, far, gate.clone(), cutting.subscribe()));
            }
        });
        Self { address, allowed, passed, cuts, held, listener, accepting, waiting: Vec::new() }
    }

    /// Lets so many bytes more pass than have passed by now.
    pub(crate) fn allow(&self, more: u64) {
        self.allowed.send_replace(self.passed.borrow().saturating_add(more));
    }

    /// Ends the connection that there is; the next may be made at once.
    pub(crate) fn cut(&self) {
        let _ = self.cuts.send(());
    }

    /// Answers nobody from now on, as if the network were cut: the connections that there are end, and whoever makes another is neither accepted nor refused.
    pub(crate) async fn close(&mut self) {
        self.accepting.abort();
        while self.waiting.len() <= BACKLOG as usize {
            self.waiting.push(TcpStream::connect(self.listener.local_addr().unwrap()).await.unwrap());
        }
        self.cut();
    }

    /// Bytes that have passed towards the node.
    pub(crate) fn passed_bytes(&self) -> u64 {
        *self.passed.borrow()
    }

    /// Until it holds something back.
    pub(crate) async fn holds(&mut self) {
        self.held.wait_for(|held| *held).await.unwrap();
    }
}

/// What may pass towards the node, and what did.
#[derive(Clone)]
struct Gate {
    allowed: watch::Receiver<u64>,
    passing: Arc<watch::Sender<u64>>,
    holding: Arc<watch::Sender<bool>>,
}

/// Until either end closes, or the connection is cut.
async fn relayed(near: TcpStream, far: TcpStream, gate: Gate, mut cut: broadcast::Receiver<()>) {
    let ((from, mut back), (mut answers, to)) = (near.into_split(), far.into_split());
    tokio::select! {
        () = forward(from, to, gate) => {}
        _ = tokio::io::copy(&mut answers, &mut back) => {}
        _ = cut.recv() => {}
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut gate: Gate) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let total = *gate.passing.borrow() + count as u64;
        let holds = total > *gate.allowed.borrow();
        if holds {
            gate.holding.send_replace(true);
        }
        if gate.allowed.wait_for(|allowed| total <= *allowed).await.is_err() {
            return;
        }
        if holds {
            gate.holding.send_replace(false);
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        gate.passing.send_modify(|passed| *passed += count as u64);
    }
}
