//! What a world consists of.

use catena_core::Policy;
use catena_wire::{Budget, Kinds, Mode};

use crate::{guest::Op, migration::Migration};

/// How many of each kind may happen.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) repetitions: u8,
    pub(crate) cancels: u8,
    /// A deadline of a node passes while messages are still on their way.
    pub(crate) haste: u8,
    /// The state of a hop comes later than its head; the link may break in between.
    pub(crate) parted: u8,
    /// All nodes are stopped for longer than steps are remembered, while messages are on their way.
    pub(crate) sleeps: u8,
}

/// What its only function is declared to be.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Plain,
    Repeatable,
    Durable,
}

/// A service: who serves it, the first by preference, and what its function is.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) by: Vec<usize>,
    pub(crate) kind: Kind,
}

/// Where functions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Everywhere,
    /// At the origins, and they do not ride along; the repository, which is the last host, has not had them.
    AtOrigins,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) hosts: usize,
    pub(crate) services: Vec<Service>,
    /// Origin and program.
    pub(crate) chains: Vec<(usize, Vec<Op>)>,
    pub(crate) faults: Faults,
    pub(crate) hops: u32,
    /// Those, or the room for chains, are too few on purpose.
    pub(crate) strained: bool,
    pub(crate) mode: Mode,
    /// Whether chains that services answer with join the chain that called.
    pub(crate) compose: bool,
    /// Whether the services that answer with a chain hear its answers.
    pub(crate) hears: bool,
    /// Host 0 listens nowhere: only those to which it has a link reach it.
    pub(crate) secluded: bool,
    /// A host that runs no guests, and its proxy.
    pub(crate) proxy: Option<(usize, usize)>,
    pub(crate) code: Code,
    /// Steps that a node remembers.
    pub(crate) records_max: usize,
    /// No repetition of a hop overtakes the one before, as links keep it: a first sending is taken for new, whatever was forgotten.
    pub(crate) in_order: bool,
    /// Bytes that it keeps to answer them once more.
    pub(crate) payload_bytes_max: usize,
    /// Chains at one node.
    pub(crate) activations_max: usize,
    /// Answers held back until those before them have come.
    pub(crate) partials_held_max: usize,
    /// A service that moves while chains call it.
    pub(crate) migration: Option<Migration>,
    /// The mistake that the nodes make, if this is a test of the tester.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) bug: Option<catena_core::Bug>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            name: "",
            hosts: 3,
            services: (0..3).map(|host| Service { by: vec![host], kind: Kind::Plain }).collect(),
            chains: Vec::new(),
            faults: Faults::default(),
            hops: 8,
            strained: false,
            mode: Mode::Chain,
            compose: true,
            hears: false,
            secluded: false,
            proxy: None,
            code: Code::Everywhere,
            records_max: 1_000,
            in_order: false,
            payload_bytes_max: 1 << 20,
            activations_max: 1_000,
            partials_held_max: 1_000,
            migration: None,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }
}

impl Setup {
    /// With another function of service `service`.
    pub(crate) fn serving(mut self, service: usize, by: &[usize], kind: Kind) -> Self {
        self.services[service] = Service { by: by.to_vec(), kind };
        self
    }

    /// Any function may answer with a chain.
    pub(crate) fn kinds(&self, service: usize) -> Kinds {
        let functions = |kind| if self.services[service].kind == kind { vec!["f".into()] } else { Vec::new() };
        let (repeatable, durable) = (functions(Kind::Repeatable), functions(Kind::Durable));
        Kinds { chaining: vec!["f".into()], repeatable, durable }
    }

    pub(crate) fn policy(&self, host: usize) -> Policy {
        Policy {
            compose: self.compose,
            budget_max: Budget::new(600_000_000, 2_000),
            hop_attempts_max: 2,
            step_records_max: self.records_max,
            step_payload_bytes_max: self.payload_bytes_max,
            activations_max: self.activations_max,
            partials_held_max: self.partials_held_max,
            runs_guests: self.proxy.is_none_or(|(served, _)| served != host),
            chaining_proxy: self.proxy.is_some_and(|(_, proxy)| proxy == host),
            #[cfg(feature = "seeded-bugs")]
            bug: self.bug,
            ..Policy::default()
        }
    }

    /// Whether all that goes from node to node are hops and parts of outcomes, each of which is acknowledged: then a message that is lost
    /// without its link does no harm. A plain call waits for its link to break, or its time to run out.
    pub(crate) fn only_hops(&self) -> bool {
        self.mode == Mode::Chain && self.compose && self.proxy.is_none()
    }

    /// Whether no more than messages can be lost, repeated or parted.
    pub(crate) fn only_the_network_errs(&self) -> bool {
        let Faults { crashes, cancels, haste, sleeps, .. } = self.faults;
        crashes == 0 && cancels == 0 && haste == 0 && sleeps == 0
    }
}
