//! What an owner leaves behind when it goes, and when it begins anew.

use std::time::Duration;

use catena::{Client, Granted, Node, Rights, SegmentPolicy, Way, exceptions as names};
use catena_wire::At;

use super::{PATIENCE, Pair, client_of, fabric, held::HeldPort, name_of, open, pair_over};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_of_an_owner_is_told_apart() {
    /// Between a word that stands still and a READ that a busy machine answers late.
    const STILL: Duration = Duration::from_secs(5);
    let watch = async |far: catena::Imported, within| far.watch(0, Duration::from_millis(5), within).await;
    let pulse = async |client: &Client| client.import("owner/pulse").await.unwrap();
    // A word goes by the link where blocks go by RDMA.
    for way in [Way::Link, Way::SharedMemory] {
        // A port that is still there when the owner begins anew.
        let held = HeldPort::new();
        let address = held.address.to_string();
        let Pair { owner, importer } = pair_over(way, SegmentPolicy::default(), fabric, &address).await;
        let segment = owner.export("pulse", 8, open(Rights::READ)).unwrap();
        let revoked = tokio::spawn(watch(pulse(&importer).await, PATIENCE));
        segment.write(0, &1_u64.to_ne_bytes()).unwrap();
        segment.revoke().await.unwrap();
        assert_eq!(revoked.await.unwrap().name, names::SEGMENT_REVOKED);
        let segment = owner.export("pulse", 8, open(Rights::READ)).unwrap();
        let stalled = watch(pulse(&importer).await, STILL).await.name;
        assert_eq!(stalled, names::OWNER_STALLED, "{way:?}");
        let left = pulse(&importer).await;
        assert_eq!(left.read(0, 8).await.unwrap().as_ref(), [0; 8]);
        owner.close(Duration::ZERO).await;
        drop((segment, owner));
        assert_eq!(watch(left, STILL).await.name, names::OWNER_DEAD, "{way:?}");
        let first = Node::builder("owner").listen(&address).start().await.unwrap();
        let _pulse = first.export("pulse", 8, open(Rights::READ)).unwrap();
        let late = client_of(&first, SegmentPolicy::default()).await;
        let restarted = late.import("owner/pulse").await.unwrap();
        first.close(Duration::ZERO).await;
        drop((_pulse, first));
        let _second = Node::builder("owner").listen(&address).start().await.unwrap();
        assert_eq!(watch(restarted, STILL).await.name, names::OWNER_RESTARTED, "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_rise_across_restarts_and_what_was_imported_before_stays_out() {
    for way in [Way::Link, Way::SharedMemory] {
        // A port that is still there when the owner begins anew.
        let held = HeldPort::new();
        let address = held.address.to_string();
        let Pair { owner, importer } = pair_over(way, SegmentPolicy::default(), fabric, &address).await;
        let segment = owner.export("kept", 8, open(Rights::ALL)).unwrap();
        let before = importer.import("owner/kept").await.unwrap();
        assert_eq!(before.read(0, 8).await.unwrap().as_ref(), [0; 8]);
        let first = segment.id();
        owner.close(Duration::ZERO).await;
        drop((segment, owner));

        let owner = Node::builder("owner").listen(&address).start().await.unwrap();
        let segment = owner.export("kept", 8, open(Rights::ALL)).unwrap();
        let second = segment.id();
        assert!(second.number == first.number && second.generation > first.generation, "{first:?} {second:?}");
        assert_eq!(name_of(before.read(0, 8).await), names::OWNER_LOST, "{way:?}: it is of a run that is gone");
        let again = client_of(&owner, SegmentPolicy::default()).await;
        // Who asks the new run by what he knows of the old one, ...
        let at = At { number: first.number, generation: first.generation, offset: 0, grant: None };
        let stale = again.import_granted(owner.me(), &Granted { owner: owner.id(), at, bytes: 8 }).await.unwrap();
        assert_eq!(name_of(stale.read(0, 8).await), names::SEGMENT_STALE, "{way:?}");
        assert_eq!(name_of(stale.cas(0, 0, 1).await), names::SEGMENT_STALE, "{way:?}");
        // ... and by its name.
        assert_eq!(again.import("owner/kept").await.unwrap().read(0, 8).await.unwrap().as_ref(), [0; 8], "{way:?}");
    }
}
