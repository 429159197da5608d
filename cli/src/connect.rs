//! Connecting to a node, as a client.

use std::{convert::identity, time::Duration};

use catena::{Client, NodeBuilder, Place};
use clap::{Args, ValueHint};

use crate::{failure::Failure, output::Output, progress::Progress, signals::Signals};

/// How long connecting may take in all. A link itself gives up sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long queued messages may take to go out at the end.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// Where the first node of `catena dev` listens by default.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:7400";

/// The name of this process as a node.
pub(crate) const HERE: &str = "client";

/// Checks the form of a `HOST:PORT`, without resolving it.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("write it as HOST:PORT, such as 127.0.0.1:7400 or [::1]:7400".to_owned()),
    }
}

/// Sets optional values on a builder; those that are `None` stay at their defaults.
pub(crate) trait Given: Sized {
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl Given for NodeBuilder {}

/// Where the node is.
#[derive(Clone, Debug, Args)]
pub(crate) struct At {
    /// A node of the mesh: the others are found through it
    #[arg(long, env = "CATENA_CONNECT", default_value = DEFAULT_ADDRESS, value_name = "HOST:PORT",
          value_hint = ValueHint::Other, value_parser = address)]
    pub(crate) connect: String,
}

impl At {
    /// Connects a client that needs nothing more.
    pub(crate) async fn connect(&self, output: &Output) -> Result<Client, Failure> {
        connect(&self.connect, identity, output).await
    }
}

/// Connects a client; `more` adds settings besides its name and the node to join.
pub(crate) async fn connect(
    to: &str,
    more: impl FnOnce(NodeBuilder) -> NodeBuilder,
    output: &Output,
) -> Result<Client, Failure> {
    let _progress = Progress::new(output, &format!("connecting to {to}"));
    let connecting = more(Client::builder(HERE).join(Place::new(to))).connect();
    let help = "start nodes with `catena dev`, or name another one with --connect HOST:PORT (or CATENA_CONNECT)";
    let message = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(client)) => return Ok(client),
        Ok(Err(why)) => why.to_string(),
        Err(_) => format!("{to} did not greet within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    Err(Failure::unreachable(message, help))
}

/// Runs `work` with a client, and closes the client cleanly whatever the outcome; a signal ends `work` at once.
pub(crate) async fn with<T>(
    connecting: impl Future<Output = Result<Client, Failure>>,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut signals = Signals::new()?;
    let client = signals.unless(connecting).await?;
    let done = signals.unless(work(&client)).await;
    close(client).await.and(done)
}

/// The same as [`with`], with a spinner that shows what is being `done`.
pub(crate) async fn ask<T>(
    connecting: impl Future<Output = Result<Client, Failure>>,
    done: &str,
    output: &Output,
    ask: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let asking = async |client: &Client| {
        let _progress = Progress::new(output, done);
        ask(client).await
    };
    with(connecting, asking).await
}

/// Closes the client cleanly. One that cannot be closed in time is no failure.
pub(crate) async fn close(client: Client) -> Result<(), Failure> {
    let _ = tokio::time::timeout(CLOSE_GRACE * 2, client.close(CLOSE_GRACE)).await;
    Ok(())
}
