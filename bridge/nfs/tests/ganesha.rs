//! The bridge against a real nfs-ganesha.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use catena_bridge_nfs::{ConnectError, Credentials, NfsBridge, NfsConfig};
use catena_files::testing::{conformance, create, lookup, mkdir, read, write};
use catena_files::{CreateParams, FileService, MkdirParams, ReaddirParams, Stable};
use catena_ganesha::GaneshaServer;

async fn bridge(server: &GaneshaServer) -> NfsBridge {
    NfsBridge::connect(server.config()).await.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn it_conforms() {
    let server = GaneshaServer::start();
    conformance(&bridge(&server).await).await;
}

#[tokio::test]
async fn what_is_written_is_on_the_server_s_disk() {
    let server = GaneshaServer::start();
    let service = bridge(&server).await;
    mkdir(&service, "dir").await;
    let file = create(&service, "dir/file").await.handle;
    write(&service, &file, 0, b"through NFS", Stable::FileSync).await.unwrap();
    assert_eq!(std::fs::read(server.dir.join("dir/file")).unwrap(), b"through NFS");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_share_few_connections() {
    let server = GaneshaServer::start();
    let service = NfsBridge::connect(NfsConfig { connections_max: 3, ..server.config() }).await.unwrap();
    let file = create(&service, "file").await.handle;
    let data: Vec<u8> = (0..400_000u32).map(|at| (at / 1000) as u8).collect();
    write(&service, &file, 0, &data, Stable::Unstable).await.unwrap();
    let reads = (0..40u64).map(|part| {
        let (service, file) = (service.clone(), file.clone());
        tokio::spawn(async move { (part, read(&service, &file, part * 10_000, 10_000).await.unwrap()) })
    });
    for task in reads.collect::<Vec<_>>() {
        let (part, result) = task.await.unwrap();
        let from = usize::try_from(part).unwrap() * 10_000;
        assert_eq!(result.data.as_slice(), &data[from..from + 10_000]);
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_no_half_answer_behind() {
    let server = GaneshaServer::start();
    let service = NfsBridge::connect(NfsConfig { connections_max: 1, ..server.config() }).await.unwrap();
    let file = create(&service, "file").await.handle;
    let data = vec![7; 1 << 20];
    write(&service, &file, 0, &data, Stable::Unstable).await.unwrap();
    for polls in 1..6 {
        let mut call = Box::pin(read(&service, &file, 0, 1 << 20));
        for _ in 0..polls {
            tokio::select! { biased; _ = &mut call => break, () = tokio::task::yield_now() => {} }
        }
        drop(call);
        assert_eq!(read(&service, &file, 5, 3).await.unwrap().data.as_slice(), [7, 7, 7], "after {polls} polls");
    }
}

#[tokio::test]
async fn a_server_that_restarted_is_found_again() {
    let mut server = GaneshaServer::start();
    let service = bridge(&server).await;
    let file = create(&service, "file").await.handle;
    let before = write(&service, &file, 0, b"kept", Stable::FileSync).await.unwrap().verifier;
    server.restart();
    assert_eq!(read(&service, &file, 0, 9).await.unwrap().data.as_slice(), b"kept", "the same handle goes on working");
    let after = write(&service, &file, 4, b"!", Stable::Unstable).await.unwrap().verifier;
    assert_ne!(before, after, "the verifier tells of the restart");
}

#[tokio::test]
async fn a_server_that_is_gone_is_named() {
    let mut server = GaneshaServer::start();
    let service = bridge(&server).await;
    let file = create(&service, "file").await.handle;
    server.stop();
    for error in [
        write(&service, &file, 0, b"x", Stable::Unstable).await.unwrap_err(),
        read(&service, &file, 0, 1).await.unwrap_err(),
    ] {
        assert_eq!(error.name(), "FILES_UNREACHABLE", "{error}");
        assert!(error.to_string().contains(&format!("127.0.0.1:{}", server.nfs_port)), "{error}");
    }
    let error = NfsBridge::connect(server.config()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { service: "mount", .. }), "{error}");
}

#[tokio::test]
async fn an_export_that_is_not_there_is_named() {
    let server = GaneshaServer::start();
    let config = NfsConfig { export: "/no/such/export".to_owned(), ..server.config() };
    let error = NfsBridge::connect(config).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/export") && error.to_string().contains("MNT3ERR_"), "{error}");
}

#[tokio::test]
async fn a_call_acts_as_the_user_it_names() {
    let server = GaneshaServer::start_with("Root_Squash");
    std::os::unix::fs::chown(&server.dir, Some(1234), Some(1234)).unwrap();
    let root = bridge(&server).await;
    let user = root.with_credentials(Credentials { uid: 1234, gid: 1234, ..Credentials::default() }).unwrap();
    let other = root.with_credentials(Credentials { uid: 4321, gid: 4321, ..Credentials::default() }).unwrap();
    let private = CreateParams { name: Some("private".into()), mode: Some(0o600), ..CreateParams::default() };
    let file = user.create(private.clone()).await.unwrap();
    assert_eq!((file.attributes.uid, file.attributes.gid), (1234, 1234));
    write(&user, &file.handle, 0, b"mine", Stable::Unstable).await.unwrap();
    for (service, who) in [(&other, "another user"), (&root, "root, whom the export does not trust")] {
        let error = read(service, &file.handle, 0, 9).await.expect_err(who);
        assert_eq!(error.name(), "NFS3ERR_ACCES", "{who}: {error}");
        let dir = MkdirParams { name: Some("dir".into()), ..MkdirParams::default() };
        assert_eq!(service.mkdir(dir).await.expect_err(who).name(), "NFS3ERR_ACCES", "{who}");
    }
    let many = Credentials { gids: vec![1; 17], ..Credentials::default() };
    assert!(root.with_credentials(many).unwrap_err().to_string().contains("gids_max"));
}

#[tokio::test]
async fn links_are_shown_and_never_followed() {
    let server = GaneshaServer::start();
    std::os::unix::fs::symlink("/etc", server.dir.join("out")).unwrap();
    let service = bridge(&server).await;
    let link = lookup(&service, "out").await.unwrap();
    assert_eq!(link.attributes.kind, catena_files::Kind::Symlink);
    assert_eq!(lookup(&service, "out/passwd").await.unwrap_err().name(), "NFS3ERR_NOTDIR");
    assert_eq!(read(&service, &link.handle, 0, 9).await.unwrap_err().name(), "NFS3ERR_INVAL");
}

#[tokio::test]
async fn a_directory_of_thousands_is_listed_page_by_page() {
    let server = GaneshaServer::start();
    for number in 0..3000 {
        std::fs::write(server.dir.join(format!("file-{number:04}")), "").unwrap();
    }
    let service = bridge(&server).await;
    let (mut seen, mut cookie) = (std::collections::BTreeSet::new(), None);
    loop {
        let page = service.readdir(ReaddirParams { cookie, count: Some(1024), dir: None }).await.unwrap();
        for entry in page.entries {
            assert!(seen.insert(entry.name.clone()), "{} came twice", entry.name);
        }
        cookie = page.next;
        if page.eof {
            break;
        }
    }
    assert_eq!(seen.len(), 3000);
}
