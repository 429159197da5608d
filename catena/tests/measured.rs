//! Adaptive chains over links that nobody has described: they go by what was measured.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use catena::{Mode, RunOptions, to_value};
use common::{Mesh, mesh_with};

async fn path(mesh: &Mesh, source: &str, mode: Mode) -> Vec<String> {
    let code = mesh.code(source).await;
    let options = RunOptions { mode, ..RunOptions::default() };
    let mut replies = mesh.client.run_with(&code, &to_value(&()).unwrap(), &options).unwrap();
    replies.last().await.unwrap();
    replies.path().to_vec()
}

/// 4 MB come to the client, five times.
const BRING: &str = r#"import { call } from "catena";
    export default async () => {
        let bytes = 0;
        for (let n = 0; n < 5; n++) bytes += (await call("a/blob", 4_000_000)).length;
        return bytes;
    };"#;

/// Has 8 MB with it.
const LADEN: &str = r#"import { call } from "catena";
    export default async () => {
        const load = "x".repeat(8_000_000);
        return [await call("a/where", null), load.length];
    };"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_with_much_to_carry_stays_once_its_link_has_been_measured() {
    // What is copied in memory is so quick that a busy machine's round trip weighs as much; what goes by a socket is not.
    let mesh = mesh_with(1, catena::NodeBuilder::without_shared_memory).await;
    assert_eq!(path(&mesh, BRING, Mode::Interactive).await, ["client"]);
    // The first two runs try both ways, which shows how large the state is; the third goes by the link.
    assert_eq!(path(&mesh, LADEN, Mode::Adaptive).await, ["client", "a"]);
    assert_eq!(path(&mesh, LADEN, Mode::Adaptive).await, ["client"]);
    assert_eq!(path(&mesh, LADEN, Mode::Adaptive).await, ["client"]);
}
