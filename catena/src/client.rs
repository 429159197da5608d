//! A client: begins chains, makes plain calls.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use catena_core::{Plan, Start};
use catena_guest::{Function, FunctionKind};
use catena_net::Place;
use catena_wire::{
    Budget, Exception, Fault, Hash, Mode, NodeId, NodeRef, ResolverAnswer, SegmentEntry, ServiceEntry, StepLimits,
    Value, names,
};
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
    /// Whether chains that services answer with join this one (rpc-chains section 3.4). Default: yes.
    pub compose: bool,
    /// On whose behalf the services are called; they judge what it is worth. Default: nobody's.
    pub credentials: Option<Value>,
    /// What the function may use at each step, where that is less than a node allows (rpc-chains section 3.6). Default: as
    /// each node has it.
    pub limits: StepLimits,
    /// Whether what the function is told is recorded wherever it is (for [`ReplySet::recording`]).
    pub record: bool,
    /// The clock and randomness of a run before this one, to have the function do the same again. Default: its own.
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
    /// From it.
    pub sent_bytes: u64,
    /// To it.
    pub received_bytes: u64,
}

/// A handle for calling. Cheap to clone, `Send + Sync`; every future it returns may be dropped at any time.
#[derive(Clone)]
pub struct Client {
    shell: Arc<Shell>,
}

