//! Services that move from node to node while they are called.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use catena::{Client, Context, Exception, Fault, Node, Service, ServiceEntry, ServiceError, exceptions};
use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::watch, time::timeout};

use crate::{node::service_name, rng::Rng};

/// How many services move.
pub(crate) const MOVERS: usize = 3;
/// A service is moved this often.
const MOVED_EVERY: Duration = Duration::from_millis(200);
/// How long it may take to finish what it has begun.
const DRAIN_MAX: Duration = Duration::from_secs(1);
const MOVE_MAX: Duration = Duration::from_secs(3);
/// How long a node may take to say what it has.
const ANSWER_MAX: Duration = Duration::from_millis(500);

pub(crate) fn name(mover: usize) -> String {
    format!("moving.{mover}")
}

/// Functions by which a node takes over services of this kind, gives them away, and says whether it has one.
pub(crate) fn functions(
    service: Service,
    node: &Arc<OnceLock<Node>>,
    of_name: impl Fn(String) -> Service + Send + Sync + Clone + 'static,
) -> Service {
    let here = Here { node: Arc::clone(node), services: Arc::default() };
    let (hosting, leaving) = (here.clone(), here.clone());
    service
        .function("host", move |name: String| std::future::ready(hosting.offer(of_name(name))))
        .function_in("move", move |context: Context, (name, to): (String, usize)| {
            let here = leaving.clone();
            async move { here.give_away(&context.client(), &name, to).await }
        })
        .function("hosts", move |name: String| std::future::ready(Ok(here.all().contains(&name))))
}

/// The services that are here and may move.
#[derive(Clone)]
struct Here {
    node: Arc<OnceLock<Node>>,
    services: Arc<Mutex<BTreeSet<String>>>,
}

impl Here {
    fn all(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self) -> Result<&Node, ServiceError> {
        self.node.get().ok_or_else(|| ServiceError::named("NotYet", "the node is about to start"))
    }

    fn offer(&self, service: Service) -> Result<(), ServiceError> {
        let name = service.name().to_owned();
        self.node()?.offer(service)?;
        self.all().insert(name);
        Ok(())
    }

    async fn give_away(&self, client: &Client, name: &str, to: usize) -> Result<(), ServiceError> {
        self.node()?.migrate_service(name, DRAIN_MAX, take_over(client, name, to)).await?;
        self.all().remove(name);
        Ok(())
    }
}

async fn take_over(client: &Client, name: &str, to: usize) -> Result<ServiceEntry, Exception> {
    client.call::<_, ()>(&service_name(to), "host", &name.to_owned()).await?;
    let (there, is_it) = (format!("n{to}"), |entry: &ServiceEntry| entry.service == name);
    let found = |all: Vec<ServiceEntry>| all.into_iter().find(|entry| is_it(entry) && entry.node.name == there);
    let told = found(client.known_services()).or(found(client.services().await));
    told.ok_or_else(|| {
        Exception::new(exceptions::NODE_UNREACHABLE, Fault::Network, format!("{there} did not say that it has {name}"))
    })
}

/// Has services moved, and knows where each is.
pub(crate) struct Mover<'c> {
    client: &'c Client,
    nodes: usize,
    services: Vec<Moving>,
}

/// One service, and where it is as far as is known.
struct Moving {
    name: String,
    rng: Rng,
    at: Option<usize>,
}

impl<'c> Mover<'c> {
    /// Every service is somewhere.
    pub(crate) async fn place(client: &'c Client, seed: u64, nodes: usize) -> Self {
        let moving = |number| Moving { name: name(number), rng: Rng::new(!seed ^ number as u64), at: None };
        let mut mover = Self { client, nodes, services: (0..MOVERS).map(moving).collect() };
        let (services, hosts) = (&mut mover.services, Hosts { client, nodes });
        join_all(services.iter_mut().map(|service| hosts.place(service))).await;
        mover
    }

    /// Moves them, each on its own, until it is told to stop; says how often one has moved.
    pub(crate) async fn move_on(self, stop: &watch::Receiver<bool>) -> usize {
        let hosts = Hosts { client: self.client, nodes: self.nodes };
        let hosts = &hosts;
        let moving = self.services.into_iter().map(|mut service| {
            let mut stop = stop.clone();
            async move {
                let mut moved = 0;
                while timeout(MOVED_EVERY, stop.wait_for(|stop| *stop)).await.is_err() {
                    match service.at {
                        Some(from) => moved += usize::from(hosts.step(&mut service, from).await),
                        None => hosts.place(&mut service).await,
                    }
                }
                moved
            }
        });
        join_all(moving).await.into_iter().sum()
    }
}

/// The nodes between which services move, and the client that asks them to.
struct Hosts<'c> {
    client: &'c Client,
    nodes: usize,
}

impl Hosts<'_> {
    async fn step(&self, service: &mut Moving, from: usize) -> bool {
        let to = (from + 1 + service.rng.below(self.nodes.saturating_sub(1))) % self.nodes;
        let moved = self.ask::<_, ()>(from, "move", &(&service.name, to), MOVE_MAX).await.is_some();
        // Without a confirmation it may be at either node, or at none.
        service.at = moved.then_some(to);
        moved
    }

    /// Looks for it; if no node says that it has it, another begins to.
    async fn place(&self, service: &mut Moving) {
        let asked = join_all((0..self.nodes).map(|node| self.ask(node, "hosts", &service.name, ANSWER_MAX))).await;
        service.at = asked.iter().position(|has| *has == Some(true));
        let there: Vec<usize> = (0..self.nodes).filter(|node| asked[*node].is_some()).collect();
        if service.at.is_none() && !there.is_empty() {
            let node = there[service.rng.below(there.len())];
            service.at = self.ask::<_, ()>(node, "host", &service.name, ANSWER_MAX).await.map(|()| node);
        }
    }

    async fn ask<P: Serialize + Sync, R: DeserializeOwned>(
        &self,
        node: usize,
        function: &str,
        params: &P,
        answer_max: Duration,
    ) -> Option<R> {
        let service = service_name(node);
        timeout(answer_max, self.client.call::<P, R>(&service, function, params)).await.ok()?.ok()
    }
}
