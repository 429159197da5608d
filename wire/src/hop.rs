//! What travels: the chain's next call, and its end.

use alloc::{boxed::Box, string::String, vec::Vec};
use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::{
    Branch, Budget, ChainHeader, Exception, Frame, Hash, Merge, NodeId, Recording, StepKey, StepLimits, Value,
};

/// A node, and how to reach it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct NodeRef {
    /// The run of the node.
    #[n(0)]
    pub id: NodeId,
    /// For people, and for the path of hosts.
    #[cbor(n(1), with = "crate::bytes_codec::name")]
    pub name: String,
    /// Where it listens (`host:port`), if it can be dialled.
    #[cbor(n(2), with = "crate::bytes_codec::maybe_name")]
    pub address: Option<String>,
    /// Its site, if sites are told apart.
    #[cbor(n(3), with = "crate::bytes_codec::maybe_name")]
    pub site: Option<String>,
}

impl NodeRef {
    /// Bytes that it takes up beside its own place.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.name.len() + [&self.address, &self.site].into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// One hop (design, section 2): call this service function, then resume the chain's function with its result.
///
/// Parameters are in the head of the message, the continuation in its tail: the service function starts while the state is still arriving.
#[derive(Clone, PartialEq, Debug, Decode)]
#[cbor(array)]
pub struct Hop {
    /// Which step of which chain this is.
    #[n(0)]
    pub key: StepKey,
    /// Microseconds since the hop was first sent; 0 the first time. A node that has forgotten what it did that long ago cannot say that this hop was not done.
    #[n(1)]
    pub age_us: u64,
    /// What is left to spend.
    #[n(2)]
    pub budget: Budget,
    /// Service to call.
    #[cbor(n(3), with = "crate::bytes_codec::name")]
    pub service: String,
    /// Its function.
    #[cbor(n(4), with = "crate::bytes_codec::name")]
    pub function: String,
    /// The parameters.
    #[n(5)]
    pub params: Value,
    /// The guest's number for this call, by which its result is handed in.
    #[n(6)]
    pub call: u32,
    /// The chain's function.
    #[n(7)]
    pub code: Hash,
    /// What the chain was given when it began.
    #[n(8)]
    pub header: ChainHeader,
    /// The chain stack: enclosing chains, outermost first, bounded by [`crate::STACK_DEPTH_MAX`].
    #[cbor(n(9), with = "crate::bytes_codec::stack")]
    pub stack: Vec<Frame>,
    /// Intermediate answers sent so far on this branch.
    #[n(10)]
    pub emitted: u32,
    /// Microseconds until the next sign of life is due at the origin (rpc-chains section 3.9).
    #[n(11)]
    pub heartbeat_in_us: u64,
    /// Hosts traversed, oldest first, bounded by [`crate::PATH_HOSTS_MAX`].
    #[cbor(n(12), with = "crate::bytes_codec::path")]
    pub path: Vec<String>,
    /// The profile so far, if the origin asked for one, bounded by [`crate::TRACE_STEPS_MAX`].
    #[cbor(n(13), with = "crate::bytes_codec::trace")]
    pub trace: Option<Vec<StepTrace>>,
    /// Lines logged so far (rpc-chains section 3.7).
    #[cbor(n(14), with = "crate::bytes_codec::console")]
    pub console: Vec<LogLine>,
    /// Bytes of the continuation. In the tail those of the chain stack follow, then the function itself, if it rides along.
    #[n(15)]
    pub continuation_bytes: u32,
    /// Branches that this one has split into so far.
    #[n(16)]
    pub splits: u16,
    /// Where this branch's outcome goes; `None` for the whole chain.
    #[n(17)]
    pub merge: Option<Merge>,
    /// Not a call: the receiver becomes the merge host of this many branches, those numbered last.
    #[n(18)]
    pub branches: u16,
    /// Intermediate answers sent by branches that have merged into this one.
    #[cbor(n(19), with = "crate::bytes_codec::counts")]
    pub merged: Vec<BranchCount>,
    /// How many lines of the console have been sent to the origin already.
    #[n(20)]
    pub console_told: u32,
    /// What the function may use at each step, if that is less than the node allows.
    #[n(21)]
    pub limits: StepLimits,
    /// Whether its function was told of a call that may have taken effect: if it fails after that, the outcome is unknown.
    #[cbor(n(22), default)]
    pub uncertain: bool,
    /// Whether the chain may be under way twice.
    #[n(23)]
    pub duplicate: Option<PossibleDuplicate>,
    /// What the guests were told so far, if the origin asked for a recording.
    #[n(24)]
    pub recording: Option<Recording>,
    /// For how long its origin could not be reached, if so: moving on must not delay when a chain counts as an orphan.
    #[n(25)]
    pub unreached: Option<Unreached>,
    /// The continuation; not part of the head.
    #[cbor(skip)]
    pub continuation: Bytes,
    /// The function's own bytes, riding along with its first hop over a link (rpc-chains section 3.2); not part of the head.
    #[cbor(skip)]
    pub code_bytes: Option<Bytes>,
}

impl<C> Encode<C> for Hop {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        Encode::encode(&self.leaving(), e, ctx)
    }
}

