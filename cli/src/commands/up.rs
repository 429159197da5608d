//! `catena up FILE.toml`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use catena::{Node, NodeBuilder, Segment, StartError, Topology};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::{
    config::{NodeFile, SegmentFile},
    connect::{self, Given},
    failure::Failure,
    output::{Output, Paint},
    progress::Progress,
    sandbox,
    signals::Signals,
    talk,
};

/// A file with everything in it.
pub(crate) const EXAMPLE: &str = include_str!("../../../examples/node.toml");

fn more_help() -> String {
    let file = format!("\n{EXAMPLE}").trim_end().replace('\n', "\n  ").replace("\n  \n", "\n\n");
    format!(
        "A file with everything in it; only `name` must be there:{file}\n\n\
        Examples:\n  \
        catena check mtv.toml              what a file means, without starting anything\n  \
        catena up mtv.toml\n  \
        catena up mtv.toml --listen 127.0.0.1:0 --json"
    )
}

/// Start a node from a TOML file
///
/// It runs until Ctrl-C, SIGTERM or SIGHUP, then closes its links cleanly; a second signal ends it at once. The word `ready` comes on standard
/// output when it has started. Nodes to join that are down are tried again.
#[derive(Debug, Args)]
#[command(after_help = more_help())]
pub(crate) struct Up {
    /// The node's file
    #[arg(value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Listen there instead of where the file says; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT", value_hint = ValueHint::Other, value_parser = connect::address)]
    listen: Option<String>,
    /// Tell other nodes to dial this address instead of the one it listens on; port 0 stands for the port it listens on
    #[arg(long, value_name = "HOST:PORT", value_hint = ValueHint::Other, value_parser = connect::address)]
    advertise: Option<String>,
    /// Find services by this file as well: TOML, [services] "ID" = ["HOST:PORT"]; it is read again when it changes
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    names: Option<PathBuf>,
}

pub(crate) async fn run(args: &Up, output: &Output) -> Result<(), Failure> {
    talk::listen(output);
    let file = NodeFile::read(&args.file)?;
    let mut signals = Signals::new()?;
    let (node, services, segments) = signals.unless(start(args, file, output)).await?;
    announce(&node, &services, output)?;
    let served = signals.then_close(vec![node], output).await;
    drop(segments);
    served
}

/// A service with its functions.
type Offered = (String, Vec<String>);

async fn start(args: &Up, file: NodeFile, output: &Output) -> Result<(Node, Vec<Offered>, Vec<Segment>), Failure> {
    let _progress = Progress::new(output, &format!("starting {}: the first time takes some seconds", file.name));
    let rdma = file.rdma.map(|rdma| rdma.open()).transpose()?;
    let names = match args.names.clone() {
        Some(path) => file.names.with_file(path),
        None => file.names,
    };
    let builder = Node::builder(&file.name)
        .limits(file.limits)
        .sandbox_at_start()
        .given(file.cache_dir.or_else(sandbox::cache_dir), NodeBuilder::cache_dir)
        .names(names.open()?)
        .given(file.site, NodeBuilder::site)
        .given(args.listen.clone().or(file.listen), NodeBuilder::listen)
        .given(args.advertise.clone().or(file.advertise), NodeBuilder::advertise)
        .given(file.repository.then_some(()), |node, ()| node.repository())
        .given(file.shaped.then(Topology::paper), |node, links| node.topology(Arc::new(links)))
        .given(file.blob_bytes_max, NodeBuilder::blob_bytes_max)
        .given(file.blob_grace_ms, |node, ms| node.blob_grace(Duration::from_millis(ms)))
        .given(file.memory_bytes_max, NodeBuilder::memory_bytes_max)
        .given(file.untold_dials_max, NodeBuilder::untold_dials_max)
        .given(file.step_store, |node, (file, limits)| node.step_store_within(file, limits))
        .given(file.function_store, NodeBuilder::function_store)
        .given(file.registry, |node, registry| node.registry(Arc::new(registry)))
        .given(rdma, NodeBuilder::remote_memory);
    let builder = file.guests.given_to(builder, file.policy);
    let mut builder = file.join.into_iter().fold(builder, NodeBuilder::join);
    let mut offered = Vec::with_capacity(file.services.len());
    for service in file.services {
        let service = service.open().await?;
        offered.push((service.name().to_owned(), service.functions().map(str::to_owned).collect()));
        builder = builder.service(service);
    }
    let started = builder.start().await;
    let node = started.map_err(|why| Failure::cannot_start(why.to_string(), help(&why)))?;
    let export = |SegmentFile { name, bytes, how }: SegmentFile| node.export(&name, bytes, how);
    let segments = file.segments.into_iter().map(export).collect::<Result<_, _>>();
    let segments = segments.map_err(|why| Failure::cannot_start(why.message, "see [[segment]] in the file"))?;
    Ok((node, offered, segments))
}

const fn help(why: &StartError) -> &'static str {
    match why {
        StartError::Unspecified(_) | StartError::Advertise { .. } => {
            "add `advertise` to the file, or --advertise HOST:PORT (port 0 stands for the port it listens on)"
        }
        StartError::Sandbox(_) => sandbox::HELP,
        StartError::FunctionStore { .. } => "name another folder: `function_store` in the file",
        StartError::StepStore { .. } => {
            "name a file on a disk of this machine, in a folder that is there, that no other node uses: `file` under [step_store]"
        }
        _ => "listen elsewhere: `listen` in the file, or --listen HOST:PORT (port 0 lets the system choose)",
    }
}

fn announce(node: &Node, services: &[Offered], output: &Output) -> Result<(), Failure> {
    if output.json {
        let services: Vec<_> =
            services.iter().map(|(name, functions)| json!({ "service": name, "functions": functions })).collect();
        let node = json!({ "name": node.name(), "address": node.address(), "services": services });
        return output.json_line(&json!({ "ready": true, "node": node }));
    }
    let place =
        node.address().map_or_else(|| "listens nowhere, dials only".to_owned(), |at| format!("is reached at {at}"));
    output.data(&format!("node {} {place}", output.paint(Paint::Bold, node.name())))?;
    for (name, functions) in services {
        output.data(&format!("  {name}: {}", functions.join(" ")))?;
    }
    if let Some(address) = node.address() {
        output.talk(&format!("try, in another terminal:\n  catena ls --connect {address}\nCtrl-C ends it"));
    }
    output.data("ready")
}
