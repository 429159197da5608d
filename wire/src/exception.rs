//! What went wrong, whose fault it is, where, and what to do next.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;
use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

use crate::{Branch, PATH_HOSTS_MAX, StepKey, Value, value};

/// The exceptions that Catena itself raises. Services and functions raise others, with names of their own.
pub mod names {
    /// The next node could not be reached; the call was not made.
    pub const NODE_UNREACHABLE: &str = "NodeUnreachable";
    /// The node was lost after the call went out: whether it took effect is unknown.
    pub const NODE_LOST: &str = "NodeLost";
    /// No node is known to serve this service.
    pub const UNKNOWN_SERVICE: &str = "UnknownService";
    /// The service has no function of this name.
    pub const UNKNOWN_FUNCTION: &str = "UnknownFunction";
    /// The parameters are not what the function takes.
    pub const BAD_PARAMETERS: &str = "BadParameters";
    /// The service function itself failed, and named no exception of its own.
    pub const SERVICE_FAILED: &str = "ServiceFailed";
    /// The chain or call had no time left.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// The chain had no hops left (rpc-chains section 6).
    pub const HOP_BUDGET_EXCEEDED: &str = "HopBudgetExceeded";
    /// The guest broke one of its limits; `params` names it.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
    /// Neither the repository nor the hop before has the function.
    pub const CODE_MISSING: &str = "CodeMissing";
    /// The function's bytes are not those of its hash, or cannot be loaded.
    pub const BAD_CODE: &str = "BadCode";
    /// The continuation is damaged or belongs to another image.
    pub const BAD_CONTINUATION: &str = "BadContinuation";
    /// The function waits for something that no call will settle.
    pub const STALLED: &str = "Stalled";
    /// The node has as much work as it takes on.
    pub const OVERLOADED: &str = "Overloaded";
    /// Replies to a call that was delegated are missing, under several of the rights to send them (Quatrain, section 3.3).
    pub const REPLIES_MISSING: &str = "RepliesMissing";
    /// The caller withdrew.
    pub const CANCELLED: &str = "Cancelled";
    /// No heartbeat: the chain broke somewhere after the step named (rpc-chains section 3.9).
    pub const CHAIN_LOST: &str = "ChainLost";
    /// This node runs no foreign code: call its services from elsewhere (rpc-chains section 7.3).
    pub const RUNS_NO_GUESTS: &str = "RunsNoGuests";
    /// A peer sent what this version does not understand.
    pub const PROTOCOL: &str = "ProtocolError";
    /// The owner exports no segment of this name to the importer that asked.
    pub const UNKNOWN_SEGMENT: &str = "UnknownSegment";
    /// The owner took the segment back.
    pub const SEGMENT_REVOKED: &str = "SegmentRevoked";
    /// The generation is not that of the segment that has the number now.
    pub const SEGMENT_STALE: &str = "SegmentStale";
    /// The range leaves the segment.
    pub const OUT_OF_BOUNDS: &str = "OutOfBounds";
    /// The importer lacks the right.
    pub const NO_RIGHT: &str = "NoRight";
    /// The owner lets nobody write at this time.
    pub const WRITE_INHIBITED: &str = "WriteInhibited";
    /// A word does not begin at a multiple of its width.
    pub const UNALIGNED: &str = "Unaligned";
    /// The grant is unknown, spent, over, or somebody else's.
    pub const GRANT_VOID: &str = "GrantVoid";
    /// The owner moved the segment to other pages during the access.
    pub const SEGMENT_MOVED: &str = "SegmentMoved";
    /// The owner is linked and did not answer in time.
    pub const OWNER_SILENT: &str = "OwnerSilent";
    /// The link to the owner was lost, and more is not known.
    pub const OWNER_LOST: &str = "OwnerLost";
    /// The owner's process is gone: its host answers, and nobody listens there.
    pub const OWNER_DEAD: &str = "OwnerDead";
    /// Another run of the owner is there: it knows nothing of the segment.
    pub const OWNER_RESTARTED: &str = "OwnerRestarted";
    /// The owner's host cannot be reached.
    pub const NETWORK_CUT: &str = "NetworkCut";
    /// The owner answers, but its word no longer rises.
    pub const OWNER_STALLED: &str = "OwnerStalled";
    /// The bytes asked for went to the asker before, beside a call; if they are asked for again, they are sent.
    pub const BYTES_PUSHED: &str = "BytesPushed";
    /// A blob's bytes cannot be obtained any more: its owner is lost, has taken it back, or its time is over.
    pub const BLOB_LOST: &str = "BlobLost";
}