/// A possible duplicate: a step of the chain may have been done by a node that was lost, and the chain went on without knowing (rpc-chains section 3.9). The
/// first way of a chain is not flagged, and is the only one that may do what must not be done twice.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct PossibleDuplicate {
    /// The earliest step that a lost node may have done.
    #[n(0)]
    pub since: StepKey,
    /// Distinguishes this way of the chain from the others; never 0, which stands for the first way.
    #[n(1)]
    pub way: u64,
}

/// For how long a chain's signs of life have not reached its origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Unreached {
    /// Microseconds since the first sign of life that did not arrive.
    #[n(0)]
    pub since_us: u64,
    /// Microseconds since the last one that did not arrive.
    #[n(1)]
    pub last_us: u64,
}

/// How a branch ended.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Outcome {
    /// The function returned.
    #[n(0)]
    Done(#[n(0)] Value),
    /// It threw, or could not go on.
    #[n(1)]
    Threw(#[n(0)] Exception),
}

impl From<Result<Value, Exception>> for Outcome {
    fn from(result: Result<Value, Exception>) -> Self {
        match result {
            Ok(value) => Self::Done(value),
            Err(exception) => Self::Threw(exception),
        }
    }
}

impl Outcome {
    /// About how many bytes of memory it takes beside itself.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        match self {
            Self::Done(value) => value.len_bytes(),
            Self::Threw(why) => why.kept_bytes(),
        }
    }

    /// As a `Result`.
    ///
    /// # Errors
    /// The exception that was thrown.
    pub const fn as_result(&self) -> Result<&Value, &Exception> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Threw(exception) => Err(exception),
        }
    }
}

impl Value {
    /// An array with `[true, value]` or `[false, exception]` for each branch of a split, in their order (`guest/ABI.md`).
    #[must_use]
    pub fn of_outcomes(outcomes: &[Outcome]) -> Self {
        Self::encode(&Outcomes(outcomes))
    }
}

struct Outcomes<'a>(&'a [Outcome]);

impl<C> Encode<C> for Outcomes<'_> {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(self.0.len() as u64)?;
        for outcome in self.0 {
            match outcome {
                Outcome::Done(value) => {
                    e.array(2)?.bool(true)?;
                    // Inline, not as a byte string: a guest sees the value itself.
                    e.writer_mut().write_all(value.as_bytes()).map_err(minicbor::encode::Error::write)?;
                }
                Outcome::Threw(why) => {
                    e.array(2)?.bool(false)?;
                    why.encode(e, ctx)?;
                }
            }
        }
        Ok(())
    }
}

/// The end notice, from the last server straight to the origin: with the count of answers, so that the end is exact.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct End {
    /// The last step.
    #[n(0)]
    pub key: StepKey,
    /// How it ended.
    #[n(1)]
    pub outcome: Outcome,
    /// How many intermediate answers this branch sent.
    #[n(2)]
    pub emitted: u32,
    /// Hosts traversed.
    #[cbor(n(3), with = "crate::bytes_codec::path")]
    pub path: Vec<String>,
    /// The profile, if it was asked for.
    #[cbor(n(4), with = "crate::bytes_codec::trace")]
    pub trace: Option<Vec<StepTrace>>,
    /// Lines logged, including those that went ahead of the end.
    #[cbor(n(5), with = "crate::bytes_codec::console")]
    pub console: Vec<LogLine>,
    /// For a branch: the step of its parent at whose merge host it ends.
    #[n(6)]
    pub at: Option<StepKey>,
    /// For a branch: how many of its hops it leaves.
    #[n(7)]
    pub hops_left: u32,
    /// Intermediate answers sent by branches that have merged into this one.
    #[cbor(n(8), with = "crate::bytes_codec::counts")]
    pub merged: Vec<BranchCount>,
    /// For the origin: the whole chain ends like this, whichever branch says so, after the answers counted here. Wherever the chain is still under way, it is
    /// to be stopped.
    #[cbor(n(9), default)]
    pub cut: bool,
    /// What the guests were told, if a recording was asked for.
    #[n(10)]
    pub recording: Option<Recording>,
}

