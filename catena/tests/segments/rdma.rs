//! What goes by RDMA, and what does not.

use std::time::Duration;

use catena::{Client, Export, Notify, Rights, SegmentPolicy, Way, exceptions as names};

use super::{ANY, PATIENCE, Pair, client_of, open, pair_over, patient_fabric, rdma_client_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rdma_carries_what_it_may_and_says_why_not() {
    let Pair { owner, importer } = pair_over(Way::Rdma, SegmentPolicy::default(), patient_fabric, ANY).await;
    let import = async |importer: &Client, name: &str| importer.import(name).await.unwrap();
    let _open = owner.export("open", 100_000, open(Rights::ALL)).unwrap();
    let _told = owner.export("told", 100_000, Export { on_read: Notify::Always, ..open(Rights::ALL) }).unwrap();
    let (way, why) = import(&importer, "owner/open").await.explain().await;
    assert!(way == Way::Rdma && why.contains("tcp;ofi_rxm"), "{way} {why}");
    let told = import(&importer, "owner/told").await;
    told.read(0, 100_000).await.unwrap();
    let (way, why) = told.explain().await;
    assert!(way == Way::Link && why.contains("is told of each access"), "{way} {why}");
    // Short accesses are for the link, which is as quick and costs less, unless somebody says otherwise.
    let patient = rdma_client_of(patient_fabric(), &owner, SegmentPolicy::default()).await;
    let far = import(&patient, "owner/open").await;
    far.write(0, &[1; 100][..]).await.unwrap();
    assert_eq!(far.way(), Way::Link);
    far.write(100, vec![2; 50_000]).await.unwrap();
    assert_eq!(far.way(), Way::Link, "a write by the link is before it");
    far.flush().await.unwrap();
    far.write(100, vec![3; 50_000]).await.unwrap();
    assert_eq!(far.way(), Way::Rdma);
    assert_eq!(far.read(99, 3).await.unwrap().as_ref(), [1, 3, 3], "what went by RDMA is there for the link");
    let without = client_of(&owner, SegmentPolicy::default()).await;
    let (way, why) = import(&without, "owner/open").await.explain().await;
    assert!(way == Way::Link && why.contains("no RDMA here"), "{way} {why}");
    owner.close(Duration::ZERO).await;
    // Its adapter reads without it until the registration is gone, too.
    let lost = async {
        loop {
            match far.read(0, 50_000).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(why) => break why,
            }
        }
    };
    let why = tokio::time::timeout(PATIENCE, lost).await.expect("the registration goes with the owner");
    assert_eq!(why.name, names::OWNER_LOST, "{why:?}");
}
