//! `catena ls`.

use catena::ServiceEntry;
use clap::Args;
use serde_json::json;

use crate::{
    connect::{self, At},
    failure::Failure,
    output::{Output, printable},
    progress::Progress,
    signals::Signals,
    table,
};

/// List the services there are
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  catena ls\n  catena ls --connect 10.0.0.7:7400 --json")]
pub(crate) struct Ls {
    #[command(flatten)]
    at: At,
}

pub(crate) async fn run(args: &Ls, output: &Output) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let client = signals.unless(connect::connect(&args.at, None, None, output)).await?;
    let asked = signals
        .unless(async {
            let _progress = Progress::new(output, "asking the nodes");
            Ok(client.services().await)
        })
        .await;
    connect::close(client).await;
    let services = asked?;
    if output.json {
        let services: Vec<_> = services.iter().map(entry).collect();
        return output.json_line(&json!({ "services": services }));
    }
    if services.is_empty() {
        output.talk("no node that can be reached from there offers a service");
        return Ok(());
    }
    let rows = services.iter().map(|entry| {
        let functions: Vec<String> = entry.functions.iter().map(|name| printable(name)).collect();
        [
            printable(&entry.service),
            printable(&entry.node.name),
            printable(entry.node.site.as_deref().unwrap_or("-")),
            printable(entry.node.address.as_deref().unwrap_or("-")),
            functions.join(" "),
        ]
    });
    output.data(&table::text(["service", "node", "site", "address", "functions"], rows, output))
}

fn entry(entry: &ServiceEntry) -> serde_json::Value {
    json!({
        "service": entry.service,
        "functions": entry.functions,
        "node": entry.node.name,
        "site": entry.node.site,
        "address": entry.node.address,
    })
}
