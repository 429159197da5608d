//! A directory of many names. Its test is alone in this program, since it measures the memory of the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use catena_dfs::{NfsDoor, Way};
use catena_files::testing::lookup;
use catena_files::{FileService, LookupParams, ReaddirParams};
use common::{bridge, clerk, serve};

/// Bytes of memory that this process has.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// By the clerk and by NFS: page by page, each continued by the cookie of the one before, by which nobody keeps anything; then names among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_a_hundred_thousand_names_is_listed_and_looked_up_in() {
    const NAMES: usize = 100_000;
    // A file of ext4 has 65,000 names at most.
    const FILES: usize = 10;
    const MEMORY_BYTES_MAX: u64 = 128 << 20;
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), |_| ()).await;
    let clerk = clerk(server.address(), Way::Data).await;
    let door = NfsDoor::open(clerk.clone(), 0).await.unwrap();
    let many = folder.path().join("many");
    std::fs::create_dir(&many).unwrap();
    // Many names of few files: file systems take long to make many files where many have just been deleted.
    for number in 0..NAMES {
        let (name, file) = (many.join(number.to_string()), number % FILES);
        if file == number {
            std::fs::File::create(name).unwrap();
        } else {
            std::fs::hard_link(many.join(file.to_string()), name).unwrap();
        }
    }
    let bridge = bridge(door.port()).await;
    let before = resident_bytes();
    for service in [&clerk as &dyn FileService, &bridge] {
        let dir = lookup(service, "many").await.unwrap().handle;
        let mut asked = ReaddirParams { dir: Some(dir.clone()), cookie: None, count: Some(1_024) };
        let mut seen = vec![false; NAMES];
        loop {
            let page = service.readdir(asked.clone()).await.unwrap();
            for entry in page.entries {
                let number: usize = entry.name.parse().unwrap();
                assert!(!std::mem::replace(&mut seen[number], true), "{number} came twice");
            }
            let Some(next) = page.next else { break };
            asked.cookie = Some(next);
        }
        assert_eq!(seen.iter().filter(|seen| **seen).count(), NAMES);
        for number in (0..NAMES).step_by(997) {
            let params =
                LookupParams { dir: Some(dir.clone()), name: Some(number.to_string()), ..LookupParams::default() };
            assert_eq!(service.lookup(params).await.unwrap().attributes.size, 0, "{number}");
        }
        assert_eq!(lookup(service, "many/none").await.unwrap_err().name(), "NFS3ERR_NOENT");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < MEMORY_BYTES_MAX, "{grown} bytes, with {:?} entries in the caches", server.cached());
}
