//! What the state machines ask of the shell, and the types that these requests use.

use alloc::{string::String, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{
    Branch, Budget, ChainId, Encoded, Exception, GuestCall, GuestRead, GuestSplit, Hash, Kinds, LogLine, NodeId,
    NodeRef, Outcome, Part, PossibleDuplicate, Recording, ResolverAnswer, ServiceEntry, StepKey, StepLimits, StepTrace,
    Told, Value,
};

use crate::collections::Party;

/// A chain's stay at this node: the shell keeps the guest under this name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// A running service function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A name being looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LookupId(pub u64);

/// A plain call made through [`crate::Node::call`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u64);

/// Something to do. The order of actions matters: a shell does them in the order in which they come.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send this to that node; call [`crate::Node::on_undelivered`] with the receipt if it certainly or possibly did not arrive.
    Send {
        /// The node, by an open link or by dialling its address: exactly this run of the node, since another run remembers no steps.
        to: Arc<NodeRef>,
        /// Head and tail.
        message: Encoded,
        /// Identifies the message in later reports.
        receipt: Receipt,
        /// Whether it may wait to be sent together with others.
        urgency: Urgency,
        /// Who can pass the message on, if there is no link to the node and the node cannot be dialled.
        via: Option<Arc<NodeRef>>,
    },
    /// Run a service function of this node; answer with [`crate::Node::on_service_done`].
    RunService {
        /// Identifies the answer.
        ticket: Ticket,
        /// Service.
        service: String,
        /// Function.
        function: String,
        /// Parameters.
        params: Value,
        /// How long the caller will wait, and how many of its hops the function may spend.
        budget: Budget,
        /// On whose behalf.
        credentials: Option<Value>,
        /// The chain step that this call is; the key stays the same if the step is ever done again.
        key: Option<StepKey>,
        /// Set if the chain is a possible duplicate: a durable function's record of another way decides whether it may run.
        duplicate: Option<PossibleDuplicate>,
        /// The right to reply that comes with the call, if it may be answered many times. Replies are made by [`crate::Node::reply`]; the right ends with
        /// [`crate::Node::let_go`].
        right: Option<StepKey>,
        /// For whom it is run, whose share it takes.
        by: Party,
    },
    /// Those who wait to reply under this right may try again; or the right is over.
    RightChanged(StepKey),
    /// Cancel this service function: nobody waits for it any more.
    CancelService(Ticket),
    /// Begin a function from its image; answer with [`crate::Node::on_turn`].
    Begin {
        /// The new session.
        session: SessionId,
        /// The function.
        code: Hash,
        /// The chain's input.
        input: Value,
        /// Its only clock: when it started, milliseconds since the Unix epoch.
        started_at_ms: u64,
        /// The seed of its random numbers.
        seed: u64,
        /// What it may use, if that is less than this node allows.
        limits: StepLimits,
        /// Whose share pays for it.
        by: Party,
    },
    /// Lay this continuation over the function's image and settle the call; answer with [`crate::Node::on_turn`], or with
    /// [`crate::Node::on_code_absent`] if the function is not here.
    Resume {
        /// The new session.
        session: SessionId,
        /// The function.
        code: Hash,
        /// Its state.
        continuation: Bytes,
        /// The call that has settled.
        call: u32,
        /// Its result.
        result: Result<Value, Exception>,
        /// What it may use, if that is less than this node allows.
        limits: StepLimits,
        /// Whose share pays for it.
        by: Party,
    },
    /// Lay this continuation over the function's image and begin one branch of its split; answer as to [`Action::Resume`].
    Branch {
        /// The new session.
        session: SessionId,
        /// The function.
        code: Hash,
        /// Its state, the same for all branches.
        continuation: Bytes,
        /// The guest's number for the split.
        call: u32,
        /// Which branch, from 0.
        index: u16,
        /// What it may use, if that is less than this node allows.
        limits: StepLimits,
        /// Whose share pays for it.
        by: Party,
    },
    /// Settle a call of a live session; answer with [`crate::Node::on_turn`].
    Settle {
        /// The session.
        session: SessionId,
        /// The call that has settled.
        call: u32,
        /// Its result.
        result: Result<Value, Exception>,
    },
    /// Take the continuation and end the session; answer with [`crate::Node::on_suspended`].
    Suspend {
        /// The session.
        session: SessionId,
        /// The function to be sent along, if it is small.
        with_code: Option<Hash>,
    },
    /// End the session.
    Discard(SessionId),
    /// Make sure that this function is here, loading `bytes` if they are given; call [`crate::Node::on_code_missing`] if it is not.
    CheckCode {
        /// The session that will need it.
        session: SessionId,
        /// The function.
        code: Hash,
        /// Its bytes, if it was sent along with the hop.
        bytes: Option<Bytes>,
    },
    /// Check and keep this function; answer with [`crate::Node::on_code_stored`].
    StoreCode {
        /// The function.
        code: Hash,
        /// Its bytes, not yet checked.
        bytes: Bytes,
    },
    /// Send this function, or `NoCode`, to the node that asked.
    ServeCode {
        /// The function.
        code: Hash,
        /// Who asked.
        to: Arc<NodeRef>,
    },
    /// Find where a service is; answer with [`crate::Node::on_resolved`].
    Resolve {
        /// Identifies the answer.
        lookup: LookupId,
        /// Its name.
        service: String,
        /// Instances that did not answer, or do not serve it: any other is better.
        avoid: Vec<NodeId>,
    },
    /// Nobody waits for this look-up any more ([`Action::Resolve`]): stop it.
    AbandonLookup(LookupId),
    /// Ask the registry for a function; answer with [`crate::Node::on_code_fetched`].
    FetchCode(Hash),
    /// A peer says what it serves from now on, instead of what it said before.
    Offered {
        /// The peer.
        from: Arc<NodeRef>,
        /// What it serves.
        entries: Vec<ServiceEntry>,
    },
    /// Tell a node what each resolver of this node says about where a service is.
    ServeResolvers {
        /// The asking node's number for the question.
        id: u64,
        /// The service.
        service: String,
        /// Who asked.
        to: Arc<NodeRef>,
        /// Whose share it takes.
        by: Party,
    },
    /// What the resolvers of another node say.
    ResolversSaid {
        /// Our number for the question.
        id: u64,
        /// What each says.
        answers: Vec<ResolverAnswer>,
    },
    /// Send the services that this node knows of.
    ServeListing {
        /// The asking node's number for the question.
        id: u64,
        /// Who asked.
        to: Arc<NodeRef>,
    },
    /// The services that a node knows of.
    Listing {
        /// Our number for the question.
        id: u64,
        /// The answer.
        entries: Vec<ServiceEntry>,
    },
    /// An answer for the holder of a reply set.
    Reply(ChainId, Replied),
    /// An intermediate answer of the sub-chain with which a service of this node answered at this step, in order and once.
    Heard(StepKey, Value),
    /// The sub-chain that began at this step has ended, and all of its answers that arrived have been reported.
    HeardEnd(StepKey),
    /// A plain call has ended.
    CallDone(CallId, Result<Value, Exception>),
}

