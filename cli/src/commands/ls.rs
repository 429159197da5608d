//! `catena ls`.

use std::collections::BTreeSet;

use catena::{Client, ServiceEntry};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::{
    commands::segments,
    connect::{self, At},
    failure::Failure,
    nearest::did_you_mean,
    output::{Output, printable},
};

/// List the services there are
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  catena ls\n  catena ls --site cam\n  catena ls --segments\n  catena ls --connect 10.0.0.7:7400 --json"
)]
pub(crate) struct Ls {
    #[command(flatten)]
    at: At,
    /// Only those of nodes at this site
    #[arg(long, value_name = "SITE", value_hint = ValueHint::Other)]
    site: Option<String>,
    /// List segments instead, with the way by which each is read from here, and why (as `catena segments ls --explain`)
    #[arg(long, conflicts_with = "site")]
    segments: bool,
}

pub(crate) async fn run(args: &Ls, output: &Output) -> Result<(), Failure> {
    if args.segments {
        return segments::explain_all(&args.at, output).await;
    }
    let asked = async |client: &Client| Ok(client.services().await);
    let asked = connect::ask(args.at.connect(output), "asking the nodes", output, asked);
    let all = asked.await?;
    let here = |entry: &&ServiceEntry| args.site.is_none() || entry.node.site == args.site;
    let services: Vec<_> = all.iter().filter(here).collect();
    if output.json {
        let services: Vec<_> = services.into_iter().map(entry).collect();
        return output.json_line(&json!({ "services": services }));
    }
    if services.is_empty() {
        output.talk(&none(&all, args.site.as_deref()));
        return Ok(());
    }
    let rows = services.iter().map(|ServiceEntry { service, node, functions, .. }| {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        [service.clone(), node.name.clone(), or_dash(&node.site), or_dash(&node.address), functions.join(" ")]
    });
    output.table(["service", "node", "site", "address", "functions"], rows)
}

/// Why there is nothing to list.
fn none(all: &[ServiceEntry], site: Option<&str>) -> String {
    let Some(site) = site.filter(|_| !all.is_empty()) else {
        return "no node that can be reached from there offers a service".to_owned();
    };
    let sites: BTreeSet<_> = all.iter().filter_map(|entry| entry.node.site.as_deref()).collect();
    let known = sites.iter().copied().collect::<Vec<_>>().join(", ");
    let help = did_you_mean(site, sites, &format!("there are nodes at: {known}"));
    printable(&format!("no node at site {site} offers a service; {help}"))
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