impl End {
    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let lines: usize = self.console.iter().map(LogLine::kept_bytes).sum();
        let steps: usize = self.trace.iter().flatten().map(StepTrace::kept_bytes).sum();
        let hosts: usize = self.path.iter().map(|host| size_of::<String>() + host.len()).sum();
        let merged: usize =
            self.merged.iter().map(|merged| size_of::<BranchCount>() + merged.branch.kept_bytes()).sum();
        let recording = self.recording.as_ref().map_or(0, Recording::kept_bytes);
        size_of::<Self>() + self.outcome.kept_bytes() + lines + steps + hosts + merged + recording
    }
}

/// How many intermediate answers a branch sent: the end is exact for split chains too (Quatrain; design, section 4).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct BranchCount {
    /// The branch.
    #[n(0)]
    pub branch: Branch,
    /// Its answers.
    #[n(1)]
    pub emitted: u32,
}

/// The profile of one step (rpc-chains section 3.7).
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub struct StepTrace {
    /// The step.
    #[n(0)]
    pub step: u32,
    /// Where it ran.
    #[cbor(n(1), with = "crate::bytes_codec::name")]
    pub node: String,
    /// That node's site.
    #[cbor(n(2), with = "crate::bytes_codec::maybe_name")]
    pub site: Option<String>,
    /// `service/function` called there; empty for the origin's own turn.
    #[cbor(n(3), with = "crate::bytes_codec::target")]
    pub target: String,
    /// Arrival, microseconds since the Unix epoch by that node's clock.
    #[n(4)]
    pub arrived_at_us: u64,
    /// Departure, by the same clock.
    #[n(5)]
    pub left_at_us: u64,
    /// Microseconds in the service function.
    #[n(6)]
    pub service_us: u64,
    /// Microseconds in the guest: lay over, resume, difference.
    #[n(7)]
    pub guest_us: u64,
    /// Bytes of the continuation that arrived.
    #[n(8)]
    pub continuation_bytes: u64,
    /// Bytes of parameters that arrived.
    #[n(9)]
    pub params_bytes: u64,
    /// Whether the call was made from where the chain was: the chain did not travel.
    #[n(10)]
    pub in_place: bool,
    /// The branch.
    #[n(11)]
    pub branch: Branch,
    /// For a call made from where the chain was: the node that served it, if it was another.
    #[cbor(n(12), with = "crate::bytes_codec::maybe_name")]
    pub served_by: Option<String>,
    /// What its service function read of blobs, if anything. Boxed, since few steps have one and the others must not grow by it.
    #[n(13)]
    pub blobs: Option<Box<BlobBytes>>,
}

impl StepTrace {
    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let names = [Some(&self.node), self.site.as_ref(), Some(&self.target), self.served_by.as_ref()];
        let names: usize = names.into_iter().flatten().map(String::len).sum();
        let blobs = self.blobs.as_ref().map_or(0, |_| size_of::<BlobBytes>());
        size_of::<Self>() + names + blobs + self.branch.kept_bytes()
    }
}

/// Bytes of blobs, by the way in which they came to the node that read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub struct BlobBytes {
    /// They belonged to that node: nothing was transferred.
    #[n(0)]
    pub own: u64,
    /// Copied from memory that both nodes have mapped.
    #[n(1)]
    pub shared_memory: u64,
    /// Read from the owner's memory, from another host.
    #[n(2)]
    pub rdma: u64,
    /// Requested, and sent, by the link.
    #[n(3)]
    pub link: u64,
    /// Sent by the link beside the call, before they were requested.
    #[n(4)]
    pub pushed: u64,
}

impl BlobBytes {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.own, self.shared_memory, self.rdma, self.link, self.pushed].into_iter().fold(0, u64::saturating_add)
    }
}

/// A line of the virtual console (rpc-chains section 3.7).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct LogLine {
    /// The step that said it.
    #[n(0)]
    pub step: u32,
    /// The node it ran on.
    #[n(1)]
    pub node: String,
    /// When, microseconds since the Unix epoch by that node's clock.
    #[n(2)]
    pub at_us: u64,
    /// What it said.
    #[n(3)]
    pub text: String,
    /// The branch that said it.
    #[n(4)]
    pub branch: Branch,
    /// Which of that branch's lines it is, from 0.
    #[n(5)]
    pub number: u32,
}

impl LogLine {
    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        size_of::<Self>() + self.node.len() + self.text.len() + self.branch.kept_bytes()
    }
}
