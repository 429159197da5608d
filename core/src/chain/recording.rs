//! The recording of a chain: what its guests are told, carried along and brought home with the end.

use catena_wire::{Asked, Outcome, Told, Value, What};

use super::{
    Chains,
    activation::{Activation, Phase},
};
use crate::{Action, GuestCall, Replied, SessionId, Turn, ground::Ground};

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
        let (session, what) = match action {
            Action::Begin { session, code, input, started_at_ms, seed, .. } if self.is_recorded(*session) => {
                let (input, started_at_ms) = (input.clone(), *started_at_ms);
                (session, What::Begun { code: *code, input, started_at_ms, seed: *seed })
            }
            Action::Resume { session, call, result, .. } | Action::Settle { session, call, result }
                if self.is_recorded(*session) =>
            {
                (session, What::Settled(*call, Outcome::from(result.clone())))
            }
            Action::Branch { session, call, index, .. } => (session, What::Branch(*call, *index)),
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
        let calls = turn.into_iter().flat_map(|turn| &turn.calls).map(|call| asked(call, false));
        let asks = turn.into_iter().flat_map(|turn| &turn.asks).map(|ask| asked(&ask.call, true));
        let splits = turn.into_iter().flat_map(|turn| &turn.splits).map(|split| Asked {
            call: split.call,
            service: split.at.clone().unwrap_or_default(),
            function: Default::default(),
            params: Value::null(),
            branches: split.count,
            line: split.line,
            column: split.column,
            many: false,
        });
        // In the order in which they become steps.
        let asked = asks.chain(calls).chain(splits).collect();
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

/// `many`: it is answered many times.
fn asked(call: &GuestCall, many: bool) -> Asked {
    Asked {
        call: call.call,
        service: call.service.clone(),
        function: call.function.clone(),
        params: call.params.clone(),
        branches: 0,
        line: call.line,
        column: call.column,
        many,
    }
}
