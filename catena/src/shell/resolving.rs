//! Finds services: asks each resolver in turn, until one knows an instance that answers (libRIPC, section III).

use std::{collections::BTreeSet, ops::Bound, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use catena_core::{Instance, LookupId, Node as Core, Party, Time};
use catena_directory::{Answer, Location, ResolveError, Resolver};
use catena_net::{Link, LogLimit, Place, awake};
use catena_wire::{
    Exception, Fault, INSTANCES_MAX, Message, NodeId, NodeRef, RESOLVERS_MAX, ResolverAnswer, ServiceEntry, Sighting,
    names,
};
use futures_util::{FutureExt, future::BoxFuture};

use super::{Shell, lock, mesh_names::MeshResolver};

/// How long one resolver may take.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a node at an address from a resolver may take to say who it is.
const VISIT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long another node's resolvers may take, all together.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// The most names looked up at one time; further ones wait for their turn.
pub(super) const LOOKUPS_AT_ONCE_MAX: usize = 64;
/// The most questions of other nodes that this node's resolvers are asked at one time.
pub(super) const ANSWERED_AT_ONCE_MAX: usize = 64;

/// The most names on either side, in alphabetical order, that one nobody serves is compared with; how many in a row; and how like it one must be to be named.
const LIKENED_MAX: usize = 512;
const LIKENED_AT_ONCE: usize = 32;
const LIKENESS_MIN: f64 = 0.7;

/// Limits log lines about failing resolvers, since anyone who names services can cause them.
static LINES: LogLimit = LogLimit::new();

/// A node, and a link to it.
type Linked = (Arc<NodeRef>, Arc<Link>);

/// The dead ends of a search.
#[derive(Default)]
struct Passed {
    /// Nodes that are said to serve the name, but did not answer or could not be reached.
    silent: Vec<String>,
    /// Nodes that are said to serve the name, and do not.
    wrong: Vec<String>,
    /// Resolvers that failed.
    faults: Vec<String>,
}

/// Why a node that is said to serve a name does not take its messages.
enum Absent {
    /// It does not answer, or is another node than was meant.
    Silent,
    ServesItNot,
}

impl Shell {
    /// Finds an instance of a service for the core.
    pub(super) fn resolve(self: &Arc<Self>, lookup: LookupId, service: String, avoid: Vec<NodeId>) {
        let shell = Arc::clone(self);
        // Held until the task is registered, so that it cannot finish before.
        let mut resolving = lock(&self.resolving);
        let task = self.runtime.spawn(async move {
            let found = {
                let _turn = shell.lookups.acquire().await;
                shell.look_up(&service, &avoid).await
            };
            lock(&shell.resolving).remove(&lookup);
            let now = shell.now();
            match found {
                Ok((place, ttl)) => {
                    let mut core = shell.core();
                    core.on_resolved(now, lookup, Ok(place));
                    shorten(&mut core, now, &service, ttl);
                }
                Err(why) => shell.core().on_resolved(now, lookup, Err(why)),
            }
            shell.drive();
        });
        resolving.insert(lookup, task.abort_handle());
    }

    /// Stops a look-up that nobody waits for any more, so that others get its turn.
    pub(super) fn abandon_lookup(&self, lookup: LookupId) {
        if let Some(task) = lock(&self.resolving).remove(&lookup) {
            task.abort();
        }
    }

    async fn look_up(
        self: &Arc<Self>,
        service: &str,
        avoid: &[NodeId],
    ) -> Result<(Instance, Option<Duration>), Exception> {
        let mut passed = Passed::default();
        for resolver in self.resolvers() {
            let answer = match ask(&*resolver, service, avoid).await {
                Ok(answer) => answer,
                Err(why) => {
                    if let Some(left_out) = LINES.pass() {
                        tracing::warn!(resolver = resolver.name(), %why, left_out, "it cannot say where a service is");
                    }
                    passed.faults.push(format!("{}: {why}", resolver.name()));
                    continue;
                }
            };
            for location in answer.at.into_iter().take(INSTANCES_MAX) {
                if location.run().is_some_and(|run| avoid.contains(&run)) {
                    passed.silent.push(name_of(&location));
                    continue;
                }
                match self.visit(service, &location, resolver.is_trusted()).await {
                    Ok(entry) if avoid.contains(&entry.node.id) => passed.silent.push(entry.node.name),
                    Ok(entry) => return Ok(self.instance_with_proxy(&entry, answer.ttl).await),
                    Err(Absent::Silent) => passed.silent.push(name_of(&location)),
                    Err(Absent::ServesItNot) => passed.wrong.push(name_of(&location)),
                }
            }
        }
        Err(self.not_found(service, &passed).await)
    }

    /// Finds the node that takes a service's messages, and a link to it: where it is known to be, else by a look-up.
    pub(crate) fn locate<'a>(self: &'a Arc<Self>, service: &'a str) -> BoxFuture<'a, Result<Linked, Exception>> {
        Box::pin(async move {
            let mut avoid = Vec::new();
            loop {
                let known = self.core().place_of(service).map(|place| Arc::clone(&place.node));
                let node = match known.filter(|node| !avoid.contains(&node.id)) {
                    Some(node) => node,
                    None => {
                        let (place, ttl) = self.look_up(service, &avoid).await?;
                        let node = Arc::clone(&place.node);
                        let (now, mut core) = (self.now(), self.core());
                        core.learn(service, place);
                        shorten(&mut core, now, service, ttl);
                        node
                    }
                };
                if node.id == self.me.id {
                    let text = format!("{service} is served here, and takes no messages: open a mailbox for it");
                    return Err(Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, text));
                }
                if let Some(link) = self.dial(&node).await {
                    return Ok((node, link));
                }
                self.core().on_not_there(service, node.id);
                avoid.push(node.id);
            }
        })
    }

    /// What the node at this location says about itself.
    async fn visit(
        self: &Arc<Self>,
        service: &str,
        location: &Location,
        trusted: bool,
    ) -> Result<ServiceEntry, Absent> {
        let (address, run) = match location {
            Location::Known(entry) => return Ok((**entry).clone()),
            Location::At { address, run, .. } => (address, *run),
        };
        if self.me.address.as_ref() == Some(address) {
            return Err(Absent::ServesItNot);
        }
        if trusted {
            self.dials.tell(address);
        }
        let link = self.link_at(address, run).await.ok_or(Absent::Silent)?;
        let node = self.peer_of(&link).await.ok_or(Absent::Silent)?;
        if run.is_some_and(|run| run != node.id) {
            return Err(Absent::Silent);
        }
        self.peers.entry(service, node.id).ok_or(Absent::ServesItNot)
    }

    /// A link with whoever listens at an address that others have named; `run` is the run of the node that is meant, if it is known.
    pub(super) async fn link_at(&self, address: &str, run: Option<NodeId>) -> Option<Arc<Link>> {
        if let Some(link) = run.and_then(|run| self.endpoint()?.link_to_node(run.0)) {
            return Some(link);
        }
        let leave = self.dials.leave(address).await?;
        let place = Place::new(address);
        let link = leave.dial(self.endpoint()?.link_introduced(&place));
        let link = awake::timeout(VISIT_TIMEOUT, link).await.ok()??;
        if run.is_none_or(|run| link.identity().is_some_and(|identity| identity.node == run.0)) {
            leave.reached();
        }
        Some(link)
    }

    /// This node's resolvers, in the order in which they are asked.
    pub(super) fn resolvers(&self) -> Vec<Arc<dyn Resolver>> {
        self.resolvers.get().cloned().unwrap_or_default()
    }

    async fn not_found(self: &Arc<Self>, service: &str, passed: &Passed) -> Exception {
        let (host, faults) = (&self.me.name, passed.faults.join("; "));
        let also = if faults.is_empty() { String::new() } else { format!(" ({faults})") };
        if !passed.silent.is_empty() {
            let nodes = passed.silent.join(", ");
            let message = format!(
                "{service} is served by {nodes}, where {host} gets no answer{also}; nothing was done; check that it is up and not overloaded, then run again"
            );
            return Exception::new(names::NODE_UNREACHABLE, Fault::Network, message);
        }
        if !passed.wrong.is_empty() {
            let nodes = passed.wrong.join(", ");
            let message = format!(
                "{service} is said to be served by {nodes}, which answers and does not serve it{also}; nothing was done; `catena resolve {service}` shows who says so"
            );
            return Exception::new(names::NODE_UNREACHABLE, Fault::Network, message);
        }
        if let Some(node) = self.peers.departed(service) {
            return down(service, &node, host);
        }
        if !faults.is_empty() {
            let message =
                format!("where {service} is cannot be told: {faults}; nothing was done; run again when it can");
            return Exception::new(names::NODE_UNREACHABLE, Fault::Network, message);
        }
        let mut known: BTreeSet<_> = self.listed().await.into_iter().map(|entry| entry.service).collect();
        known.extend(self.own_names());
        known.extend(self.peers.names_near(service, LIKENED_MAX));
        unknown(service, host, nearest(service, &known).await)
    }

    /// What each resolver says about a service. For the mesh, another node is told only what is known here: otherwise nodes would ask each other in circles.
    pub(crate) fn resolvers_say<'a>(self: &'a Arc<Self>, service: &'a str) -> BoxFuture<'a, Vec<ResolverAnswer>> {
        Box::pin(async move {
            let mut said = Vec::new();
            for resolver in self.resolvers().into_iter().take(RESOLVERS_MAX) {
                let name = resolver.name().to_owned();
                let answer = match name == MeshResolver::NAME {
                    true => Ok(self.mesh_knows(service, &[]).await),
                    false => ask(&*resolver, service, &[]).await,
                };
                said.push(match answer {
                    Err(why) => ResolverAnswer { resolver: name, age_us: None, at: Vec::new(), note: Some(why.0) },
                    Ok(answer) => ResolverAnswer {
                        resolver: name,
                        age_us: answer.age.map(|age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX)),
                        at: answer.at.iter().take(INSTANCES_MAX).map(sighting).collect(),
                        note: answer.note,
                    },
                });
            }
            said
        })
    }

    /// Asks the node that this one joined for the answers of its resolvers.
    pub(crate) fn ask_joined<'a>(
        self: &'a Arc<Self>,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Vec<ResolverAnswer>, Exception>> {
        Box::pin(async move {
            match self.mesh_peers().into_iter().next() {
                Some(peer) => self.ask_resolvers(peer, service).await,
                None => Err(silent()),
            }
        })
    }

    /// Asks another node for the answers of its resolvers.
    pub(super) async fn ask_resolvers(
        self: &Arc<Self>,
        peer: Arc<NodeRef>,
        service: &str,
    ) -> Result<Vec<ResolverAnswer>, Exception> {
        let question = self.questions.ask();
        self.tell(peer, Message::Resolve(question.number, service.to_owned()));
        question.answer_within(ASK_TIMEOUT).await.ok_or_else(silent)
    }

    /// Answers another node that asks what this node's resolvers say.
    pub(super) fn serve_resolvers(self: &Arc<Self>, id: u64, service: String, to: Arc<NodeRef>, by: Party) {
        // One beyond the party's share is not answered.
        let Some(place) = self.answering.take(by) else { return };
        let shell = Arc::clone(self);
        self.runtime.spawn(async move {
            let _place = place;
            let answers = shell.resolvers_say(&service).await;
            shell.tell(to, Message::Resolved(id, answers));
        });
    }

    /// Starts a resolver: it is told what this node serves, and reports names that are to be looked up again.
    pub(super) fn begin_resolving(self: &Arc<Self>, resolvers: Vec<Arc<dyn Resolver>>) {
        for resolver in &resolvers {
            let shell = Arc::downgrade(self);
            resolver.watch(Arc::new(move |service| {
                if let Some(shell) = shell.upgrade() {
                    shell.core().on_name_changed(service);
                }
            }));
        }
        let _ = self.resolvers.set(resolvers);
    }
}

