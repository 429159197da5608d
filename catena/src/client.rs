//! A client begins chains and makes plain calls.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use catena_core::{Plan, Start};
use catena_guest::{Function, FunctionKind};
use catena_net::Place;
use catena_wire::{
    Budget, Exception, Fault, Hash, Mode, NodeId, NodeRef, ResolverAnswer, SegmentEntry, ServiceEntry, StepLimits,
    Value, names,
};
use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Answer, Blob, Granted, Imported, Lookup, Mailbox, MessageCounts, NodeBuilder, Question, ReplySet, StartError,
    blobs::{Here, decoded_in},
    messages::{ask, send_short},
    random,
    replying::split_target,
    shell::Shell,
    value::{from_value, to_value},
};

/// How a chain or call is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// How long it may take in all. Default 60 s.
    pub timeout: Duration,
    /// How many calls a chain may make. Default 2,000 (rpc-chains section 6).
    pub hops_max: u32,
    /// Whether each step is profiled (for [`ReplySet::trace`]).
    pub profile: bool,
    /// Where the chain's own code runs. Default: at each server that it calls.
    pub mode: Mode,
    /// Whether a sub-chain with which a service answers joins this chain (rpc-chains section 3.4). Default: yes.
    pub compose: bool,
    /// On whose behalf the services are called; each service judges whether to trust it. Default: nobody's.
    pub credentials: Option<Value>,
    /// Limits on what the function may use at each step, effective where they are below a node's own (rpc-chains section 3.6).
    /// Default: each node's limits.
    pub limits: StepLimits,
    /// Whether everything that is handed to the function is recorded, on whichever node (for [`ReplySet::recording`]).
    pub record: bool,
    /// The clock and randomness of an earlier run, with which the function does the same again. Default: its own.
    pub start: Option<Start>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            hops_max: 2_000,
            profile: false,
            mode: Mode::Chain,
            compose: true,
            credentials: None,
            limits: StepLimits::UNCHANGED,
            record: false,
            start: None,
        }
    }
}

impl RunOptions {
    fn budget(&self) -> Budget {
        Budget::new(u64::try_from(self.timeout.as_micros()).unwrap_or(u64::MAX), self.hops_max)
    }

    fn plan(&self) -> Plan {
        Plan {
            budget: self.budget(),
            mode: self.mode,
            compose: self.compose,
            profile: self.profile,
            credentials: self.credentials.clone(),
            limits: self.limits,
            record: self.record,
            start: self.start,
        }
    }
}

/// Bytes that crossed a client's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes that the client sent.
    pub sent_bytes: u64,
    /// Bytes that the client received.
    pub received_bytes: u64,
}

/// A handle for calling. Cheap to clone, `Send + Sync`; every future it returns may be dropped at any time.
#[derive(Clone)]
pub struct Client {
    shell: Arc<Shell>,
}

