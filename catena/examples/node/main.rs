//! A node with services of one's own, to be started with a few arguments:
//!
//! ```text
//! cargo run --release -p catena --example node -- --name a --listen 127.0.0.1:7400
//! cargo run --release -p catena --example node -- --name b --listen 127.0.0.1:7401 --join 127.0.0.1:7400
//! catena call b/note '{"text": "hello"}' --connect 127.0.0.1:7400
//! ```
//!
//! It prints `ready ADDRESS` when others can dial it, then a line for whatever its services do, and ends when its standard input does.
#![allow(clippy::print_stdout)]

mod services;

use std::{error::Error, io, time::Duration};

use catena::{Export, Node, NodeBuilder, Place, Policy, Rights};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
#[cfg_attr(test, allow(dead_code))]
async fn main() -> Result<(), Failure> {
    serve(std::env::args().skip(1)).await
}

/// A node as the arguments say, until the end of standard input.
pub(crate) async fn serve(arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let Wanted { builder, exports } = read(arguments)?;
    let node = builder.start().await?;
    let everybody = || Export { anyone: Rights::ALL, ..Export::default() };
    let export = |(name, bytes): &(String, u64)| node.export(name, *bytes, everybody());
    let _segments = exports.iter().map(export).collect::<Result<Vec<_>, _>>()?;
    println!("ready {}", node.address().unwrap_or_default());
    // A node whose owner is gone, however that ended, goes too.
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    node.close(Duration::from_secs(1)).await;
    Ok(())
}

struct Wanted {
    builder: NodeBuilder,
    /// Segments that everybody may read and write: name and bytes.
    exports: Vec<(String, u64)>,
}

/// `--name` comes first: the others add to the node of that name.
fn read(mut arguments: impl Iterator<Item = String>) -> Result<Wanted, Failure> {
    let first = (arguments.next(), arguments.next());
    let (Some("--name"), Some(name)) = (first.0.as_deref(), first.1) else {
        return Err("begin with --name NAME".into());
    };
    let mut builder = Node::builder(&name).service(services::desk(&name));
    let (mut policy, mut exports) = (Policy::default(), Vec::new());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        builder = match argument.as_str() {
            "--listen" => builder.listen(value()?),
            "--advertise" => builder.advertise(value()?),
            "--join" => builder.join(Place::new(value()?)),
            // Under a second name, which other nodes may serve as well.
            "--also" => builder.service(services::desk(&value()?)),
            // For example board=4096.
            "--export" => {
                let value = value()?;
                let (name, bytes) = value.split_once('=').ok_or("--export needs NAME=BYTES")?;
                exports.push((name.to_owned(), bytes.parse()?));
                builder
            }
            "--without-shared-memory" => builder.without_shared_memory(),
            "--cache" => builder.cache_dir(value()?),
            "--repository" => builder.repository(),
            "--blob-grace-ms" => builder.blob_grace(Duration::from_millis(value()?.parse()?)),
            "--memory" => builder.memory_bytes_max(value()?.parse()?),
            "--beat-ms" => {
                let Policy { step_record_ttl_us, step_records_max, .. } = policy;
                policy = Policy { step_record_ttl_us, step_records_max, ..beating(value()?.parse()?) };
                builder
            }
            // So long it remembers what it did, while it is awake.
            "--ttl-ms" => {
                policy.step_record_ttl_us = value()?.parse::<u64>()? * 1_000;
                builder
            }
            // So many steps it remembers.
            "--records-max" => {
                policy.step_records_max = value()?.parse()?;
                builder
            }
            other => return Err(format!("{other} is no argument of this node").into()),
        };
    }
    Ok(Wanted { builder: builder.policy(policy), exports })
}

/// Signs of life so often, and all that is measured by them in proportion.
pub(crate) fn beating(interval_ms: u64) -> Policy {
    let interval = interval_ms * 1_000;
    Policy {
        heartbeat_interval_us: interval,
        heartbeat_timeout_us: 4 * interval,
        heartbeat_hop_us: interval / 15,
        accept_timeout_us: 2 * interval,
        ..Policy::default()
    }
}