async fn ask(resolver: &dyn Resolver, service: &str, avoid: &[NodeId]) -> Result<Answer, ResolveError> {
    // A resolver is its user's code: one that panics has failed, and the next one is asked.
    let answer = AssertUnwindSafe(async { resolver.resolve(service, avoid).await }).catch_unwind();
    match tokio::time::timeout(RESOLVE_TIMEOUT, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(ResolveError("it panicked; the message is in the node's log".to_owned())),
        Err(_) => Err(ResolveError(format!("no answer within {} s", RESOLVE_TIMEOUT.as_secs()))),
    }
}

/// What was found for this name counts for `ttl` only, if that is given.
fn shorten(core: &mut Core, now: Time, service: &str, ttl: Option<Duration>) {
    if let Some(ttl) = ttl {
        core.on_name_ttl(now, service, u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX));
    }
}

fn silent() -> Exception {
    let message = "the node that was joined does not say what its resolvers know; check that it is up";
    Exception::new(names::NODE_UNREACHABLE, Fault::Network, message)
}

fn name_of(location: &Location) -> String {
    match location {
        Location::Known(entry) => entry.node.name.clone(),
        Location::At { node: Some(node), .. } => node.clone(),
        Location::At { address, .. } => address.clone(),
    }
}

fn sighting(location: &Location) -> Sighting {
    match location {
        Location::Known(entry) => {
            let NodeRef { id, name, address, .. } = entry.node.clone();
            Sighting { node: Some(name), address, run: Some(id) }
        }
        Location::At { address, node, run } => {
            Sighting { node: node.clone(), address: Some(address.clone()), run: *run }
        }
    }
}

