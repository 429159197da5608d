//! The recording of a chain: what its guests are told, carried along and brought home with the end.

use catena_wire::{Asked, Outcome, Told, What};

use super::{Chains, activation::Activation};
use crate::{Action, Replied, SessionId, Turn, ground::Ground};

impl Chains {
    /// Records what this action tells a guest.
    pub(crate) fn record_told(&mut self, ground: &mut Ground, action: &Action) {
        let recorded = |session: &SessionId| self.get(*session).is_some_and(|chain| chain.state.recording.is_some());
        let (session, what) = match action {
            Action::Begin { session, code, input, started_at_ms, seed, .. } if recorded(session) => {
                let (input, started_at_ms) = (input.clone(), *started_at_ms);
                (session, What::Begun { code: *code, input, started_at_ms, seed: *seed })
            }
            Action::Resume { session, call, result, .. } | Action::Settle { session, call, result }
                if recorded(session) =>
            {
                (session, What::Settled(*call, Outcome::from(result.clone())))
            }
            Action::Branch { session, call, index, .. } => (session, What::Branch(*call, *index)),
            _ => return,
        };
        if let Some(activation) = self.get_mut(*session) {
            record(ground, activation, || what);
        }
    }
}

/// Adds what happened to the guest of this chain, if that is recorded.
pub(super) fn record(ground: &mut Ground, activation: &mut Activation, what: impl FnOnce() -> What) {
    let (step, chain) = (activation.step, activation.chain());
    let depth = u8::try_from(activation.state.stack.len()).unwrap_or(u8::MAX);
    let Some(recording) = &mut activation.state.recording else { return };
    let told = Told { branch: activation.arrived.branch.clone(), step, depth, what: what() };
    if chain.origin == ground.me.id {
        ground.out.ask(Action::Reply(chain, Replied::Told(told.clone())));
    }
    recording.push(told);
}

/// What a guest asked for in its turn, in the order in which its steps are numbered.
pub(super) fn turned(turn: &Turn) -> What {
    let calls = turn.calls.iter().map(|call| Asked::call(call.clone(), false));
    let asks = turn.asks.iter().map(|ask| Asked::call(ask.call.clone(), true));
    let splits = turn.splits.iter().map(|split| Asked::from(split.clone()));
    What::Turned(asks.chain(calls).chain(splits).collect())
}
