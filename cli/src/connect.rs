//! Connecting to a node, as a client.

use std::{sync::Arc, time::Duration};

use catena::{Client, NodeBuilder, Place, RemoteMemory, Sandbox, Topology};
use clap::{Args, ValueHint, builder::PossibleValuesParser};

use crate::{failure::Failure, output::Output, progress::Progress, signals::Signals};

/// How long connecting may take in all. A link itself gives up sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long what is queued may take to go out at the end.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// Where `catena dev` has its first node.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:7400";

/// The name of the node that this process is.
pub(crate) const HERE: &str = "client";

/// Where the node is.
#[derive(Clone, Debug, Args)]
pub(crate) struct At {
    /// A node of the mesh: the others are found through it
    #[arg(long, env = "CATENA_CONNECT", default_value = DEFAULT_ADDRESS, value_name = "HOST:PORT",
          value_hint = ValueHint::Other, value_parser = address)]
    pub(crate) connect: String,
}

/// Where this client is.
#[derive(Clone, Debug, Args)]
pub(crate) struct Standing {
    /// Delay this client's links as if it stood at SITE (development: `catena dev` answers in kind)
    #[arg(long, value_name = "SITE", value_parser = PossibleValuesParser::new(catena_apps::sites::SITES.map(|site| site.id)))]
    pub(crate) site: Option<String>,
}

/// `HOST:PORT`, checked as far as its text goes.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("write it as HOST:PORT, such as 127.0.0.1:7400 or [::1]:7400".to_owned()),
    }
}

/// Connects. The sandbox is for chains, which begin in this process.
pub(crate) async fn connect(
    at: &At,
    standing: Option<&Standing>,
    sandbox: Option<Sandbox>,
    output: &Output,
) -> Result<Client, Failure> {
    let _progress = Progress::new(output, &format!("connecting to {}", at.connect));
    let mut builder = Client::builder(HERE).join(Place::new(&at.connect));
    if let Some(site) = standing.and_then(|standing| standing.site.as_ref()) {
        builder = builder.site(site).topology(Arc::new(Topology::paper()));
    }
    if let Some(sandbox) = sandbox {
        builder = builder.sandbox(sandbox);
    }
    greeted(builder, at).await
}

/// Connects, to use memory of other nodes: by this too, where they have the same.
pub(crate) async fn connect_by(
    at: &At,
    remote: Option<Arc<dyn RemoteMemory>>,
    output: &Output,
) -> Result<Client, Failure> {
    let _progress = Progress::new(output, &format!("connecting to {}", at.connect));
    let mut builder = Client::builder(HERE).join(Place::new(&at.connect));
    if let Some(remote) = remote {
        builder = builder.remote_memory(remote);
    }
    greeted(builder, at).await
}

async fn greeted(builder: NodeBuilder, at: &At) -> Result<Client, Failure> {
    let help = "start nodes with `catena dev`, or name another one with --connect HOST:PORT (or CATENA_CONNECT)";
    match tokio::time::timeout(CONNECT_TIMEOUT, builder.connect()).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(why)) => Err(Failure::unreachable(why.to_string(), help)),
        Err(_) => {
            let message = format!("{} did not greet within {} s", at.connect, CONNECT_TIMEOUT.as_secs());
            Err(Failure::unreachable(message, help))
        }
    }
}

/// Asks nodes something while people are shown that this is being `done`, and says good-bye whatever comes of it; a signal ends it at once.
pub(crate) async fn ask<T>(
    connecting: impl Future<Output = Result<Client, Failure>>,
    done: &str,
    output: &Output,
    ask: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut signals = Signals::new()?;
    let client = signals.unless(connecting).await?;
    let asked = async {
        let _progress = Progress::new(output, done);
        ask(&client).await
    };
    let asked = signals.unless(asked).await;
    close(client).await;
    asked
}

/// Says good-bye.
pub(crate) async fn close(client: Client) {
    let _ = tokio::time::timeout(CLOSE_GRACE * 2, client.close(CLOSE_GRACE)).await;
}