/// Who has to change something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fault {
    /// Whoever started the chain or call: a wrong name, input or budget.
    Caller,
    /// The chain's own function.
    #[default]
    Guest,
    /// The service that was called.
    Service,
    /// The node that ran the step, or its configuration.
    Node,
    /// Whatever lies between the nodes.
    Network,
}

impl Fault {
    /// The word used on the wire and to people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Guest => "guest",
            Self::Service => "service",
            Self::Node => "node",
            Self::Network => "network",
        }
    }

    fn from_str(word: &str) -> Self {
        match word {
            "caller" => Self::Caller,
            "service" => Self::Service,
            "node" => Self::Node,
            "network" => Self::Network,
            _ => Self::Guest,
        }
    }
}

/// An exception: name, parameters and the path of hosts (rpc-chains section 3.8), and besides these where and why it happened.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Exception {
    /// One of [`names`], or a service's or function's own (`NFS3ERR_NOENT`, `TypeError`).
    pub name: String,
    /// For people: what happened, to what, and what to do next.
    pub message: String,
    /// For programs.
    pub params: Option<Value>,
    /// The function's own stack trace.
    pub stack: Option<String>,
    /// Line in the function's source, from 1; 0 where unknown.
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
    /// Who has to change something.
    pub fault: Fault,
    /// `service/function` that was being called; `service/` if a chain with which that service answered threw; `None` if the function itself threw.
    pub target: Option<String>,
    /// The step at which it happened: if a call failed, that call's; if a sub-chain threw, the one at which the sub-chain began; else the last step made. 0 is
    /// the origin's own turn.
    pub step: u32,
    /// The branch in which it happened.
    pub branch: Branch,
    /// Hosts traversed, oldest first, the last being where it happened.
    pub path: Vec<String>,
    /// Whether the outcome of a call is unknown (rpc-chains section 3.9): of the call being made, of an earlier one (and the function was told so), or of
    /// one beside it that was stopped. If not, all earlier calls have finished, and whoever is at fault has to say whether the call being made took effect: a
    /// service may have done half of it, everybody else has done nothing.
    pub unknown: bool,
}

impl Exception {
    /// An exception with a name, a fault and a message, to be filled in by whoever knows more.
    #[must_use]
    pub fn new(name: &str, fault: Fault, message: impl Into<String>) -> Self {
        Self { name: name.to_string(), message: message.into(), fault, ..Self::default() }
    }

    /// About how many bytes of memory it takes beside itself.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let texts = [Some(&self.name), Some(&self.message), self.stack.as_ref(), self.target.as_ref()];
        let hosts: usize = self.path.iter().map(|host| size_of::<String>() + host.len()).sum();
        let params = self.params.as_ref().map_or(0, Value::len_bytes);
        texts.into_iter().flatten().map(String::len).sum::<usize>() + params + hosts + self.branch.kept_bytes()
    }

    /// Says what was being called.
    #[must_use]
    pub fn calling(mut self, service: &str, function: &str) -> Self {
        if self.target.is_none() {
            self.target = Some([service, "/", function].concat());
        }
        self
    }

    /// Adds parameters for programs.
    #[must_use]
    pub fn with_params(mut self, params: Value) -> Self {
        self.params = Some(params);
        self
    }

    /// Says that the call may have taken effect: its outcome is unknown.
    #[must_use]
    pub const fn outcome_unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// Says where in the source.
    #[must_use]
    pub const fn at_line(mut self, line: u32, column: u32) -> Self {
        self.line = line;
        self.column = column;
        self
    }

    /// Says at which step and along which hosts, unless that is known already.
    #[must_use]
    pub fn at_step(mut self, step: u32, path: &[String]) -> Self {
        if self.path.is_empty() {
            self.step = step;
            self.path = path.to_vec();
        }
        self
    }
}