impl Action {
    /// Bytes of messages that it brings to the shell: of those that may have many.
    pub(crate) fn carried_bytes(&self) -> usize {
        let entries = |entries: &[ServiceEntry]| entries.iter().map(ServiceEntry::kept_bytes).sum();
        match self {
            Self::Send { message, .. } => message.head.len() + message.tail.len(),
            Self::RunService { params: value, .. }
            | Self::Begin { input: value, .. }
            | Self::Settle { result: Ok(value), .. }
            | Self::Reply(_, Replied::Partial(value))
            | Self::Heard(_, value)
            | Self::CallDone(_, Ok(value)) => value.len_bytes(),
            Self::Reply(_, Replied::Replies(values)) => values.iter().map(Value::len_bytes).sum(),
            Self::Resume { continuation: bytes, .. }
            | Self::Branch { continuation: bytes, .. }
            | Self::StoreCode { bytes, .. }
            | Self::CheckCode { bytes: Some(bytes), .. } => bytes.len(),
            Self::Offered { entries: all, .. } | Self::Listing { entries: all, .. } => entries(all),
            _ => 0,
        }
    }
}

/// What a sent message is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// A hop, which this node keeps until another has accepted it.
    Hop(Handed),
    /// A plain call.
    Call(u64),
    /// The answer to a plain call of that node, by its number.
    Return(Arc<NodeRef>, u64),
    /// A request for a function.
    WantCode(Wanted),
    /// A part of the outcome of this step's chain, or its cancellation.
    Part(StepKey, Part),
    /// A sign of life of this step's chain.
    Beat(StepKey),
    /// Nothing that anybody waits for.
    None,
}

/// One sending of one hop: late news of an earlier sending, or of an earlier hop, must not be mistaken for news of this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handed {
    pub(crate) session: SessionId,
    pub(crate) step: u32,
    pub(crate) to: NodeId,
    pub(crate) attempt: u8,
}

/// One request for a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub(crate) code: Hash,
    pub(crate) from: NodeId,
}

/// Whether a message may wait for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Somebody waits for it.
    Now,
    /// It is sent with the next message to that node, or after some milliseconds.
    Lazy,
}

/// How a message failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undelivered {
    /// It was never sent.
    Unreachable,
    /// The link broke; whether it had been sent before is unknown.
    Lost,
    /// It was never sent: it has more bytes than a link carries.
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// The most.
        bytes_max: u64,
    },
}

