//! What a run consists of: who is there, what goes wrong, and which programs run.

use catena_core::Policy;
use catena_wire::{Mode, StepLimits};

use crate::{guest::Op, services::Target};

/// Everything that a run depends on, beside the seed of its delays.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) hosts: usize,
    /// Which hosts serve which service: `served[service]`.
    pub(crate) served: Vec<Vec<usize>>,
    /// One-way delays between hosts lie in this range, microseconds.
    pub(crate) delay_us: (u64, u64),
    /// How long a service function takes, microseconds.
    pub(crate) service_us: (u64, u64),
    /// How long the slow ones take.
    pub(crate) slow_us: u64,
    pub(crate) rules: Rules,
    pub(crate) crashes: Vec<Crash>,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) code: CodePlan,
    pub(crate) chains: Vec<Chain>,
    pub(crate) calls: Vec<PlainCall>,
    pub(crate) time_us: u64,
    pub(crate) hops: u32,
    pub(crate) nodes: Nodes,
}

/// How the nodes differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    /// Services whose functions may be done again.
    pub(crate) repeatable: Vec<u8>,
    /// Hosts that run no foreign code.
    pub(crate) no_guests: Vec<usize>,
    /// Which host is the chaining proxy of which service.
    pub(crate) proxies: Vec<(u8, usize)>,
    /// Hosts that compose no chains.
    pub(crate) separate: Vec<usize>,
    /// A host without an address, which serves nothing.
    pub(crate) undialled: Option<usize>,
    /// Bytes per second between hosts, if they have been measured; without, bytes take no time.
    pub(crate) bytes_per_s: Option<u64>,
    /// How many times as wide some links may be: each is drawn, up to this.
    pub(crate) wider: u64,
    /// Bytes that a service's results have besides, by service.
    pub(crate) result_bytes: Vec<u32>,
    /// Bytes that a message may have, head and tail, if that is bounded.
    pub(crate) message_bytes_max: Option<u64>,
}

impl Nodes {
    pub(crate) fn tune(&self, host: usize, policy: Policy) -> Policy {
        Policy {
            runs_guests: policy.runs_guests && !self.no_guests.contains(&host),
            chaining_proxy: policy.chaining_proxy || self.proxies.iter().any(|(_, proxy)| *proxy == host),
            compose: policy.compose && !self.separate.contains(&host),
            ..policy
        }
    }
}

/// What happens to messages, in percent of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Vanishes; half of the time the link breaks over it.
    pub(crate) drop: u64,
    /// Arrives twice. Calls that are no chain's are exempt: they are sent once and have no memory of what was done.
    pub(crate) duplicate: u64,
    /// May overtake what was sent before it on the same link.
    pub(crate) reorder: u64,
    /// Takes up to a second longer.
    pub(crate) delay: u64,
    /// A hop's state arrives later than its head.
    pub(crate) late_tail: u64,
    /// The state of a hop never arrives, and the link breaks over it.
    pub(crate) no_tail: u64,
    /// The link breaks after the message has been delivered.
    pub(crate) flap: u64,
    /// A name leads to a node that is gone.
    pub(crate) stale_name: u64,
    /// A name leads to a node that does not serve it.
    pub(crate) wrong_name: u64,
}

impl Rules {
    pub(crate) fn none(&self) -> bool {
        self.drop
            + self.duplicate
            + self.reorder
            + self.delay
            + self.no_tail
            + self.flap
            + self.stale_name
            + self.wrong_name
            == 0
    }
}

/// A node dies when it is about to run its nth service function.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    pub(crate) host: usize,
    pub(crate) at_service: u64,
    pub(crate) after_effect: bool,
    /// If it is a durable one: what the node had on its disk by then is there (the intent before the effect, the result after it).
    pub(crate) kept: bool,
    pub(crate) restart_after_us: Option<u64>,
}

/// Nothing passes in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) at_us: u64,
    pub(crate) until_us: u64,
    /// When both ends notice.
    pub(crate) noticed_us: u64,
}

/// Where functions are.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodePlan {
    /// They ride along with the first hop over a link.
    pub(crate) ride: bool,
    /// Host that keeps functions for all.
    pub(crate) repository: Option<usize>,
    /// The repository has them.
    pub(crate) stocked: bool,
    /// What it has are other bytes.
    pub(crate) wrong: bool,
    /// Every node has them from the start.
    pub(crate) everywhere: bool,
    /// Nodes drop a function as soon as they have handed the chain over.
    pub(crate) forgetful: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) at_us: u64,
    pub(crate) origin: usize,
    pub(crate) program: Vec<Op>,
    pub(crate) mode: Mode,
    pub(crate) compose: bool,
    pub(crate) cancel_after_us: Option<u64>,
    /// On whose behalf.
    pub(crate) credentials: Option<u64>,
    pub(crate) limits: StepLimits,
}

impl Chain {
    /// The ordinary way.
    pub(crate) const fn new(at_us: u64, origin: usize, program: Vec<Op>) -> Self {
        let (mode, limits) = (Mode::Chain, StepLimits::UNCHANGED);
        Self { at_us, origin, program, mode, compose: true, cancel_after_us: None, credentials: None, limits }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PlainCall {
    pub(crate) at_us: u64,
    pub(crate) from: usize,
    pub(crate) target: Target,
    pub(crate) withdraw_after_us: Option<u64>,
}

impl Plan {
    /// Hosts 0 to `hosts - 1`, host `n + 1` serving service `n`; host 0 is the origin and serves nothing.
    pub(crate) fn simple(hosts: usize, program: Vec<Op>) -> Self {
        Self {
            seed: 1,
            hosts,
            served: (1..hosts).map(|host| vec![host]).collect(),
            delay_us: (10_000, 20_000),
            service_us: (100, 1_000),
            slow_us: 4_000_000,
            rules: Rules::default(),
            crashes: Vec::new(),
            cuts: Vec::new(),
            code: CodePlan { ride: true, ..CodePlan::default() },
            chains: vec![Chain::new(0, 0, program)],
            calls: Vec::new(),
            time_us: 60_000_000,
            hops: 30,
            nodes: Nodes::default(),
        }
    }

    /// How many services there are.
    pub(crate) fn services(&self) -> u8 {
        u8::try_from(self.served.len()).expect("few services")
    }

    pub(crate) fn faultless(&self) -> bool {
        let code_found = !self.code.forgetful && !self.code.wrong;
        // Time for a program that spends all its hops on slow functions.
        let in_time = self.slow_us * (u64::from(self.hops) + 2) < self.time_us;
        self.rules.none() && self.crashes.is_empty() && self.cuts.is_empty() && code_found && in_time
    }
}