impl Client {
    /// Connects to one node (`host:port`), and through it to all nodes that it knows.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub async fn connect(address: &str) -> Result<Self, StartError> {
        Self::builder("client").join(Place::new(address)).start_client().await
    }

    /// Begins the settings of a client: those of a node, most of which a client does not need. Finish with [`NodeBuilder::connect`].
    #[must_use]
    pub fn builder(name: impl Into<String>) -> NodeBuilder {
        NodeBuilder::new(name)
    }

    pub(crate) const fn new(shell: Arc<Shell>) -> Self {
        Self { shell }
    }

    pub(crate) const fn shell(&self) -> &Arc<Shell> {
        &self.shell
    }

    /// Keeps bytes here as a blob, to be passed by reference. It lasts for the default timeout of a call or chain plus a grace ([`NodeBuilder::blob_grace`]).
    ///
    /// # Errors
    /// `Overloaded`: there is no room for that many bytes (`blob_bytes_max`). `BadParameters`: the media type has more than 256 bytes.
    pub fn blob(&self, bytes: &[u8], media_type: &str) -> Result<Blob, Exception> {
        self.blob_for(bytes, media_type, RunOptions::default().timeout)
    }

    /// Like [`Client::blob`], but the blob lasts for `lasts` plus the grace, unless [`Blob::release`] ends it earlier.
    ///
    /// # Errors
    /// As [`Client::blob`].
    pub fn blob_for(&self, bytes: &[u8], media_type: &str, lasts: Duration) -> Result<Blob, Exception> {
        self.shell.blobs.offer(&self.shell, bytes, media_type, (lasts, None))
    }

    /// How many blobs are kept here, and their bytes in all.
    #[must_use]
    pub fn blobs_held(&self) -> (usize, u64) {
        self.shell.blobs.load()
    }

    /// Bytes of blobs that this node pushed to callees beside calls, before they asked for them; and bytes that were pushed to this node and then read.
    #[must_use]
    pub fn blobs_pushed(&self) -> (u64, u64) {
        self.shell.blobs.beside().counts()
    }

    /// Adds a JavaScript function; `name` is shown in its stack traces. Strip the types of TypeScript first (crate `catena-script`).
    ///
    /// # Errors
    /// A syntax error with line and column, or another reason why it cannot be loaded.
    pub async fn javascript(&self, name: &str, source: &str) -> Result<Code, Exception> {
        self.code(FunctionKind::JavaScript, name, source.as_bytes()).await
    }

    /// Adds a function compiled to WebAssembly (`guest/ABI.md`).
    ///
    /// # Errors
    /// The module is not admitted; the exception says why.
    pub async fn wasm(&self, name: &str, module: &[u8]) -> Result<Code, Exception> {
        self.code(FunctionKind::Wasm, name, module).await
    }

    fn code<'a>(
        &'a self,
        kind: FunctionKind,
        name: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<Code, Exception>> {
        Box::pin(async move {
            let sandbox = self.shell.sandbox().await?;
            let function: Function = sandbox.function(kind, name, bytes.to_vec());
            let encoded = function.encode();
            let hash = Hash(*blake3::hash(&encoded).as_bytes());
            sandbox.load(hash, &encoded).await?;
            self.shell.keep_code(hash, &encoded)?;
            self.shell.offer(hash, encoded);
            Ok(Code { hash })
        })
    }

    /// Runs a chain. The function starts at this client and moves with each call, from the first on.
    ///
    /// # Errors
    /// The input cannot be encoded, or too many chains are under way. Any later failure comes through the reply set.
    pub async fn run<I: Serialize + ?Sized>(&self, code: &Code, input: &I) -> Result<ReplySet, Exception> {
        self.run_with(code, &to_value(input)?, &RunOptions::default())
    }

    /// Runs a chain as `options` say.
    ///
    /// # Errors
    /// Too many chains are under way.
    pub fn run_with(&self, code: &Code, input: &Value, options: &RunOptions) -> Result<ReplySet, Exception> {
        let (hash, input) = (code.hash, input.clone());
        let begin = |core: &mut catena_core::Node, now| core.run(now, random::bits128(), hash, input, options.plan());
        let (chain, incoming) = self.shell.run(begin)?;
        Ok(ReplySet::new(Arc::clone(&self.shell), chain, incoming))
    }

    /// Makes a plain remote procedure call, over the same links as chains: the baseline to compare them with.
    ///
    /// # Errors
    /// The exception with which the call failed; its name says what went wrong.
    pub async fn call<P, R>(&self, service: &str, function: &str, params: &P) -> Result<R, Exception>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        let result = self.call_with(service, function, to_value(params)?, &RunOptions::default()).await?;
        decoded_in(Here::Answer(Arc::clone(&self.shell)), || from_value(&result))
    }

    /// Makes a plain call with encoded parameters, as `options` say.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_with(
        &self,
        service: &str,
        function: &str,
        params: Value,
        options: &RunOptions,
    ) -> Result<Value, Exception> {
        let credentials = options.credentials.clone();
        let begin = |core: &mut catena_core::Node, now| {
            core.call(now, service, function, params, options.budget(), credentials)
        };
        let (id, answer) = self.shell.call(begin);
        // Withdraws the call when this future is dropped.
        let _guard = Withdraw { shell: &self.shell, id };
        answer.await.unwrap_or_else(|_| {
            let message = "the client was closed while the call was under way";
            Err(Exception::new(names::CANCELLED, Fault::Caller, message).outcome_unknown())
        })
    }

    /// Calls `service/function` and returns its replies as they arrive, also from functions to which it delegates, with an exact end (Quatrain).
    ///
    /// # Errors
    /// The parameters cannot be encoded, the name is not `service/function`, or too many calls are under way. Any later failure comes through the reply set.
    pub async fn replies<P: Serialize + ?Sized>(&self, target: &str, params: &P) -> Result<ReplySet, Exception> {
        self.replies_with(target, to_value(params)?, &RunOptions::default())
    }

    /// Like [`Client::replies`], with encoded parameters and the timeout, hops (each delegation takes one) and credentials of `options`.
    ///
    /// # Errors
    /// As [`Client::replies`].
    pub fn replies_with(&self, target: &str, params: Value, options: &RunOptions) -> Result<ReplySet, Exception> {
        let (service, function) = split_target(target)?;
        let credentials = options.credentials.clone();
        let ask = |core: &mut catena_core::Node, now| {
            core.ask(now, random::bits128(), service, function, params, options.budget(), credentials)
        };
        let (call, incoming) = self.shell.run(ask)?;
        Ok(ReplySet::of_call(Arc::clone(&self.shell), call, incoming))
    }

    /// Where each resolver of this process finds a service. For diagnosis: calls resolve names by themselves.
    pub async fn resolve(&self, service: &str) -> Vec<ResolverAnswer> {
        self.shell.resolvers_say(service).await
    }

    /// Like [`Client::resolve`], but with the answers of the node that this client joined.
    ///
    /// # Errors
    /// That node does not answer.
    pub async fn resolve_there(&self, service: &str) -> Result<Vec<ResolverAnswer>, Exception> {
        self.shell.ask_joined(service).await
    }

    /// Asks the nodes of the mesh which services they know of; returns these sorted by name.
    pub async fn services(&self) -> Vec<ServiceEntry> {
        self.shell.survey().await
    }

    /// The services that linked nodes have announced, sorted by name, without asking again.
    #[must_use]
    pub fn known_services(&self) -> Vec<ServiceEntry> {
        self.shell.peers.all()
    }

    /// Takes messages for a service ID here from now on; senders find it as they find a service. The service may also be served here, or take messages alone.
    ///
    /// # Errors
    /// `BadParameters`: the name is empty, too long, has a slash, or already has a mailbox here; `Overloaded`.
    pub fn mailbox(&self, service: &str) -> Result<Mailbox, Exception> {
        Mailbox::open(&self.shell, service)
    }

    /// Sends a short message from one service ID to another, in one frame that never queues (libRIPC, section III.A). On return the link has it, but it may
    /// still be lost: without room it is dropped and counted ([`Client::message_counts`]). The first message to a service waits until that is found.
    ///
    /// # Errors
    /// `LimitExceeded`: more than 12 KiB or 64 items; `UnknownService`, `NodeUnreachable`: no node is known that takes this service's messages.
    pub async fn send_short(
        &self,
        from: &str,
        to: &str,
        items: impl IntoIterator<Item = impl Into<Bytes>>,
    ) -> Result<(), Exception> {
        send_short(&self.shell, from, to, items.into_iter().map(Into::into).collect()).await
    }

    /// Asks a service by messages and waits for its answer. The server chooses, by its load: one frame, the question's return buffer, or bytes left to be read.
    ///
    /// # Errors
    /// As [`Client::send_short`]; `DeadlineExceeded`, `OwnerLost`, `unknown`: no answer came, but the question may have arrived.
    pub async fn ask(&self, to: &str, question: Question) -> Result<Answer, Exception> {
        ask(&self.shell, "", to, question).await
    }

    /// Counts of what became of the messages that this process sent and received: the only place where dropped messages show.
    #[must_use]
    pub fn message_counts(&self) -> MessageCounts {
        self.shell.post.counts()
    }

    /// How many messages wait in mailboxes here, how many messages have buffers that are held for others, and the bytes of those buffers.
    #[must_use]
    pub fn message_load(&self) -> (usize, usize, u64) {
        self.shell.post.load()
    }

    /// Imports a segment, named `OWNER/NAME`, where `OWNER` is the owner's own name, a service that it serves, or its address.
    ///
    /// # Errors
    /// `NodeUnreachable`: there is no such node; `UnknownSegment`: it exports no segment of this name to this node.
    pub async fn import(&self, segment: &str) -> Result<Imported, Exception> {
        self.shell.import(segment, Lookup::default()).await
    }

    /// Like [`Client::import`], with the given kind of look-up.
    ///
    /// # Errors
    /// As [`Client::import`].
    pub async fn import_with(&self, segment: &str, how: Lookup) -> Result<Imported, Exception> {
        self.shell.import(segment, how).await
    }

    /// Imports the range to which a grant gives this node access. The owner hands out the grant by any means it likes.
    ///
    /// # Errors
    /// `NodeUnreachable`: the owner cannot be reached.
    pub async fn import_granted(&self, owner: &NodeRef, granted: &Granted) -> Result<Imported, Exception> {
        self.shell.import_granted(owner.clone(), granted).await
    }

    /// The segments of a node that this one may use.
    ///
    /// # Errors
    /// As [`Client::import`].
    pub async fn segments(&self, owner: &str) -> Result<Vec<SegmentEntry>, Exception> {
        self.shell.segments_of(owner).await
    }

    /// Compares every import with what its owner exports now, as also happens every 10 s; from then on, accesses to a stale import fail without a message.
    pub async fn refresh_imports(&self) {
        self.shell.refresh_imports().await;
    }

    /// The ID of this run of the client: owners of segments give rights to this ID.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.shell.me.id
    }

    /// The client's name, with which the path of its chains begins.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shell.me.name
    }

    /// The time of day by this client's clock, in microseconds since the Unix epoch. It dates what its chains log and the steps that they make
    /// here. The system's time is read once, at the start; from there the clock only rises.
    #[must_use]
    pub fn unix_us(&self) -> u64 {
        self.shell.unix_us()
    }

    /// Bytes that crossed this client's links so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let links = self.shell.endpoint().map(catena_net::Endpoint::links).unwrap_or_default();
        links.iter().map(|link| link.stats()).fold(Traffic::default(), |sum, link| Traffic {
            sent_bytes: sum.sent_bytes + link.bytes_sent,
            received_bytes: sum.received_bytes + link.bytes_received,
        })
    }

    /// Like [`Client::traffic`], but for each link, by the name of the node at the other end.
    #[must_use]
    pub fn traffic_by_node(&self) -> Vec<(String, Traffic)> {
        let links = self.shell.endpoint().map(catena_net::Endpoint::links).unwrap_or_default();
        let named = links.iter().filter_map(|link| Some((self.shell.peers.of(link)?.name.clone(), link.stats())));
        named
            .map(|(name, link)| (name, Traffic { sent_bytes: link.bytes_sent, received_bytes: link.bytes_received }))
            .collect()
    }

    /// Sends what is queued, then closes the links, all within `grace`.
    pub async fn close(&self, grace: Duration) {
        self.shell.close(grace).await;
    }
}

impl NodeBuilder {
    /// Starts the client.
    ///
    /// # Errors
    /// A node to join cannot be reached, or the settings are wrong.
    pub async fn connect(self) -> Result<Client, StartError> {
        self.start_client().await
    }
}

/// A function that is loaded here and known by its hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    hash: Hash,
}

impl Code {
    /// The BLAKE3 hash of the function, by which every node knows it.
    #[must_use]
    pub const fn hash(&self) -> Hash {
        self.hash
    }
}

struct Withdraw<'a> {
    shell: &'a Arc<Shell>,
    id: catena_core::CallId,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.shell.withdraw(self.id);
    }
}