impl Client {
    /// Connects to one node (`host:port`), and through it to all that it knows of.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub async fn connect(address: &str) -> Result<Self, StartError> {
        Self::builder("client").join(Place::new(address)).start_client().await
    }

    /// Settings of a client: a node's, most of which it does not need. End with [`NodeBuilder::connect`].
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

    /// Keeps bytes here, to be passed by reference: for as long as a call or chain may take by default, and a grace.
    ///
    /// # Errors
    /// `Overloaded`: there is no room for so many bytes (`blob_bytes_max`). `BadParameters`: the media type has more than 256 bytes.
    pub fn blob(&self, bytes: &[u8], media_type: &str) -> Result<Blob, Exception> {
        self.blob_for(bytes, media_type, RunOptions::default().timeout)
    }

    /// The same for so long, and a grace; [`Blob::release`] ends it earlier.
    ///
    /// # Errors
    /// As [`Client::blob`].
    pub fn blob_for(&self, bytes: &[u8], media_type: &str, lasts: Duration) -> Result<Blob, Exception> {
        self.shell.blobs.offer(&self.shell, bytes, media_type, (lasts, None))
    }

    /// Blobs that are kept here, and their bytes.
    #[must_use]
    pub fn blobs_held(&self) -> (usize, u64) {
        self.shell.blobs.load()
    }

    /// Bytes of blobs that this node sent to callees beside calls, before they had asked; and bytes that came to it so, and were read.
    #[must_use]
    pub fn blobs_pushed(&self) -> (u64, u64) {
        self.shell.blobs.beside().counts()
    }

    /// Takes in a function in JavaScript; `name` is shown in its stack traces. Strip the types of TypeScript first (crate `catena-script`).
    ///
    /// # Errors
    /// A syntax error with line and column, or why else it cannot be loaded.
    pub async fn javascript(&self, name: &str, source: &str) -> Result<Code, Exception> {
        self.code(FunctionKind::JavaScript, name, source.as_bytes()).await
    }

    /// Takes in a function compiled to WebAssembly (`guest/ABI.md`).
    ///
    /// # Errors
    /// Why it is not admitted.
    pub async fn wasm(&self, name: &str, module: &[u8]) -> Result<Code, Exception> {
        self.code(FunctionKind::Wasm, name, module).await
    }

    async fn code(&self, kind: FunctionKind, name: &str, bytes: &[u8]) -> Result<Code, Exception> {
        let sandbox = self.shell.sandbox().await?;
        let function: Function = sandbox.function(kind, name, bytes.to_vec());
        let encoded = function.encode();
        let hash = Hash(*blake3::hash(&encoded).as_bytes());
        sandbox.load(hash, &encoded).await?;
        self.shell.keep_code(hash, &encoded)?;
        self.shell.offer(hash, encoded);
        Ok(Code { hash })
    }

    /// Runs a chain. The function begins here and hops from its first call on.
    ///
    /// # Errors
    /// The input cannot be encoded, or too many chains are under way. Everything later comes through the reply set.
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

    /// Makes a plain remote procedure call, over the same links: the baseline.
    ///
    /// # Errors
    /// Whatever went wrong, by name.
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
    /// Whatever went wrong, by name.
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

    /// Calls `service/function` and gives its replies as they come, from wherever it delegates to, with an exact end (Quatrain).
    ///
    /// # Errors
    /// The parameters cannot be encoded, the name is not `service/function`, or too many calls are under way. Everything later comes through the
    /// reply set.
    pub async fn replies<P: Serialize + ?Sized>(&self, target: &str, params: &P) -> Result<ReplySet, Exception> {
        self.replies_with(target, to_value(params)?, &RunOptions::default())
    }

    /// The same with encoded parameters, as `options` say: within their time, with their hops (each delegation takes one), on their behalf.
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

    /// Where a service is, as each resolver of this process has it. For people: calls find it by themselves.
    pub async fn resolve(&self, service: &str) -> Vec<ResolverAnswer> {
        self.shell.resolvers_say(service).await
    }

    /// The same as the node has it that this client joined.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn resolve_there(&self, service: &str) -> Result<Vec<ResolverAnswer>, Exception> {
        self.shell.ask_joined(service).await
    }

    /// The services that the nodes know of, by name.
    pub async fn services(&self) -> Vec<ServiceEntry> {
        self.shell.survey().await
    }

    /// The services that its links have told of, by name, without asking again.
    #[must_use]
    pub fn known_services(&self) -> Vec<ServiceEntry> {
        self.shell.peers.all()
    }

    /// Takes messages for a service ID from now on, wherever this is: whoever sends finds it as a service. For one that is served here, or for messages alone.
    ///
    /// # Errors
    /// `BadParameters`: the name is empty, too long, has a slash, or has a mailbox here; `Overloaded`.
    pub fn mailbox(&self, service: &str) -> Result<Mailbox, Exception> {
        Mailbox::open(&self.shell, service)
    }

    /// Sends a short message from one service ID to another, in one frame that waits behind nothing (libRIPC, section III.A). The link has it when this returns, and it may
    /// be lost: where there is no room for it it is dropped, and only counted ([`Client::message_counts`]). The first to a service waits until that is found.
    ///
    /// # Errors
    /// `LimitExceeded`: more than 12 KiB or 64 items; `UnknownService`, `NodeUnreachable`: nobody is known who takes it.
    pub async fn send_short(
        &self,
        from: &str,
        to: &str,
        items: impl IntoIterator<Item = impl Into<Bytes>>,
    ) -> Result<(), Exception> {
        send_short(&self.shell, from, to, items.into_iter().map(Into::into).collect()).await
    }

    /// Asks a service by messages, and waits for its answer: in a frame, in the question's return buffer, or left to be read. The server chooses, by its load.
    ///
    /// # Errors
    /// As [`Client::send_short`]; `DeadlineExceeded`, `OwnerLost`, `unknown`: no answer came, and the question may have.
    pub async fn ask(&self, to: &str, question: Question) -> Result<Answer, Exception> {
        ask(&self.shell, "", to, question).await
    }

    /// What became of messages that this process sent and received: nobody is told of one that is dropped.
    #[must_use]
    pub fn message_counts(&self) -> MessageCounts {
        self.shell.post.counts()
    }

    /// Messages that wait in mailboxes here; messages whose buffers are held for others; how many bytes those have.
    #[must_use]
    pub fn message_load(&self) -> (usize, usize, u64) {
        self.shell.post.load()
    }

    /// Imports a segment, named `OWNER/NAME`; the owner by its own name, by a service that it serves, or by its address.
    ///
    /// # Errors
    /// `NodeUnreachable`: there is no such node; `UnknownSegment`: it exports no segment of this name to this node.
    pub async fn import(&self, segment: &str) -> Result<Imported, Exception> {
        self.shell.import(segment, Lookup::default()).await
    }

    /// Imports a segment, looking for it in a way of one's own.
    ///
    /// # Errors
    /// As [`Client::import`].
    pub async fn import_with(&self, segment: &str, how: Lookup) -> Result<Imported, Exception> {
        self.shell.import(segment, how).await
    }

    /// Imports what a grant allows this node. It is told by its owner, in whatever way.
    ///
    /// # Errors
    /// `NodeUnreachable`: the owner is not there.
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

    /// Compares every import with what its owner exports now, as is done every 10 s: those that are stale fail from now on without a message.
    pub async fn refresh_imports(&self) {
        self.shell.refresh_imports().await;
    }

    /// This run of it: what owners of segments give rights to.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.shell.me.id
    }

    /// Its name: where the path of its chains begins.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shell.me.name
    }

    /// The time of day by this client's clock, microseconds since the Unix epoch: what its chains log, and the steps that they do
    /// here, are dated by it. It is read from the system once, at the start, and only rises.
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

    /// The same of each of its links, by the name of the node at the other end.
    #[must_use]
    pub fn traffic_by_node(&self) -> Vec<(String, Traffic)> {
        let links = self.shell.endpoint().map(catena_net::Endpoint::links).unwrap_or_default();
        let named = links.iter().filter_map(|link| Some((self.shell.peers.of(link)?.name.clone(), link.stats())));
        named
            .map(|(name, link)| (name, Traffic { sent_bytes: link.bytes_sent, received_bytes: link.bytes_received }))
            .collect()
    }

    /// Closes the links, sending first what is queued, within `grace`.
    pub async fn close(&self, grace: Duration) {
        self.shell.close(grace).await;
    }
}

impl NodeBuilder {
    /// Starts as a client.
    ///
    /// # Errors
    /// A node to join cannot be reached, or the settings are wrong.
    pub async fn connect(self) -> Result<Client, StartError> {
        self.start_client().await
    }
}

/// A function, loaded and known by its hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    hash: Hash,
}

impl Code {
    /// BLAKE3 of the function: its name everywhere.
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
