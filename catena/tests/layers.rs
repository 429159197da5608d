//! The API of the RPC Chains paper (section 3.1) and static lists of servers: thin layers over `call`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use catena::{RunOptions, from_value, to_value};
use common::mesh;
use serde_json::{Value as Json, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_papers_own_api_runs_a_chain() {
    let mesh = mesh(3).await;
    let source = r#"import { startChain } from "catena";
        function first(state, result) {
            return { server: "b", sf: "echo", params: result + 1, cf: second, state: { ...state, first: result } };
        }
        function second(state, result) {
            return { server: "c", sf: "where", params: null, cf: third, state: { ...state, second: result } };
        }
        const third = (state, result) => ({ server: null, state: { ...state, third: result } });
        export default () => startChain("a", "echo", 41, first, { begun: true });"#;
    let code = mesh.code(source).await;
    let mut replies = mesh.client.run_with(&code, &to_value(&()).unwrap(), &RunOptions::default()).unwrap();
    let got: Json = from_value(&replies.last().await.unwrap()).unwrap();
    assert_eq!(got, json!({ "begun": true, "first": 41, "second": 42, "third": "c" }));
    assert_eq!(replies.path(), ["client", "a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_list_of_servers_is_visited_in_order() {
    let mesh = mesh(3).await;
    let source = r#"import { visit } from "catena"; export default (targets) => visit(targets, "params");"#;
    let code = mesh.code(source).await;
    let input = to_value(&["a/echo", "b/echo", "c/echo", "c/echo"]).unwrap();
    let mut replies = mesh.client.run_with(&code, &input, &RunOptions::default()).unwrap();
    assert_eq!(from_value::<String>(&replies.last().await.unwrap()).unwrap(), "params");
    assert_eq!(replies.path(), ["client", "a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chaining_function_that_throws_ends_the_chain_where_it_is() {
    let mesh = mesh(2).await;
    let source = r#"import { startChain } from "catena";
        export default () => startChain("b", "where", null, () => { throw new RangeError("no way on"); }, {});"#;
    let why = mesh.run(source, Json::Null).await.unwrap_err();
    assert_eq!((why.name.as_str(), why.path.last().map(String::as_str)), ("RangeError", Some("b")));
}
