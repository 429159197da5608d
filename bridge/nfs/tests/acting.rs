//! The bridge acts as its caller, not as its node: two users and a file of one of them, over nodes and a real nfs-ganesha.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use catena::{Client, Exception, Node, RunOptions, from_value, to_value};
use catena_bridge::{Identity, Root, UnixUser, Who, service_of};
use catena_bridge_nfs::{NfsBridge, NfsConfig, NfsService};
use catena_files::{
    CreateParams, DirEntry, Entry, LookupParams, MkdirParams, ReadParams, ReadResult, ReaddirParams, WriteParams,
};
use catena_ganesha::{GaneshaServer, Way};
use serde_bytes::ByteBuf;

/// A node that offers the same export three times: as its callers, as its callers without squashing root, and as the node (root).
async fn stage(server: &GaneshaServer) -> (Node, Client) {
    let bridge = NfsBridge::connect(server.config()).await.unwrap();
    let identities = [
        ("files", Identity::default()),
        ("files.trusting", Identity { act_as: Who::CallerOrNode, root: Root::Allow, ..Identity::default() }),
        ("files.node", Identity::node()),
    ];
    let mut builder = Node::builder("node").listen("127.0.0.1:0");
    for (name, identity) in identities {
        builder = builder.service(service_of(NfsService::new(name, bridge.clone(), identity)));
    }
    let node = builder.start().await.unwrap();
    let client = Client::connect(node.address().unwrap()).await.unwrap();
    (node, client)
}

fn as_user(uid: u32) -> RunOptions {
    let user = UnixUser { uid, gid: uid, groups: vec![] };
    RunOptions { credentials: Some(to_value(&user).unwrap()), ..RunOptions::default() }
}

/// The file, read by plain calls.
async fn by_calls(client: &Client, service: &str, options: &RunOptions) -> Result<String, Exception> {
    let lookup = LookupParams { path: Some("private".into()), ..LookupParams::default() };
    let found = client.call_with(service, "lookup", to_value(&lookup)?, options).await?;
    let handle = from_value::<Entry>(&found)?.handle;
    let read = ReadParams { handle, offset: 0, count: 99 };
    let read: ReadResult = from_value(&client.call_with(service, "read", to_value(&read)?, options).await?)?;
    Ok(String::from_utf8(read.data.into_vec()).unwrap())
}

