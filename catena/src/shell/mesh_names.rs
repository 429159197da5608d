//! The resolver that every node has: it asks the nodes of its mesh.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use catena_directory::{Answer, Location, ResolveError, Resolver};
use catena_wire::{NodeId, Sighting};
use futures_util::future::join_all;

use super::Shell;

/// How long the resolvers of other nodes may take.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers from the greetings of linked nodes. If none of them serves the name, or only nodes that did not answer, it asks them what they know of others, and
/// what their resolvers say. So a client needs no configuration to find what the node that it joined can find.
pub(super) struct MeshResolver {
    shell: Weak<Shell>,
}

impl MeshResolver {
    pub(super) const NAME: &'static str = "mesh";

    pub(super) const fn new(shell: Weak<Shell>) -> Self {
        Self { shell }
    }
}

#[async_trait]
impl Resolver for MeshResolver {
    fn name(&self) -> &str {
        Self::NAME
    }

    async fn resolve(&self, service: &str, avoid: &[NodeId]) -> Result<Answer, ResolveError> {
        let Some(shell) = self.shell.upgrade() else { return Err(ResolveError("the node has ended".into())) };
        let mut known = shell.mesh_knows(service, avoid).await;
        let good = |location: &Location| location.run().is_some_and(|run| !avoid.contains(&run));
        let said = if known.at.iter().any(good) { Vec::new() } else { shell.others_resolve(service).await };
        if known.at.is_empty() && said.is_empty() {
            // Each node says what it has when it is asked, and they are not asked at one moment: a service that moves meanwhile may be at none of them. It was
            // offered at its next node before the last one said that it is gone, so the next answers have it.
            known = shell.mesh_knows(service, avoid).await;
        }
        Ok(Answer { at: known.at.into_iter().chain(said).collect(), ..known })
    }
}

impl Shell {
    /// Where the nodes of the mesh know a service to be, without use of their resolvers.
    pub(super) async fn mesh_knows(self: &Arc<Self>, service: &str, avoid: &[NodeId]) -> Answer {
        let mut entries = self.peers.linked_instances(service);
        if entries.iter().all(|entry| avoid.contains(&entry.node.id)) {
            let listed = self.listed().await.into_iter().filter(|entry| entry.service == service);
            // What is served here counts before all else, and what nodes announce before what others say of them.
            entries = self
                .own_service(service)
                .into_iter()
                .chain(self.peers.linked_instances(service))
                .chain(listed)
                .collect();
            entries.sort_by_key(|entry| entry.node.id);
            entries.dedup_by_key(|entry| entry.node.id);
        }
        let at = entries.into_iter().map(|entry| Location::Known(Box::new(entry)));
        Answer { at: at.collect(), ..Answer::default() }
    }

    async fn others_resolve(self: &Arc<Self>, service: &str) -> Vec<Location> {
        let peers = self.mesh_peers();
        let asked =
            peers.into_iter().map(|peer| tokio::time::timeout(OTHERS_TIMEOUT, self.ask_resolvers(peer, service)));
        let said = join_all(asked).await.into_iter().flatten().flatten().flatten();
        // The mesh's own knowledge has been asked for already.
        let said = said.filter(|answer| answer.resolver != MeshResolver::NAME).flat_map(|answer| answer.at);
        let location = |Sighting { node, address, run }| Some(Location::At { address: address?, node, run });
        said.filter_map(location).collect()
    }
}
