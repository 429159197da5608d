//! The kinds of trials, and how a chain of each is drawn.

use std::time::Duration;

use catena::Mode;
use clap::ValueEnum;

use crate::{
    moving,
    node::{ANYWHERE, service_name},
    plan::{Effect, Function, Input, Plan, Step},
    rng::Rng,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// One effect after the other.
    Straight,
    /// The same by a function that stays where it began.
    Interactive,
    /// The same by one that moves where that is quicker.
    Adaptive,
    /// One after the other, and then a function throws.
    Throwing,
    /// Branches, merged, and one effect more.
    Split,
    /// Services answer with chains, which join the chain that called.
    Composed,
    /// The same, with composition off.
    Detached,
    /// Calls side by side.
    Beside,
    /// Cancelled on its way.
    Cancelled,
    /// Effects that may take place again.
    Repeatable,
    /// Effects that never do, since their node keeps a step store.
    Durable,
    /// All of it at once.
    Mixed,
    /// Effects of services that move from node to node meanwhile.
    Moving,
    /// A call whose replies come from a tree of servers, each of which delegates.
    Delegated,
    /// The same where some servers ask others, and pass their replies on.
    Nested,
    /// The same, and its reader leaves.
    Dropped,
    /// Bytes that a chain carries by reference, and that are read at its end, by a service, or by the function.
    Blob,
    /// Words of a segment, written and read while its owner may be killed.
    Segment,
    /// Locks that are taken by CAS.
    Lock,
    /// Questions of many bytes, answered into a return buffer or long.
    Message,
}

/// A cancelled chain is given more to do than it has time for, so that a word that does not reach it shows.
const CANCELLED_EFFECTS: (u64, u64) = (40, 80);
const CANCELLED_EFFECT_MS_MAX: u64 = 120;
const CANCELLED_AFTER_MS_MAX: u64 = 800;
/// How long another effect takes at most, before and after it takes place.
const EFFECT_MS_MAX: u64 = 30;

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    const fn mode(self) -> Mode {
        match self {
            Self::Interactive => Mode::Interactive,
            Self::Adaptive => Mode::Adaptive,
            _ => Mode::Chain,
        }
    }

    const fn functions(self) -> &'static [Function] {
        match self {
            Self::Repeatable => &[Function::Repeat],
            Self::Durable => &[Function::Keep],
            Self::Mixed | Self::Moving => &[Function::Take, Function::Repeat, Function::Keep],
            _ => &[Function::Take],
        }
    }
}

/// One of these kinds, each as often as another, and what the rest of it is drawn from; the same for the same seed and number.
pub(crate) fn draw(seed: u64, trial: usize, kinds: &[Kind]) -> (Kind, Rng) {
    let mut rng = Rng::new(seed ^ (trial as u64).wrapping_mul(0x9e37_79b9));
    let kind = kinds[rng.below(kinds.len())];
    (kind, rng)
}

/// A chain of this kind.
pub(crate) fn plan(kind: Kind, rng: Rng, chain: usize, nodes: usize) -> Plan {
    let effect_ms_max = if kind == Kind::Cancelled { CANCELLED_EFFECT_MS_MAX } else { EFFECT_MS_MAX };
    let mut draw = Draw { rng, kind, chain, nodes, effect_ms_max, functions: kind.functions(), effects: 0 };
    draw.plan(kind)
}

struct Draw {
    rng: Rng,
    kind: Kind,
    chain: usize,
    nodes: usize,
    effect_ms_max: u64,
    functions: &'static [Function],
    /// Numbered so far.
    effects: usize,
}

impl Draw {
    fn plan(&mut self, kind: Kind) -> Plan {
        let steps = match kind {
            Kind::Throwing => self.throwing(),
            Kind::Split => vec![self.split(), self.effect()],
            Kind::Composed | Kind::Detached => vec![self.effect(), self.sub(), self.effect()],
            Kind::Beside => vec![self.beside(), self.effect()],
            Kind::Cancelled => return self.cancelled(),
            Kind::Mixed => (0..self.rng.range(2, 5)).map(|_| self.any()).collect(),
            _ => self.row(1, 6),
        };
        let detached = kind == Kind::Detached || matches!(kind, Kind::Mixed | Kind::Throwing) && self.rng.below(4) == 0;
        let is_row = steps.iter().all(|step| matches!(step, Step::Effect { .. }));
        // One that follows a service needs a hop for that.
        let short_of_hops = is_row && kind != Kind::Moving && self.rng.below(8) == 0;
        Plan { detached, mode: kind.mode(), short_of_hops, ..self.within(steps) }
    }

