//! What the service functions of a chain read of blobs, and by which way that came.

use catena::BlobBytes;
use serde_json::{Map, Value};

use super::bytes;

/// A way: its key for programs, its words for people, and the bytes that came by it.
type Way = (&'static str, &'static str, fn(&BlobBytes) -> u64);

const WAYS: [Way; 5] = [
    ("own", "from here", |read| read.own),
    ("shared_memory", "by shared memory", |read| read.shared_memory),
    ("rdma", "by RDMA", |read| read.rdma),
    ("link", "by link", |read| read.link),
    ("pushed", "pushed", |read| read.pushed),
];

pub(super) fn json(read: &BlobBytes) -> Value {
    WAYS.iter().map(|(key, _, by)| ((*key).to_owned(), by(read).into())).collect::<Map<_, _>>().into()
}

/// Such as `45.8 MB by link + 4.2 MB pushed`; empty where nothing was read.
pub(super) fn text(reads: &[&BlobBytes]) -> String {
    let sum = |by: &fn(&BlobBytes) -> u64| reads.iter().map(|read| by(read)).fold(0, u64::saturating_add);
    let ways = WAYS.iter().map(|(_, words, by)| (words, sum(by))).filter(|(_, count)| *count > 0);
    ways.map(|(words, count)| format!("{} {words}", bytes(count))).collect::<Vec<_>>().join(" + ")
}
