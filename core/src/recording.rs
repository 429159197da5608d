//! The recording of a chain: what its guests are told, carried along and brought home with the end.

use alloc::vec::Vec;
use catena_wire::{Asked, Outcome, RECORDING_BYTES_MAX, RECORDING_EVENTS_MAX, Recording as Wire, Told, Value, What};

use crate::{
    Action, Node, Replied, SessionId, Time, Turn,
    activation::{Activation, Phase},
};

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

impl Node {
    /// Adds what happened to the guest of this session, if its chain is recorded.
    pub(crate) fn record(&mut self, session: SessionId, what: What) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let (step, chain) = (activation.step, activation.chain());
        let depth = u8::try_from(activation.baggage.stack.len()).unwrap_or(u8::MAX);
        let Some(recording) = &mut activation.baggage.recording else { return };
        let told = Told { branch: activation.arrived.branch.clone(), step, depth, what };
        if chain.origin == self.me.id {
            self.actions.push_back(Action::Reply(chain, Replied::Told(told.clone())));
        }
        recording.push(told);
    }

    fn is_recorded(&self, session: SessionId) -> bool {
        self.activations.get(session).is_some_and(|activation| activation.baggage.recording.is_some())
    }

    /// What this action tells a guest.
    pub(crate) fn record_told(&mut self, action: &Action) {
        let (session, what) = match action {
            Action::Begin { session, .. }
            | Action::Resume { session, .. }
            | Action::Settle { session, .. }
            | Action::Branch { session, .. }
                if !self.is_recorded(*session) =>
            {
                return;
            }
            Action::Begin { session, code, input, started_at_ms, seed, .. } => {
                let (code, input, started_at_ms, seed) = (*code, input.clone(), *started_at_ms, *seed);
                (*session, What::Begun { code, input, started_at_ms, seed })
            }
            Action::Resume { session, call, result, .. } | Action::Settle { session, call, result } => {
                (*session, What::Settled(*call, Outcome::from(result.clone())))
            }
            Action::Branch { session, call, index, .. } => (*session, What::Branch(*call, *index)),
            _ => return,
        };
        self.record(session, what);
    }

    /// What the guest did in its turn; what it logged is shown at once where its chain began.
    pub(crate) fn record_turn(&mut self, session: SessionId, turn: Option<&Turn>) {
        // A turn that nobody waits for is no part of what the chain did.
        let waited_for =
            matches!(self.activations.get(session), Some(Activation { phase: Phase::Live, busy: true, .. }));
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
        self.record(session, What::Turned(asked));
    }

    /// Whoever steps through a chain sees its lines as they are said.
    pub(crate) fn tell_lines_of_recorded(&mut self, now: Time, session: SessionId) {
        let home = self.activations.get(session).is_some_and(|chain| chain.chain().origin == self.me.id);
        if home && self.is_recorded(session) {
            self.tell_lines(now, session);
        }
    }
}