    /// In the function itself, in a sub-chain, or in a branch.
    fn throwing(&mut self) -> Vec<Step> {
        let mut steps = self.row(0, 5);
        steps.push(Step::Throw);
        match self.rng.below(4) {
            0 => vec![self.effect(), Step::Sub { service: self.service(), steps }, self.effect()],
            1 => vec![Step::Split { branches: vec![self.row(1, 4), steps], at: None }, self.effect()],
            _ => steps,
        }
    }

    fn cancelled(&mut self) -> Plan {
        let (low, high) = CANCELLED_EFFECTS;
        let sub = |draw: &mut Self| Step::Sub { service: draw.service(), steps: draw.row(low, high) };
        let steps = match self.rng.below(5) {
            0 => vec![self.long_split()],
            1 => vec![sub(self)],
            2 => vec![Step::Beside(vec![sub(self), sub(self)])],
            _ => self.row(low, high),
        };
        let after = Duration::from_millis(self.rng.range(0, CANCELLED_AFTER_MS_MAX));
        Plan { detached: self.rng.below(2) == 0, cancelled_after: Some(after), ..self.within(steps) }
    }

    fn within(&mut self, steps: Vec<Step>) -> Plan {
        Plan { input: Input { steps, emits: self.rng.below(2) == 0 }, ..Plan::default() }
    }

    fn long_split(&mut self) -> Step {
        let (low, high) = CANCELLED_EFFECTS;
        let branches = (0..self.rng.range(2, 4)).map(|_| self.row(low, high)).collect();
        Step::Split { branches, at: None }
    }

    fn any(&mut self) -> Step {
        match self.rng.below(5) {
            0 => self.split(),
            1 => self.sub(),
            2 => self.beside(),
            _ => self.effect(),
        }
    }

    fn split(&mut self) -> Step {
        let branches = (0..self.rng.range(2, 4)).map(|_| self.row(1, 4)).collect();
        let at = (self.rng.below(4) > 0).then(|| self.service());
        Step::Split { branches, at }
    }

    fn sub(&mut self) -> Step {
        let service = self.service();
        let steps = match self.rng.below(4) {
            // A chain around a chain, and branches inside of one.
            0 => vec![self.effect(), Step::Sub { service: self.service(), steps: self.row(1, 3) }],
            1 => vec![self.split()],
            _ => self.row(1, 4),
        };
        Step::Sub { service, steps }
    }

    fn beside(&mut self) -> Step {
        let one = |draw: &mut Self| if draw.rng.below(4) == 0 { draw.sub() } else { draw.effect() };
        Step::Beside((0..self.rng.range(2, 5)).map(|_| one(self)).collect())
    }

    fn row(&mut self, low: u64, high: u64) -> Vec<Step> {
        (0..self.rng.range(low, high)).map(|_| self.effect()).collect()
    }

    fn effect(&mut self) -> Step {
        let function = self.functions[self.rng.below(self.functions.len())];
        let service = self.service();
        let (before_ms, after_ms) = (self.rng.range(0, self.effect_ms_max), self.rng.range(0, self.effect_ms_max));
        let effect = Effect { chain: self.chain, index: self.effects, before_ms, after_ms };
        self.effects += 1;
        Step::Effect { service, function, effect }
    }

    /// One node's own, or the one that all of them are instances of, or one that moves.
    fn service(&mut self) -> String {
        match self.rng.below(4) {
            _ if self.kind == Kind::Moving => moving::name(self.rng.below(moving::MOVERS)),
            0 => ANYWHERE.to_owned(),
            _ => service_name(self.rng.below(self.nodes)),
        }
    }
}
