//! `catena up FILE.toml`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use catena::{Node, NodeBuilder, Segment, StartError, Topology};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::{
    config::{NodeFile, SegmentFile},
    connect,
    failure::Failure,
    given::Given,
    output::{Output, Paint},
    progress::Progress,
    sandbox, serving,
    signals::Signals,
    talk,
};

pub(crate) const EXAMPLE: &str = r#"A file with everything in it; only `name` must be there:
  name = "mtv"
  site = "mtv"                       # for people, and for shaped links
  listen = "127.0.0.1:7400"          # without it the node only dials
  advertise = "mtv.example.org:7400" # what others dial, if it is another address
  join = ["10.0.0.7:7400"]           # one node of the mesh is enough
  repository = true                  # keeps functions for all nodes
  shaped = "paper"                   # development only: slow links, by the paper's figures
  cache_dir = "./modules"            # compiled modules; nobody else may write there
  memory_bytes_max = 1_073_741_824   # the most that messages, chains and guests may take
  blob_bytes_max = 268_435_456       # of that, what blobs of this node may take
  blob_grace_ms = 30_000             # how long a blob outlives its chain
  untold_dials_max = 16              # vain dials a minute for strangers; 0: none

  function_store = "./functions"     # functions are there again after a restart
  registry = "http://10.0.0.5:5000/functions"  # an OCI registry: they outlive every node

  runs_guests = false                # no foreign code here; by default it runs here
  chaining_proxy = "10.0.0.8:7400"   # they run there, by its hosts_chains_for_others = true

  [names]                            # how services are found, besides asking the mesh
  file = "./names.toml"              # [services] "files.red" = ["10.0.0.7:7400"]
  multicast = true                   # ask the local network
  etcd = ["http://10.0.0.5:2379"]    # a directory; []: found by multicast
  order = ["mesh", "file", "etcd", "multicast"]

  [step_store]                       # what durable functions have done, kept across a crash
  file = "./steps"                   # seen from this file, as every path
  age_max_ms = 3_600_000

  [[service]]
  kind = "files"                     # files, nfs, replicated, probe, mail or ads
  name = "files.mtv"
  root = "./data"
  durable = ["create", "write"]      # a step of a chain never does these twice

  [[service]]
  kind = "nfs"
  name = "nfs.mtv"
  host = "nas.example.org"
  export = "/srv/files"
  [service.identity]                 # as whom it acts at the server
  act_as = "caller"                  # the default; or node, caller_or_node, with a uid and gid
  root = "squash"                    # the default: 0 becomes nobody; or refuse, allow
  uid_min = 1_000                    # other users are refused
  uid_max = 59_999

  [[service]]
  kind = "replicated"                # a file service that does each change at two others
  name = "safe.mtv"
  primary = "files.mtv"              # of this file
  backup = "files.red"               # of any node

  [[segment]]                        # memory that others use: catena segments
  name = "loads"
  bytes = 4_096
  anyone = ["read", "write"]         # and cas; without it nobody may do anything

  # Where catena is built with `--features rdma`: segments of other hosts by libfabric.
  # [rdma]
  # provider = "tcp;ofi_rxm"         # `fi_info -l` lists what is there
  # address = "192.0.2.7"            # this host's own; without it the one that the node listens at

  [limits]                           # of each guest
  memory_bytes_max = 67_108_864
  step_wall_ms_max = 1_000

  [policy]                           # of this node
  activations_max = 20_000

Examples:
  catena check mtv.toml              what a file means, without starting anything
  catena up mtv.toml
  catena up mtv.toml --listen 127.0.0.1:0 --json"#;

/// Start a node from a TOML file
///
/// It runs until Ctrl-C or SIGTERM, then closes its links cleanly; a second signal ends it at once. The word `ready` comes on standard
/// output when it has started. Nodes to join that are down are tried again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
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
    let served = serving::until_signal(vec![node], signals, output).await;
    drop(segments);
    served
}

/// A service with its functions.
type Offered = (String, Vec<String>);

async fn start(args: &Up, file: NodeFile, output: &Output) -> Result<(Node, Vec<Offered>, Vec<Segment>), Failure> {
    let sandbox = sandbox::make_with(file.limits, file.cache_dir, output).await?;
    let _progress = Progress::new(output, &format!("starting {}", file.name));
    let rdma = file.rdma.map(|rdma| rdma.open()).transpose()?;
    let names = match args.names.clone() {
        Some(path) => file.names.with_file(path),
        None => file.names,
    };
    let builder = Node::builder(&file.name)
        .sandbox(sandbox)
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
        .given(file.step_store, |node, store| node.step_store_within(store.file, store.limits))
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
