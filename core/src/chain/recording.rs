//! The recording of a chain: what its guests are told, carried along and brought home with the end.

use alloc::vec::Vec;
use catena_wire::{Asked, Outcome, RECORDING_BYTES_MAX, RECORDING_EVENTS_MAX, Recording as Wire, Told, Value, What};

use super::{
    Chains,
    activation::{Activation, Phase},
};
use crate::{Action, Replied, SessionId, Turn, ground::Ground};

/// Kept for [`What::Full`], which must fit when nothing else does.
const EVENTS_MAX: usize = RECORDING_EVENTS_MAX - 1;

/// What a chain has been told so far, on this branch and on those that have merged into it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    told: Vec<Told>,
    events: usize,
    payload_bytes: usize,
}

impl Recording {
    pub(crate) fn from_wire(wire: Wire) -> Self {
        let mut recording = Self::default();
        recording.merge(wire);
        recording
    }

    pub(crate) fn to_wire(&self) -> Wire {
        Wire(self.told.clone())
    }

    /// What it takes to keep.
    pub(crate) fn bytes(&self) -> usize {
        self.events * size_of::<Told>() + self.payload_bytes
    }

    /// Adds what a branch recorded.
    pub(crate) fn merge(&mut self, more: Wire) {
        more.0.into_iter().for_each(|told| self.push(told));
    }

    /// Adds an event. The chain goes on when there is no room: the recording says that it does not.
    /// Takes back what a guest was to be told, and was not.
    pub(crate) fn pop(&mut self) {
        if let Some(told) = self.told.pop() {
            self.events -= told.events().min(self.events);
            self.payload_bytes -= told.payload_bytes().min(self.payload_bytes);
        }
    }

    fn push(&mut self, told: Told) {
        if matches!(self.told.last(), Some(Told { what: What::Full, .. })) {
            return;
        }
        let (events, bytes) = (told.events(), told.payload_bytes());
        let fits = self.events + events <= EVENTS_MAX && self.payload_bytes + bytes <= RECORDING_BYTES_MAX;
        if fits {
            self.events += events;
            self.payload_bytes += bytes;
            self.told.push(told);
        } else {
            self.told.push(Told { what: What::Full, ..told });
        }
    }
}

impl Chains {
    /// Adds what happened to the guest of this session, if its chain is recorded.
    pub(super) fn record(&mut self, ground: &mut Ground, session: SessionId, what: What) {
        let Some(activation) = self.get_mut(session) else { return };
        let (step, chain) = (activation.step, activation.chain());
        let depth = u8::try_from(activation.state.stack.len()).unwrap_or(u8::MAX);
        let Some(recording) = &mut activation.state.recording else { return };
        let told = Told { branch: activation.arrived.branch.clone(), step, depth, what };
        if chain.origin == ground.me.id {
            ground.out.ask(Action::Reply(chain, Replied::Told(told.clone())));
        }
        recording.push(told);
    }

    fn is_recorded(&self, session: SessionId) -> bool {
        self.get(session).is_some_and(|activation| activation.state.recording.is_some())
    }

    /// What this action tells a guest.
    pub(crate) fn record_told(&mut self, ground: &mut Ground, action: &Action) {
        let (Action::Begin { session, .. }
        | Action::Resume { session, .. }
        | Action::Settle { session, .. }
        | Action::Branch { session, .. }) = action
        else {
            return;
        };
        if !self.is_recorded(*session) {
            return;
        }
        let what = match action {
            Action::Begin { code, input, started_at_ms, seed, .. } => {
                What::Begun { code: *code, input: input.clone(), started_at_ms: *started_at_ms, seed: *seed }
            }
            Action::Resume { call, result, .. } | Action::Settle { call, result, .. } => {
                What::Settled(*call, Outcome::from(result.clone()))
            }
            Action::Branch { call, index, .. } => What::Branch(*call, *index),
            _ => return,
        };
        self.record(ground, *session, what);
    }

    /// What the guest did in its turn; what it logged is shown at once where its chain began.
    pub(super) fn record_turn(&mut self, ground: &mut Ground, session: SessionId, turn: Option<&Turn>) {
        // A turn that nobody waits for is no part of what the chain did.
        let waited_for = matches!(self.get(session), Some(Activation { phase: Phase::Running, .. }));
        if !waited_for || !self.is_recorded(session) {
            return;
        }
        let calls = turn.into_iter().flat_map(|turn| &turn.calls).map(|call| Asked {
            call: call.call,
            service: call.service.clone(),
            function: call.function.clone(),
            params: call.params.clone(),
            branches: 0,
            line: call.line,
            column: call.column,
        });
        let splits = turn.into_iter().flat_map(|turn| &turn.splits).map(|split| Asked {
            call: split.call,
            service: split.at.clone().unwrap_or_default(),
            function: Default::default(),
            params: Value::null(),
            branches: split.count,
            line: split.line,
            column: split.column,
        });
        let asked = calls.chain(splits).collect();
        self.record(ground, session, What::Turned(asked));
    }

    /// Whoever steps through a chain sees its lines as they are said.
    pub(super) fn tell_lines_of_recorded(&mut self, ground: &mut Ground, session: SessionId) {
        let home = self.get(session).is_some_and(|chain| chain.chain().origin == ground.me.id);
        if home && self.is_recorded(session) {
            self.tell_lines(ground, session);
        }
    }
}