impl Exception {
    /// Says at which step of which branch and along which hosts, unless that is known already.
    #[must_use]
    pub fn at(mut self, key: &StepKey, path: &[String]) -> Self {
        if self.path.is_empty() {
            self.branch.clone_from(&key.branch);
        }
        self.at_step(key.step, path)
    }

    /// For a call made at this step of this branch: the call's path is appended to its caller's, at whose host the call may have run.
    #[must_use]
    pub fn behind(self, step: u32, branch: Branch, path: &[String]) -> Self {
        let here = usize::from(path.last() == self.path.first());
        let path = path.iter().cloned().chain(self.path.into_iter().skip(here)).take(PATH_HOSTS_MAX).collect();
        Self { step, branch, path, ..self }
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)?;
        if let Some(target) = &self.target {
            write!(f, " [{target}]")?;
        }
        if !self.path.is_empty() {
            let (step, branch, path) = (self.step, &self.branch, self.path.join(" > "));
            match branch.is_root() {
                true => write!(f, " (step {step}, path {path})")?,
                false => {
                    write!(f, " (branch {}, step {step}, path {path})", branch.to_string().trim_start_matches('.'))?
                }
            }
        }
        Ok(())
    }
}

impl core::error::Error for Exception {}

/// As a map with text keys, so that guests in any language can read it (`guest/ABI.md`).
impl<C> Encode<C> for Exception {
    fn encode<W: encode::Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.begin_map()?;
        e.str("name")?.str(&self.name)?.str("message")?.str(&self.message)?;
        e.str("fault")?.str(self.fault.as_str())?;
        if let Some(params) = &self.params {
            // Inline, not as a byte string: a guest sees the value itself.
            e.str("params")?;
            e.writer_mut().write_all(params.as_bytes()).map_err(encode::Error::write)?;
        }
        if let Some(stack) = &self.stack {
            e.str("stack")?.str(stack)?;
        }
        if self.line != 0 {
            e.str("line")?.u32(self.line)?.str("column")?.u32(self.column)?;
        }
        if let Some(target) = &self.target {
            e.str("target")?.str(target)?;
        }
        if !self.path.is_empty() {
            e.str("step")?.u32(self.step)?.str("path")?;
            crate::bytes_codec::path::encode(&self.path, e, ctx)?;
            if !self.branch.is_root() {
                e.str("branch")?;
                self.branch.encode(e, ctx)?;
            }
        }
        if self.unknown {
            e.str("unknown")?.bool(true)?;
        }
        e.end()?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Exception {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        let mut exception = Self::default();
        let count = d.map()?;
        let mut seen = 0;
        while match count {
            Some(count) => seen < count,
            None => d.datatype()? != minicbor::data::Type::Break,
        } {
            exception.decode_entry(d)?;
            seen += 1;
        }
        if count.is_none() {
            d.skip()?;
        }
        // A column without its line says nothing.
        exception.column = if exception.line == 0 { 0 } else { exception.column };
        // Nor does a branch without its step.
        if exception.path.is_empty() {
            exception.branch = Branch::root();
        }
        Ok(exception)
    }
}

impl Exception {
    fn decode_entry(&mut self, d: &mut Decoder<'_>) -> Result<(), decode::Error> {
        match d.str()? {
            "name" => self.name = d.str()?.to_string(),
            "message" => self.message = d.str()?.to_string(),
            "fault" => self.fault = Fault::from_str(d.str()?),
            "params" => self.params = Some(value::take(d)?),
            "stack" => self.stack = Some(d.str()?.to_string()),
            "line" => self.line = d.u32()?,
            "column" => self.column = d.u32()?,
            "target" => self.target = Some(d.str()?.to_string()),
            "step" => self.step = d.u32()?,
            "branch" => self.branch = Branch::decode(d, &mut ())?,
            "unknown" => self.unknown = d.bool()?,
            "path" => {
                for host in d.array_iter::<&str>()? {
                    if self.path.len() == PATH_HOSTS_MAX {
                        return Err(decode::Error::message("path longer than 256 hosts"));
                    }
                    self.path.push(host?.to_string());
                }
            }
            _ => value::take(d).map(drop)?,
        }
        Ok(())
    }
}
