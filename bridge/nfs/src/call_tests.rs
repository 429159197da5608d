//! What a lost connection and a broken answer mean, against a server made of plain sockets.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};

use nfs3_client::nfs3_types::nfs3::{GETATTR3args, GETATTR3resok, nfs_fh3};
use nfs3_client::nfs3_types::xdr_codec::{Opaque, Void};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::pool::Dialer;
use crate::reply::{Data, Found, Made, Page};

/// A server that answers every call with its xid followed by these bytes, or hangs up if there are none, or never answers; also returns how many connections it
/// took.
async fn server(answer: Option<Vec<u8>>) -> (u16, Arc<AtomicUsize>) {
    let dropped = if answer.is_none() { usize::MAX } else { 0 };
    server_that_drops(dropped, answer.unwrap_or_default()).await
}

/// The same; it never answers the calls of its first connections.
async fn server_that_drops(dropped: usize, answer: Vec<u8>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let before = count.fetch_add(1, Ordering::SeqCst);
            let length = stream.read_u32().await.unwrap() & 0x7FFF_FFFF;
            let mut call = vec![0; length as usize];
            stream.read_exact(&mut call).await.unwrap();
            match &answer {
                _ if before < dropped => silent.push(stream),
                answer if answer.is_empty() => {}
                answer => {
                    let length = u32::try_from(answer.len() + 4).unwrap() | 0x8000_0000;
                    let mut bytes = length.to_be_bytes().to_vec();
                    bytes.extend_from_slice(&call[..4]);
                    bytes.extend_from_slice(answer);
                    let _ = stream.write_all(&bytes).await;
                }
            }
        }
    });
    (port, connections)
}

fn caller(port: u16, call_timeout_ms: u64) -> Caller {
    let config = NfsConfig { call_timeout_ms, ..NfsConfig::new("127.0.0.1", "/") };
    Caller::new(Arc::new(Pool::new(Dialer::new(&config), port, 2)), &config)
}

async fn call<T: Unpack + Send + std::fmt::Debug>(caller: &Caller, repeatable: bool) -> Result<T, FileError> {
    let call = Call { procedure: NFS_PROGRAM::NFSPROC3_GETATTR, what: "probe of \"x\"".to_owned(), repeatable };
    let args = GETATTR3args { object: nfs_fh3 { data: Opaque::owned(vec![1; 8]) } };
    caller.call::<_, T, Void>(&call, &args).await
}

/// The words of a reply after its xid: accepted, no verifier, success, then these.
fn accepted(words: &[u32]) -> Vec<u8> {
    [1, 0, 0, 0, 0].iter().chain(words).flat_map(|word| word.to_be_bytes()).collect()
}

#[tokio::test]
async fn a_lost_answer_is_fetched_again_only_if_that_does_no_harm() {
    let (port, connections) = server(Some(Vec::new())).await;
    let error = call::<GETATTR3resok>(&caller(port, 5_000), false).await.unwrap_err();
    assert_eq!(error.name(), "FILES_OUTCOME_UNKNOWN", "{error}");
    assert!(error.to_string().contains("probe of \"x\""), "{error}");
    assert_eq!(connections.load(Ordering::SeqCst), 1, "what may have been done is not sent again");
    let error = call::<GETATTR3resok>(&caller(port, 5_000), true).await.unwrap_err();
    assert_eq!(error.name(), "FILES_UNREACHABLE", "{error}");
    assert_eq!(connections.load(Ordering::SeqCst), 1 + 3, "one attempt and retries_max = 2 more");
}

#[tokio::test]
async fn a_silent_server_costs_no_more_than_the_timeout() {
    let (port, connections) = server(None).await;
    let caller = caller(port, 1_000);
    let begun = Instant::now();
    assert_eq!(call::<GETATTR3resok>(&caller, false).await.unwrap_err().name(), "FILES_OUTCOME_UNKNOWN");
    assert_eq!(call::<GETATTR3resok>(&caller, true).await.unwrap_err().name(), "FILES_UNREACHABLE");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(connections.load(Ordering::SeqCst), 1 + 2, "what may be repeated is asked twice");
}

#[tokio::test]
async fn a_call_that_the_server_drops_is_asked_again_only_if_that_does_no_harm() {
    let refused = accepted(&[70]);
    let (port, connections) = server_that_drops(1, refused.clone()).await;
    let error = call::<GETATTR3resok>(&caller(port, 8_000), true).await.unwrap_err();
    assert_eq!(error.name(), "NFS3ERR_STALE", "{error}");
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    let (port, connections) = server_that_drops(1, refused).await;
    let error = call::<GETATTR3resok>(&caller(port, 1_000), false).await.unwrap_err();
    assert_eq!(error.name(), "FILES_OUTCOME_UNKNOWN", "{error}");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_was_never_sent_had_no_effect() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let error = call::<GETATTR3resok>(&caller(gone, 5_000), false).await.unwrap_err();
    assert_eq!(error.name(), "FILES_UNREACHABLE", "{error}");
    assert!(error.to_string().contains(&gone.to_string()), "{error}");
}

#[tokio::test]
async fn refusals_keep_their_names() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let cases = [
        (accepted(&[28]), "NFS3ERR_NOSPC", "no space"),
        (accepted(&[10008]), "NFS3ERR_JUKEBOX", "again"),
        (words(&[1, 1, 1, 5]), "NFS3ERR_ACCES", "AUTH_TOOWEAK"),
        (words(&[1, 0, 0, 0, 1]), "NFS3ERR_NOTSUPP", "unavailable"),
        (words(&[1, 0, 0, 0, 4]), "NFS3ERR_SERVERFAULT", "arguments"),
        // A status that NFS does not have, an unknown verdict, a verifier of 4 GiB: the server may have done anything.
        (accepted(&[4242]), "FILES_OUTCOME_UNKNOWN", "makes no sense"),
        (words(&[7, 7]), "FILES_OUTCOME_UNKNOWN", "makes no sense"),
        (words(&[1, 0, 0, u32::MAX, 0, 0]), "FILES_OUTCOME_UNKNOWN", "verifier"),
    ];
    for (answer, name, text) in cases {
        let (port, _) = server(Some(answer.clone())).await;
        let error = call::<GETATTR3resok>(&caller(port, 5_000), false).await.unwrap_err();
        assert_eq!(error.name(), name, "{answer:02x?}: {error}");
        assert!(error.to_string().contains(text), "{text:?} is missing: {error}");
    }
}

#[test]
fn a_length_beyond_its_bound_takes_no_memory() {
    let huge: Vec<u8> = [0, 0, 0, u32::MAX].iter().flat_map(|word| word.to_be_bytes()).collect();
    assert!(Data::unpack(&mut huge.as_slice()).is_err());
    assert!(Found::unpack(&mut &huge[12..]).is_err());
}

proptest! {
    #[test]
    fn any_answer_is_decoded_or_refused(words in proptest::collection::vec(prop_oneof![0u32..4, any::<u32>()], 0..40)) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        prop_assert!(says_what_it_takes::<Data>(&bytes));
        prop_assert!(says_what_it_takes::<Found>(&bytes));
        prop_assert!(says_what_it_takes::<Made>(&bytes));
        prop_assert!(says_what_it_takes::<Page>(&bytes));
        prop_assert!(says_what_it_takes::<crate::reply::Mounted>(&bytes));
    }
}

/// An answer that is decoded says how many bytes it was read from.
fn says_what_it_takes<T: Unpack>(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let decoded = T::unpack(&mut rest);
    decoded.is_err() || decoded.is_ok_and(|(_, taken)| taken == bytes.len() - rest.len())
}
