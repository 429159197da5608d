#![allow(clippy::unwrap_used)]
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::*;
use crate::nfs::tests::opened;

/// A client that is gone before its connection is accepted: no other task runs meanwhile.
fn abort(port: u16) -> bool {
    let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_nonblocking(true).unwrap();
    TcpStream::from_std(stream).unwrap().set_zero_linger().unwrap();
    true
}

/// Whether the server answers a NULL call (RFC 1813) without credentials.
async fn is_answered(port: u16) -> bool {
    const LAST_FRAGMENT: u32 = 1 << 31;
    let call = [LAST_FRAGMENT | 40, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    stream.write_all(&call).await.is_ok() && stream.read_u32().await.is_ok()
}

/// Waits until a client is answered: a connection that arrives during a rebind may be lost.
async fn answered(port: u16) {
    let trying = async {
        while !is_answered(port).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), trying).await.unwrap();
}

/// However many clients go away, whatever they leave behind in the library goes with its listener, and the port stays bound.
#[tokio::test]
async fn clients_that_are_gone_leave_nothing_and_others_are_served() {
    const RESUMED: u32 = 4;
    let (_folder, _server, files) = opened().await;
    let listener = bind(files.clone(), 0, 1).await.unwrap();
    let port = listener.get_listen_port();
    let serving = tokio::spawn(serve(listener, files, 1, RESUMED));
    answered(port).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (before, mut aborted) = (alive(), 0);
    while aborted < 40 {
        aborted += usize::from(abort(port));
        answered(port).await;
    }
    assert!(alive() < before + 20, "{} tasks, {before} before", alive());
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    assert!(!is_answered(port).await);
}

#[test]
fn trouble_is_said_once_a_second_and_the_rest_is_counted() {
    let (mut trouble, now) = (Trouble::default(), Instant::now());
    let mut said = |at: Instant| {
        let passed = trouble.pass(at);
        trouble.unsaid += u64::from(passed.is_none());
        passed
    };
    assert_eq!([said(now), said(now), said(now)], [Some(0), None, None]);
    assert_eq!([said(now + SAID_EVERY), said(now + SAID_EVERY)], [Some(2), None]);
    assert_eq!(said(now + 2 * SAID_EVERY), Some(1));
}
