//! Adaptive chains over processes: each way is tried, and it shows which (rpc-chains section 7.2).

use catena::{Mode, RunOptions};
use serde_json::{Value as Json, json};

use crate::nodes::{Nodes, begin_with};

#[tokio::test(flavor = "multi_thread")]
async fn an_adaptive_function_tries_each_way_by_turns() {
    let (_nodes, client) = Nodes::patient(&["a", "b"]).await;
    let source = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("b/where", null)];"#;
    let options = RunOptions { mode: Mode::Adaptive, ..RunOptions::default() };
    let mut paths = Vec::new();
    for _ in 0..3 {
        let ended = begin_with(&client, source, Json::Null, options.clone()).await.unwrap();
        assert_eq!(ended.value(), &json!(["a", "b"]));
        paths.push(ended.path.join(" "));
    }
    // By turns: as a chain, from here, and as each call seems best; nothing is known of links that are not shaped, so those move.
    assert_eq!(paths, ["client a b", "client", "client a b"]);
}