fn down(service: &str, node: &str, host: &str) -> Exception {
    let message = format!(
        "{service} was served by {node}, to which {host} has lost its link; nothing was done; check that it is up, then run again"
    );
    Exception::new(names::NODE_UNREACHABLE, Fault::Network, message)
}

/// The name that is most like this one. Names that begin in the same way are next to it in alphabetical order: only the nearest few on either side are looked
/// at, since anyone can offer names, and ask for others.
async fn nearest(service: &str, known: &BTreeSet<String>) -> Option<String> {
    let after = (Bound::Excluded(service), Bound::Unbounded);
    let before = known.range::<str, _>((Bound::Unbounded, Bound::Excluded(service))).rev().take(LIKENED_MAX);
    let mut nearest = (LIKENESS_MIN, None);
    for (count, name) in before.chain(known.range::<str, _>(after).take(LIKENED_MAX)).enumerate() {
        if count % LIKENED_AT_ONCE == LIKENED_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        let likeness = strsim::jaro_winkler(service, name);
        if likeness > nearest.0 {
            nearest = (likeness, Some(name));
        }
    }
    nearest.1.cloned()
}

fn unknown(service: &str, host: &str, nearest: Option<String>) -> Exception {
    let hint = match nearest {
        Some(name) => format!("did you mean {name}?"),
        None => "list what there is with `catena ls`".to_owned(),
    };
    let message = format!("no node that {host} knows of serves {service}; {hint}");
    Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_nearest_name_is_found_among_however_many_and_few_are_looked_at() {
        let many = (0..200_000).map(|number| format!("files.{number:06}"));
        let known: BTreeSet<_> = many.chain(["probe.b".to_owned(), "zzz".to_owned()]).collect();
        assert_eq!(nearest("probe.c", &known).await.as_deref(), Some("probe.b"));
        assert_eq!(nearest("prob", &known).await.as_deref(), Some("probe.b"));
        assert_eq!(nearest("xyz", &known).await, None);
        let near = nearest("files.100000x", &known).await;
        assert_eq!(near.as_deref(), Some("files.100000"));
        let with = |fillers: usize| {
            (0..fillers).map(|number| format!("z{number:06}")).chain(["yfiles".to_owned()]).collect::<BTreeSet<_>>()
        };
        assert_eq!(nearest("zfiles", &with(LIKENED_MAX - 1)).await.as_deref(), Some("yfiles"));
        assert_eq!(nearest("zfiles", &with(LIKENED_MAX)).await, None, "it is not looked at");
    }
}
