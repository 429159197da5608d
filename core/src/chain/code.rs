//! Chains whose function is not here: they wait until it has been fetched, or until no source is left to ask.

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use catena_wire::{Exception, Fault, Hash, NodeRef, names};

use super::{
    Chains,
    activation::{Activation, Awaits, Code, Phase, Suspended},
};
use crate::{Action, SessionId, ground::Ground};

impl Chains {
    /// The function of a session that waits for its call is not here: it is fetched from the repository, else from the previous hop's node.
    pub(crate) fn code_missing(&mut self, ground: &mut Ground, session: SessionId, code: Hash) {
        let Some(activation) = self.get_mut(session).filter(|activation| activation.state.code == code) else { return };
        let Phase::Suspended(suspended) = &mut activation.phase else { return };
        suspended.code = Code::Fetching;
        let by = activation.by;
        let sources = sources(ground, activation);
        let (own, all) = ground.codes.fetching(by);
        if !ground.codes.fetches(code)
            && let Err(why) =
                ground.check_share("functions being fetched", by, own, all, ground.policy.codes_fetching_max)
        {
            return self.code_unavailable(ground, session, why);
        }
        let Ground { codes, out, policy, .. } = ground;
        let given_up = codes.want(ground.now, out, code, (session, by), sources, policy);
        self.give_up_code(ground, code, given_up);
    }

    /// A guest was to be resumed, but its function is not here: the session is suspended again until the function has been fetched.
    pub(crate) fn code_absent(&mut self, ground: &mut Ground, action: Action) {
        let (session, code, suspended) = match action {
            Action::Resume { session, code, continuation, call, result, .. } => {
                (session, code, Suspended::here(call, continuation, Awaits::Result(result.map_err(Box::new))))
            }
            Action::Branch { session, code, continuation, call, index, .. } => {
                (session, code, Suspended::here(call, continuation, Awaits::Branch(index)))
            }
            _ => return,
        };
        if let Some(activation) = self.get_mut(session)
            && matches!(activation.phase, Phase::Running)
        {
            activation.state.recording.iter_mut().for_each(|recording| recording.pop());
            self.set_phase(session, Phase::Suspended(suspended));
            self.code_missing(ground, session, code);
        }
    }

    pub(crate) fn code_stored(&mut self, ground: &mut Ground, code: Hash, stored: bool) {
        if !stored {
            // The source that sent wrong bytes is not asked again; the next one is asked. Wrong bytes for which nobody asked change nothing.
            if ground.codes.stores(code) {
                self.ask_for_code(ground, code);
            }
            return;
        }
        for session in ground.codes.finish(code) {
            if let Some(activation) = self.get_mut(session)
                && activation.state.code == code
                && let Phase::Suspended(suspended) = &mut activation.phase
            {
                suspended.code = Code::Here;
                self.resume_if_ready(ground, session);
            }
        }
    }

    /// The source that was asked does not have the function, or did not answer: asks the next one.
    pub(crate) fn ask_for_code(&mut self, ground: &mut Ground, code: Hash) {
        let given_up = match bug!(ground.policy, OneSourceAsked) {
            true => ground.codes.finish(code),
            false => ground.codes.ask_next(ground.now, &mut ground.out, code, &ground.policy),
        };
        self.give_up_code(ground, code, given_up);
    }

    fn give_up_code(&mut self, ground: &mut Ground, code: Hash, sessions: Vec<SessionId>) {
        for session in sessions {
            // For some sessions the function may have arrived with a hop in the meantime.
            if self.get(session).is_none_or(|activation| activation.state.code != code) {
                continue;
            }
            let message = format!(
                "{} does not have function {code:?}, and neither the repository nor the hop before could bring it; run the chain again, so that its origin offers it",
                ground.me.name
            );
            self.code_unavailable(ground, session, Exception::new(names::CODE_MISSING, Fault::Node, message));
        }
    }

    /// The session waits for a function that will not come.
    fn code_unavailable(&mut self, ground: &mut Ground, session: SessionId, why: Exception) {
        if let Some(Activation { phase: Phase::Suspended(suspended), .. }) = self.get_mut(session)
            && matches!(suspended.code, Code::Fetching)
        {
            // If the service function has run or is running, its effect is unknown.
            let why = if suspended.calls() { why.outcome_unknown() } else { why };
            suspended.code = Code::Unavailable(Box::new(why));
            self.resume_if_ready(ground, session);
        }
    }
}

/// Nodes that may have this chain's function, the most likely first.
fn sources(ground: &Ground, activation: &Activation) -> Vec<Arc<NodeRef>> {
    let state = &activation.state;
    // An origin that cannot be dialled cannot be asked, but it gave the function to the node by which the chain entered.
    let creators = state.stack.iter().map(|frame| Arc::new(frame.creator.clone()));
    let others = creators.chain(state.header.entry.clone()).chain([state.header.origin.clone()]);
    // The node where a sub-chain began has had the enclosing chain's function; the previous hop's node may never have needed it.
    let near = ground.codes.repository().into_iter().chain(&activation.creator).chain([&activation.before]);
    near.cloned().chain(others).filter(|node| node.id != ground.me.id).collect()
}