/// The file, read by a chain that goes there.
async fn by_chain(client: &Client, service: &str, options: &RunOptions) -> Result<String, Exception> {
    let source = r#"import { call } from "catena";
        export default async (service) => {
            const { handle } = await call(`${service}/lookup`, { path: "private" });
            return (await call(`${service}/read`, { handle, offset: 0, count: 99 })).data;
        };"#;
    let code = client.javascript("read.js", source).await?;
    let mut replies = client.run_with(&code, &to_value(service)?, options)?;
    let data: ByteBuf = from_value(&replies.last().await?)?;
    Ok(String::from_utf8(data.into_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_caller_sees_what_it_may() {
    let server = GaneshaServer::start();
    std::os::unix::fs::chown(&server.dir, Some(1234), Some(1234)).unwrap();
    let (_node, client) = stage(&server).await;

    let create = CreateParams { path: Some("private".into()), mode: Some(0o600), ..CreateParams::default() };
    let made = client.call_with("files", "create", to_value(&create).unwrap(), &as_user(1234)).await.unwrap();
    let made: Entry = from_value(&made).unwrap();
    assert_eq!((made.attributes.uid, made.attributes.gid), (1234, 1234), "made as the caller");
    let write =
        WriteParams { handle: made.handle, offset: 0, data: ByteBuf::from(b"mine"), stable: Default::default() };
    client.call_with("files", "write", to_value(&write).unwrap(), &as_user(1234)).await.unwrap();

    let nobody = RunOptions::default();
    let refusal = "refused were the caller's credentials (uid 4321, gid 4321)";
    let squashed = "refused were the caller's credentials (uid 65534, gid 65534)";
    for (service, options, expected) in [
        ("files", as_user(1234), Ok("mine")),
        ("files", as_user(4321), Err(("NFS3ERR_ACCES", refusal))),
        ("files", as_user(0), Err(("NFS3ERR_ACCES", squashed))),
        ("files", nobody.clone(), Err(("CredentialsNeeded", "{uid, gid, groups}"))),
        ("files.trusting", as_user(0), Ok("mine")),
        ("files.trusting", as_user(4321), Err(("NFS3ERR_ACCES", refusal))),
        ("files.trusting", nobody.clone(), Ok("mine")),
        ("files.node", as_user(4321), Ok("mine")),
        ("files.node", nobody, Ok("mine")),
    ] {
        let (calls, chain) = (by_calls(&client, service, &options).await, by_chain(&client, service, &options).await);
        for got in [calls, chain] {
            match (got, expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected),
                (Err(why), Err((name, words))) => {
                    assert!(why.name == name && why.message.contains(words), "{service}, {options:?}: {why}");
                }
                (got, _) => panic!("{service}, {options:?}: {got:?}, not {expected:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_s_own_credentials_are_named_where_they_are_refused() {
    let server = GaneshaServer::start_with("Root_Squash");
    std::os::unix::fs::chown(&server.dir, Some(1234), Some(1234)).unwrap();
    let (_node, client) = stage(&server).await;
    let create = CreateParams { path: Some("private".into()), mode: Some(0o600), ..CreateParams::default() };
    client.call_with("files", "create", to_value(&create).unwrap(), &as_user(1234)).await.unwrap();
    let why = by_chain(&client, "files.node", &as_user(1234)).await.unwrap_err();
    assert_eq!(why.name, "NFS3ERR_ACCES", "{why}");
    assert!(why.message.contains("refused were the node's own credentials"), "{why}");
    assert_eq!(by_chain(&client, "files", &as_user(1234)).await.unwrap(), "", "the owner reads on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_listed_by_replies_to_whom_it_may_be() {
    let server = GaneshaServer::start();
    let secret = server.dir.join("secret");
    std::fs::create_dir(&secret).unwrap();
    (0..300).for_each(|number| std::fs::write(secret.join(format!("{number:03}")), "").unwrap());
    std::os::unix::fs::chown(&secret, Some(1234), Some(1234)).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let (_node, client) = stage(&server).await;
    let look = LookupParams { path: Some("secret".into()), ..LookupParams::default() };
    let found = client.call_with("files", "lookup", to_value(&look).unwrap(), &as_user(1234)).await.unwrap();
    let dir = ReaddirParams { dir: Some(from_value::<Entry>(&found).unwrap().handle), ..ReaddirParams::default() };
    let list = |uid| client.replies_with("files/list", to_value(&dir).unwrap(), &as_user(uid)).unwrap();

    let mut replies = list(1234);
    let mut names = std::collections::BTreeSet::new();
    while let Some(entry) = replies.next().await {
        names.insert(from_value::<DirEntry>(&entry.unwrap().into_value()).unwrap().name);
    }
    assert_eq!(names.len(), 300);
    let why = list(4321).in_parallel(1, async |_| ()).await.unwrap_err();
    assert_eq!(why.name, "NFS3ERR_ACCES", "{why}");
    assert!(why.message.contains("uid 4321"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_is_lost_ends_as_unknown_and_a_read_does_not() {
    let server = GaneshaServer::start();
    let way = Way::to(server.nfs_port).await;
    let config = NfsConfig { nfs_port: Some(way.port), ..server.config() };
    let bridge = NfsBridge::connect(config).await.unwrap();
    let service = service_of(NfsService::new("files", bridge, Identity::node()));
    let node = Node::builder("node").listen("127.0.0.1:0").service(service).start().await.unwrap();
    let client = Client::connect(node.address().unwrap()).await.unwrap();
    let source = r#"import { call } from "catena"; export default ([name, params]) => call(`files/${name}`, params);"#;
    let code = client.javascript("once.js", source).await.unwrap();
    way.break_off();

    let make = || ("mkdir", MkdirParams { path: Some("made".into()), ..MkdirParams::default() });
    let by_chain = client.run(&code, &make()).await.unwrap().last().await.unwrap_err();
    assert_eq!((by_chain.name.as_str(), by_chain.unknown), ("FILES_OUTCOME_UNKNOWN", true), "{by_chain}");
    assert!(server.dir.join("made").is_dir(), "it was done");
    let (function, params) = make();
    let by_call = client.call::<_, Entry>("files", function, &params).await.unwrap_err();
    assert_eq!((by_call.name.as_str(), by_call.unknown), ("FILES_OUTCOME_UNKNOWN", true), "{by_call}");
    let look = LookupParams { path: Some("made".into()), ..LookupParams::default() };
    let read = client.call::<_, Entry>("files", "lookup", &look).await.unwrap_err();
    assert_eq!((read.name.as_str(), read.unknown), ("FILES_UNREACHABLE", false), "{read}");
}
