//! `catena dev`.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use catena::{Export, Node, NodeBuilder, Place, Rights, Sandbox, Segment, Topology};
use catena_apps::sites::SITES;
use catena_files::Directory;
use clap::{Args, ValueHint};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    connect::{DEFAULT_ADDRESS, Given},
    failure::Failure,
    output::Output,
    progress::Progress,
    sandbox,
    signals::Signals,
    talk,
};

/// How long the four nodes may take to know each other.
const LINK_TIMEOUT: Duration = Duration::from_secs(20);
/// How often to check whether they do.
const LINK_LOOK_EVERY: Duration = Duration::from_millis(50);
/// Bytes of the segment that each node exports.
const SCRATCH_BYTES: u64 = 4_096;
/// So that all four ports are valid.
const PORT_BASE_MAX: u16 = u16::MAX - 3;
/// Prefix of the names of temporary folders.
const PREFIX: &str = "catena-dev-";

/// Start four nodes at four distant sites in this process, to try things out
///
/// Mountain View (mtv), Redmond (red), Cambridge (cam) and Beijing (bei), with the round-trip times and bandwidths of the RPC Chains paper
/// between them. Each serves files.SITE, over its own folder, and probe.SITE with echo, where, sleep, fail and count, and exports the segment scratch. The word `ready` comes on
/// standard output when all four know each other.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  catena dev\n  catena dev --data ./sites --port-base 7500\n  \
    catena dev --port-base 0 --json    # the system chooses the ports; one line says which")]
pub(crate) struct Dev {
    /// The first of four ports; 0 lets the system choose
    #[arg(long, default_value_t = 7400, value_name = "PORT")]
    port_base: u16,
    /// Serve DIR/mtv, DIR/red, DIR/cam and DIR/bei; without it a new folder, removed at the end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<PathBuf>,
    /// Leave the links as fast as they are
    #[arg(long)]
    no_shape: bool,
}

pub(crate) async fn run(args: &Dev, output: &Output) -> Result<(), Failure> {
    if args.port_base > PORT_BASE_MAX {
        let message = format!("--port-base {} leaves no room for four ports", args.port_base);
        return Err(Failure::input("BadUsage", message, format!("at most {PORT_BASE_MAX}")));
    }
    talk::listen(output);
    let mut signals = Signals::new()?;
    let (data, _removed_at_the_end) = data_folder(args.data.as_deref())?;
    let sandbox = signals.unless(sandbox::make(output)).await?;
    let nodes = signals.unless(start(args, &data, &sandbox, output)).await?;
    let scratch = nodes.iter().map(export_scratch).collect::<Result<Vec<_>, _>>()?;
    announce(&nodes, &data, args, output)?;
    let served = signals.then_close(nodes, output).await;
    drop(scratch);
    served
}

/// The folder with one folder per site. If none is named, one is made for this run, accessible to this user only, and removed on drop; if that
/// fails, it is in the temporary folder, which the system clears.
fn data_folder(named: Option<&Path>) -> Result<(PathBuf, Option<TempDir>), Failure> {
    let cannot_make = |path: &Path, why: &io::Error| {
        let message = format!("the folder {} cannot be made: {why}", path.display());
        Failure::cannot_start(message, "name another one with --data DIR")
    };
    let (root, fresh) = match named {
        Some(root) => (root.to_owned(), None),
        None => {
            let owners = fs::Permissions::from_mode(0o700);
            let fresh = tempfile::Builder::new().prefix(PREFIX).permissions(owners).tempdir();
            let fresh = fresh.map_err(|why| cannot_make(&std::env::temp_dir().join(PREFIX), &why))?;
            (fresh.path().to_owned(), Some(fresh))
        }
    };
    for site in SITES {
        let path = root.join(site.id);
        fs::create_dir_all(&path).map_err(|why| cannot_make(&path, &why))?;
    }
    Ok((root, fresh))
}