/// One event of a reply set.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant, reason = "the end comes once, and lives no longer than it takes to look at it")]
pub enum Replied {
    /// An intermediate answer, in order and once.
    Partial(Value),
    /// Replies to a call, in order and once.
    Replies(Vec<Value>),
    /// Lines of the virtual console.
    Console(Vec<LogLine>),
    /// The next event of the recording, while the chain is at its origin. The end brings all events, wherever they happened.
    Told(Told),
    /// The exact end of a call that is answered many times: nothing comes after it.
    Over {
        /// The replies that are missing, by right.
        missing: Vec<Missing>,
        /// Why it ended before the last answer could arrive: its time ran out, it was cancelled, or the node that had it was lost.
        failure: Option<Exception>,
    },
    /// The exact end of a chain: nothing comes after it.
    End {
        /// How the chain ended.
        outcome: Outcome,
        /// The last step that it made, as far as its origin knows. A function may go on after an exception and throw it later, so this may be a later step.
        last_step: u32,
        /// Hosts traversed.
        path: Vec<String>,
        /// The profile, if one was asked for.
        trace: Vec<StepTrace>,
        /// The recording, if one was asked for and has arrived.
        recording: Option<Recording>,
    },
}

/// Replies that will not come: those of one right to reply.
#[derive(Clone, PartialEq, Debug)]
pub struct Missing {
    /// Which right: the root is that of the call, its children are those that it delegated.
    pub branch: Branch,
    /// `service/function`; empty if that is not known.
    pub target: String,
    /// The node that had it, if that is known.
    pub node: Option<String>,
    /// Why.
    pub why: Exception,
}

/// What a guest did between two events.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Turn {
    /// Calls that it issued.
    pub calls: Vec<GuestCall>,
    /// Intermediate answers.
    pub emits: Vec<Value>,
    /// Lines for the virtual console.
    pub logs: Vec<String>,
    /// Splits that it asked for.
    pub splits: Vec<GuestSplit>,
    /// Calls that it issued and that are answered many times.
    pub asks: Vec<GuestAsk>,
    /// Reads of the replies to such calls.
    pub reads: Vec<GuestRead>,
    /// Reply sets that it has left, by the guest's numbers for them.
    pub leaves: Vec<u32>,
    /// Its end, if it has ended.
    pub end: Option<Result<Value, Exception>>,
}

/// A call that a guest issued and that is answered many times. The guest's number for it is also the number of its reply set; the first replies are handed in
/// under it.
#[derive(Clone, PartialEq, Debug)]
pub struct GuestAsk {
    /// The number by which the node knows it: drawn at random, so that nobody can guess it.
    pub number: u128,
    /// The call.
    pub call: GuestCall,
}

/// What a service function answers with.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// A value; where a call is answered many times, it is one more reply.
    Value(Value),
    /// Nothing: it has replied under its right, and there is nothing to add.
    Nothing,
    /// A chain, whose result is the answer (rpc-chains section 3.4).
    Chain(SubChain),
}

/// A chain that a service function answers with.
#[derive(Clone, PartialEq, Debug)]
pub struct SubChain {
    /// Its number if it has to run on its own: drawn at random, so that nobody can guess it.
    pub number: u128,
    /// Its function.
    pub code: Hash,
    /// Its input.
    pub input: Value,
    /// The function of the same service that takes its uncaught exceptions, and answers in its place.
    pub catch: Option<String>,
    /// Whether the service wants its intermediate answers.
    pub hears: bool,
}

/// Where a service is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// The node that serves it.
    pub node: Arc<NodeRef>,
    /// The proxy where chains that call it run, if not at its node (rpc-chains section 7.3).
    pub proxy: Option<Arc<NodeRef>>,
    /// What the service says about its functions.
    pub kinds: Kinds,
}

impl Instance {
    /// An instance as a node announces it. `None`: it has a proxy, which the node names by its address alone, so the shell has to look it up.
    pub(crate) fn of(entry: ServiceEntry) -> Option<Self> {
        let ServiceEntry { node, kinds, proxy, .. } = entry;
        proxy.is_none().then(|| Self { node: Arc::new(node), proxy: None, kinds })
    }
}

/// Where a call may be made again when it is unknown whether it was done (rpc-chains section 3.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RetryScope {
    /// Nowhere but at the same run of the same node, which remembers the step.
    #[default]
    Nowhere,
    /// At another run of the same node, which finds the step on its disk.
    SameNode,
    /// At any instance of the service.
    Anywhere,
}

impl RetryScope {
    /// The scope of a function, given what its service says about its functions.
    pub(crate) fn of(kinds: &Kinds, function: &str) -> Self {
        let among = |functions: &[String]| functions.iter().any(|known| known == function);
        match () {
            () if among(&kinds.repeatable) => Self::Anywhere,
            () if among(&kinds.durable) => Self::SameNode,
            () => Self::Nowhere,
        }
    }
}
