//! Passes events between the parts of the node.

use catena_wire::ChainId;

use super::Node;
use crate::{Time, directory::Waiter, ground::Ground, outbox::Event};

impl Node {
    /// Handles something that has happened, and all that follows from it, before the next event.
    pub(super) fn at<T>(&mut self, now: Time, happen: impl FnOnce(&mut Self) -> T) -> T {
        self.ground.advance(now);
        let happened = happen(self);
        self.route();
        self.note_room();
        happened
    }

    /// Routes events between the parts until there are none left. Reply sets whose reader has gone are stopped.
    pub(super) fn route(&mut self) {
        loop {
            self.route_events();
            let Some(set) = self.chains.take_left_set() else { break };
            if !bug!(self.ground.policy, SetOutlivesReader) {
                self.sets.forget(&mut self.ground, set);
            }
        }
    }

    fn route_events(&mut self) {
        while let Some(event) = self.ground.out.poll_event() {
            let ground = &mut self.ground;
            match event {
                Event::Message(message) => {
                    let me = ground.me.clone();
                    self.take_message(&me, message);
                }
                Event::Take(request) => self.take_right(request),
                Event::Handed { right, at } => self.handed(&right, at),
                Event::FunctionEnded { right, result } => self.rights.function_ended(ground, &right, result),
                Event::Call(request) => self.calls.dispatch(ground, request),
                Event::Resolved(id, place) => self.found([Waiter::Call(id)], &Ok(place)),
                Event::ServedBy(session, call, node) => self.chains.served_by(session, call, &node),
                Event::Ask { session, set, number, request } => self.ask_of_chain(session, set, number, request),
                Event::Replied(session, set, values) => self.chains.replied(ground, (session, set), values),
                Event::SetOver { session, set, missing, failure, rights } => {
                    self.chains.set_over(ground, (session, set), missing, failure, rights);
                }
                Event::Read(set, count) => self.sets.on_read(ground, set, count),
                Event::Answered { to, result, brought } => self.chains.answered(ground, &to, result, brought),
                Event::SubChain { request, sub } => self.sub_chain(request, sub),
                Event::DetachedEnded(ended) => self.calls.detached_ended(ground, ended),
                Event::Unawaited(session, chain) => self.calls.let_go(session, chain),
                Event::Abandoned(owner) => self.calls.abandon(ground, &owner),
                Event::Unwanted(chain) => self.forget_chain(chain),
                Event::Seen(key, node) => self.origin.heard_at(&key, &node),
            }
        }
    }

    pub(super) fn forget_chain(&mut self, chain: ChainId) {
        if self.sets.forget(&mut self.ground, chain) {
            return;
        }
        let hosts = self.origin.hosts(chain);
        if self.origin.forget(&mut self.ground, chain) {
            let by = self.ground.bringer_of(chain);
            self.chains.stop(&mut self.ground, by, chain, hosts);
        }
    }

    /// Drops what has been remembered for long enough, often enough that more is dropped than a peer can bring.
    pub(super) fn expire(&mut self) {
        const EVERY_US: u64 = 100_000;
        let awake = self.ground.clock.now();
        if awake.since(self.expired_at) < EVERY_US {
            return;
        }
        self.expired_at = awake;
        self.rights.forget_old(awake, &self.ground.policy);
        let Ground { directory, dedup, fences, listeners, relays, out, policy, .. } = &mut self.ground;
        directory.expire(awake, policy);
        dedup.expire(awake, policy);
        fences.expire(awake, policy);
        listeners.expire(out, awake, policy);
        relays.expire(awake, policy);
    }

    pub(super) fn note_room(&mut self) {
        let room = self.ground.policy.held_bytes_max.saturating_sub(self.held_bytes());
        self.ground.room = room.min(self.memory_left);
    }
}