/// Exports a segment that anybody may use, to try segments with.
fn export_scratch(node: &Node) -> Result<Segment, Failure> {
    let anyone = Export { anyone: Rights::ALL, ..Export::default() };
    let exported = node.export("scratch", SCRATCH_BYTES, anyone);
    exported.map_err(|why| Failure::cannot_start(why.message, "try again"))
}

async fn start(args: &Dev, data: &Path, sandbox: &Sandbox, output: &Output) -> Result<Vec<Node>, Failure> {
    let _progress = Progress::new(output, "starting four nodes");
    let topology = (!args.no_shape).then(|| Arc::new(Topology::paper()));
    let mut nodes: Vec<Node> = Vec::with_capacity(SITES.len());
    // Started one after the other: each links with all that are already there, so at the end all are linked.
    for (site, port) in SITES.iter().zip(ports(args.port_base)) {
        let files =
            Directory::open(data.join(site.id)).map_err(|why| Failure::cannot_start(why.to_string(), "see --data"))?;
        let [files_name, probe_name] = services_of(site.id);
        let builder = Node::builder(site.id)
            .site(site.id)
            .listen(format!("127.0.0.1:{port}"))
            .sandbox(sandbox.clone())
            .service(catena_apps::files::service(&files_name, Arc::new(files)))
            .service(catena_apps::probe::service(&probe_name))
            .given(topology.clone(), NodeBuilder::topology);
        let builder = match nodes.first().and_then(Node::address) {
            None => builder.repository(),
            Some(first) => builder.join(Place::new(first).in_site(SITES[0].id)),
        };
        let help = "end what listens there, or choose others: catena dev --port-base 7500 (0: any)";
        let started = builder.start().await;
        nodes.push(started.map_err(|why| Failure::cannot_start(why.to_string(), help))?);
    }
    let linked = tokio::time::timeout(LINK_TIMEOUT, linked(&nodes)).await;
    linked.map_err(|_| Failure::cannot_start("the four nodes do not find each other", "try again with --no-shape"))?;
    Ok(nodes)
}

fn ports(base: u16) -> impl Iterator<Item = u16> {
    (0..).map(move |index| if base == 0 { 0 } else { base.saturating_add(index) })
}

/// Waits until every node knows the services of all.
async fn linked(nodes: &[Node]) {
    for node in nodes {
        let client = node.client();
        while client.services().await.len() < 2 * nodes.len() {
            tokio::time::sleep(LINK_LOOK_EVERY).await;
        }
    }
}

fn services_of(site: &str) -> [String; 2] {
    [format!("files.{site}"), format!("probe.{site}")]
}

fn announce(nodes: &[Node], data: &Path, args: &Dev, output: &Output) -> Result<(), Failure> {
    let address = |node: &Node| node.address().unwrap_or_default().to_owned();
    if output.json {
        let node = |node: &Node| {
            let (name, address, data) = (node.name(), address(node), data.join(node.name()));
            json!({ "name": name, "site": name, "address": address, "services": services_of(name), "data": data })
        };
        let nodes: Vec<_> = nodes.iter().map(node).collect();
        return output.json_line(&json!({ "ready": true, "nodes": nodes }));
    }
    let rows = nodes.iter().zip(SITES).map(|(node, site)| {
        let (services, data) = (services_of(site.id).join(" "), data.join(site.id).display().to_string());
        [site.id.to_owned(), site.name.to_owned(), address(node), services, data]
    });
    output.table(["node", "place", "address", "services", "files in"], rows)?;
    let links = if args.no_shape { "" } else { ", and the links are slowed down on purpose" };
    output.warn(&format!("for development only: anybody on this machine may use these nodes{links}"));
    let first = nodes.first().map(address).unwrap_or_default();
    let at = if first == DEFAULT_ADDRESS { String::new() } else { format!(" --connect {first}") };
    output.talk(&format!(
        "try, in another terminal:\n  catena ls{at}\n  catena call probe.cam/echo '\"hello\"' --site bei{at}"
    ));
    output.talk(&format!("  catena run examples/tour.ts --site bei --explain{at}\nCtrl-C ends it"));
    output.data("ready")
}
