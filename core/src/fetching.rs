//! Functions that are not here: asked for, offered, checked, given up.

use alloc::{collections::VecDeque, format, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{Exception, Fault, Hash, Message, NodeId, NodeRef, names};

use crate::{
    Action, Answer, Node, Receipt, Time, Urgency, Wanted,
    activation::{Activation, Landing, Phase},
    code::Next,
};

impl Node {
    /// Brings a function to the repository, if there is one that has not had it from here (rpc-chains section 3.2: uploaded once).
    pub fn offer(&mut self, code: Hash, bytes: Bytes) {
        let Some(repository) = self.repository.clone().filter(|repository| repository.id != self.me.id) else { return };
        if !self.codes.was_sent(repository.id, code) {
            self.codes.note_sent(repository.id, code, &self.policy);
            self.send(&repository, Message::Code(code, bytes), Receipt::None, Urgency::Now);
        }
    }

    /// The shell has not got this function: ask the repository, else the hop before.
    pub fn on_code_missing(&mut self, now: Time, code: Hash) {
        self.recall(code);
        let me = self.me.id;
        let needs = |activation: &Activation| {
            let baggage = &activation.baggage;
            let lands = matches!(&activation.phase, Phase::Landing(landing) if landing.code_here);
            // Whoever resumes an enclosing chain asks the node where its sub-chain began.
            baggage.code == code && lands || baggage.stack.iter().any(|f| f.code == code && f.creator.id == me)
        };
        for session in self.activations.find(needs) {
            let Some(activation) = self.activations.get_mut(session) else {
                continue;
            };
            if let Phase::Landing(landing) = &mut activation.phase {
                landing.code_here &= activation.baggage.code != code;
            }
            let charter = &activation.baggage.charter;
            let creators = activation.baggage.stack.iter().map(|frame| &frame.creator);
            // An origin that cannot be dialled cannot be asked, but it gave the function to the node by which it entered.
            let others = creators.chain(&charter.entry).chain([&charter.origin]).cloned().map(Arc::new);
            // An enclosing chain's function has been where its sub-chain began; the hop before may never have needed it.
            let sources: Vec<_> = self
                .repository
                .iter()
                .chain(&activation.creator)
                .chain([&activation.before])
                .cloned()
                .chain(others)
                .filter(|node| node.id != me)
                .collect();
            let next = self.codes.want(now, code, session, sources, &self.policy);
            self.go_on_fetching(now, code, next);
        }
    }

    /// A chain whose result and state were there before its function was checked goes back to waiting: it cannot go on yet.
    fn recall(&mut self, code: Hash) {
        let (resumes, others) = core::mem::take(&mut self.actions).into_iter().partition::<VecDeque<_>, _>(
            |action| matches!(action, Action::Resume { code: c, .. } | Action::Branch { code: c, .. } if *c == code),
        );
        self.actions = others;
        for action in resumes {
            let (session, landing) = match action {
                Action::Resume { session, continuation, call, result, .. } => {
                    let result = Some(result.map(Answer::Value));
                    (session, Landing { result, ..Landing::here(call, continuation) })
                }
                Action::Branch { session, continuation, call, index, .. } => {
                    (session, Landing { branch: Some(index), ..Landing::here(call, continuation) })
                }
                _ => continue,
            };
            self.activations.set_phase(session, Phase::Landing(landing));
            if let Some(activation) = self.activations.get_mut(session) {
                activation.busy = false;
            }
        }
    }

    /// A function that was asked for, or offered, has been checked and kept; or is not what its hash says.
    pub fn on_code_stored(&mut self, now: Time, code: Hash, stored: Result<(), Exception>) {
        if !self.codes.is_fetching(code) {
            return;
        }
        match stored {
            // Whoever sent the wrong bytes is not asked again, the next source is.
            Err(_) => self.ask_for_code(now, code),
            Ok(()) => {
                for session in self.codes.finish(code) {
                    if let Some(activation) = self.activations.get_mut(session)
                        && activation.baggage.code == code
                        && let Phase::Landing(landing) = &mut activation.phase
                    {
                        landing.code_here = true;
                    }
                    self.resume_if_ready(now, session);
                }
            }
        }
    }

    pub(crate) fn code_came(&mut self, from: &Arc<NodeRef>, code: Hash, bytes: Bytes) {
        let repository = self.repository.as_ref().is_some_and(|repository| repository.id == self.me.id);
        if repository || self.codes.awaits(code, from.id) {
            self.actions.push_back(Action::StoreCode { code, bytes });
        }
    }

    /// That node has not got it, or cannot be asked.
    pub(crate) fn code_unavailable(&mut self, now: Time, code: Hash, from: NodeId) {
        if self.codes.awaits(code, from) {
            self.ask_for_code(now, code);
        }
    }

    pub(crate) fn ask_for_code(&mut self, now: Time, code: Hash) {
        let next = self.codes.ask_next(now, code, &self.policy);
        self.go_on_fetching(now, code, next);
    }

    pub(crate) fn go_on_fetching(&mut self, now: Time, code: Hash, next: Next) {
        match next {
            Next::Wait => {}
            Next::Ask(source) => {
                let receipt = Receipt::WantCode(Wanted { code, from: source.id });
                self.send(&source, Message::WantCode(code), receipt, Urgency::Now);
            }
            Next::GiveUp(sessions) => {
                let message = format!(
                    "{} does not have function {code:?}, and neither the repository nor the hop before could bring it; run the chain again, so that its origin offers it",
                    self.me.name
                );
                for session in sessions {
                    // For some of them it may have come along with a hop in the meantime.
                    let Some(activation) = self.activations.get_mut(session) else { continue };
                    let waits = activation.baggage.code == code;
                    let Phase::Landing(landing) = &mut activation.phase else { continue };
                    if waits && !landing.code_here {
                        let why = Exception::new(names::CODE_MISSING, Fault::Node, message.as_str());
                        // The service function has run, or runs.
                        let called = landing.gather == 0 && landing.branch.is_none();
                        landing.in_vain = Some(if called { why.outcome_unknown() } else { why });
                        self.resume_if_ready(now, session);
                    }
                }
            }
        }
    }
}
