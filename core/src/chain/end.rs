//! A chain's own timer, and its end.

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{
    BRANCHES_MAX, Encoded, End, Exception, Fault, Listener, Message, NodeRef, Outcome, Part, StepKey, Value, What,
    names,
};

use super::{
    Chains,
    activation::{Activation, Continuation, Phase, Suspended},
    console::tell_lines,
    recording::record,
};
use crate::{
    Action, Receipt, SessionId, Time, Undelivered,
    calls::Owner,
    collections::AT_ONCE_MAX,
    delivery::Parcel,
    ground::Ground,
    memory::{Fate, Senders, Sent, StepRecord},
    outbox::Event,
};

impl Chains {
    /// Handles due timers of chains: deadlines, heartbeats, hops that were not acknowledged, states that did not arrive.
    pub(crate) fn on_timeout(&mut self, ground: &mut Ground) {
        for _ in 0..AT_ONCE_MAX {
            let Some(session) = self.timers.take_due(ground.now) else { break };
            self.wake(ground, session);
        }
    }

    fn wake(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(activation) = self.get_mut(session) else { return };
        if activation.budget.left(ground.now).time_left_us() == 0 {
            let message = format!("no time left, at step {} on {}; allow more time", activation.step, ground.me.name);
            let why = activation.stopped_for(Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message));
            return self.end(ground, session, Outcome::Threw(why));
        }
        if let Phase::Suspended(Suspended { continuation: Continuation::Coming(_, Some(due)), .. }) = &activation.phase
            && *due <= ground.now
        {
            // The hop was never accepted: its sender still has it, and decides what to do.
            let message = "the chain's state did not arrive; its service function may have run";
            return self.drop_unknown(ground, session, Fault::Network, message);
        }
        if activation.heartbeat_at <= ground.now {
            let orphaned = activation.unreached.is_for_long(ground.now, &ground.policy);
            if orphaned && !bug!(ground.policy, OrphansGoOn) {
                // The chain is an orphan: nobody can be told how it ends (rpc-chains section 3.10).
                let message =
                    format!("{} dropped the chain: for a while it could not reach the origin", ground.me.name);
                return self.drop_unknown(ground, session, Fault::Node, &message);
            }
            beat(ground, activation);
        }
        self.reset_timer(session);
        if let Some(Activation { phase: Phase::HandingOff(hand_off), .. }) = self.get(session)
            && hand_off.retry_at() <= ground.now
        {
            self.hop_failed(ground, session, Undelivered::Lost);
        }
    }

    /// Drops the chain. Its step is remembered as refused, with an unknown outcome.
    fn drop_unknown(&mut self, ground: &mut Ground, session: SessionId, fault: Fault, message: &str) {
        let Some(activation) = self.get(session) else { return };
        let (key, from) = (activation.arrived.clone(), super::senders(activation));
        let why = Exception::new(names::NODE_LOST, fault, message).outcome_unknown();
        let refusal = Message::Refused(key.clone(), why.at(&key, &activation.state.path)).encode();
        self.discard(ground, session);
        ground.dedup.refuse(ground.clock.now(), &key, from, refusal, &ground.policy);
    }

    /// The end of the whole chain, or of a branch: straight from here to the origin, or to the merge host (design, section 2).
    pub(super) fn end(&mut self, ground: &mut Ground, session: SessionId, outcome: Outcome) {
        let Some(mut activation) = self.remove(ground, session) else { return };
        record(ground, &mut activation, || What::Ended);
        activation.close_profile(ground.unix_us());
        if !bug!(ground.policy, GuestLeaks) {
            ground.out.ask(Action::Discard(session));
        }
        ground.out.tell(Event::Abandoned(Owner::Session(session)));
        let outcome = match bug!(ground.policy, UncertaintyForgotten) {
            true => outcome,
            false => activation.state.conclude_all(outcome),
        };
        let way = way_of(ground, &activation);
        let end = end_of(ground.now, &mut activation, outcome);
        send_end(ground, (&activation.arrived, super::senders(&activation)), end, way);
    }

    pub(crate) fn part_undelivered(&mut self, ground: &mut Ground, key: (StepKey, Part), how: Undelivered) {
        match (how, key.1) {
            (Undelivered::TooLarge { bytes, bytes_max }, Part::End) => {
                end_too_large(ground, &key.0, bytes, bytes_max);
            }
            (Undelivered::TooLarge { bytes, bytes_max }, Part::Partial(number) | Part::ToCreator { number, .. }) => {
                self.answer_too_large(ground, &key, number, bytes, bytes_max);
            }
            _ => ground.outgoing.failed(ground.now, &key, &ground.policy),
        }
    }

    /// An intermediate answer is larger than a link carries. No answer may be missing from a reply set, so the chain ends after those before it: here, at the
    /// origin, and wherever it has gone on meanwhile.
    fn answer_too_large(
        &mut self,
        ground: &mut Ground,
        kept: &(StepKey, Part),
        number: u32,
        bytes: u64,
        bytes_max: u64,
    ) {
        let Some(parcel) = ground.outgoing.remove(kept) else { return };
        let (key, to_origin) = (&kept.0, matches!(kept.1, Part::Partial(_)));
        // The chain was stopped: an earlier answer was too large as well, or nobody waits any more.
        if ground.fences.is_stopped(key.chain, ground.me.id) {
            return;
        }
        let Some((arrived, so_far)) = self.so_far(ground, key) else { return };
        let message = format!(
            "intermediate answer {number} has {bytes} bytes, where a message may have {bytes_max}; the chain was stopped, since none can be missing; earlier calls took effect, and one under way may have; emit it in parts, or leave it at a service and emit its name"
        );
        let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message).outcome_unknown();
        let outcome = Outcome::Threw(why.at(key, &so_far.path));
        let emitted = if to_origin { number } else { so_far.emitted };
        let Some(from) = ground.dedup.get(&arrived).map(StepRecord::senders) else { return };
        let end = End { key: key.clone(), outcome, emitted, ..so_far };
        self.cut_off(ground, (&arrived, from), end, parcel.homeward());
    }

    /// Answers have come from more branches than can be counted, which shows at a merge. No answer may be missing from a reply set, so the chain ends here,
    /// whichever of its branches this is, and waits for none.
    pub(super) fn too_many_answer(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(activation) = self.get(session) else { return };
        let (arrived, from) = (activation.arrived.clone(), super::senders(activation));
        let message = format!(
            "answers of more than {BRANCHES_MAX} branches, which is all that are counted; the chain was stopped, since none can be missing; earlier calls took effect, and one under way may have; let branches return their values to the merge"
        );
        let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message).outcome_unknown();
        let way = homeward(ground, activation);
        let end = end_of(ground.now, &mut activation.clone(), Outcome::Threw(why));
        let end = End { emitted: 0, merged: Vec::new(), ..end };
        self.cut_off(ground, (&arrived, from), end, way);
    }

    /// Ends the whole chain with this end, wherever it has gone on meanwhile.
    fn cut_off(&mut self, ground: &mut Ground, (arrived, from): (&StepKey, Senders), end: End, way: Parcel) {
        let end = End { at: None, hops_left: 0, cut: true, trace: None, recording: None, console: Vec::new(), ..end };
        self.stop(ground, from.party, end.key.chain, Vec::new());
        send_end(ground, (arrived, from), end, way);
    }

    /// The chain's stay in which this step was made, and the end that the chain would have now. If nothing of that is kept any more, it is the end of a chain
    /// that has answered nothing.
    fn so_far(&self, ground: &Ground, key: &StepKey) -> Option<(StepKey, End)> {
        let (arrived, record) = ground.dedup.stay_of(key)?;
        let of = |activation: &Activation| end_of(ground.now, &mut activation.clone(), Outcome::Done(Value::null()));
        let end = match record {
            StepRecord::Running { session, .. } => Some(of(self.get(*session)?)),
            StepRecord::Done(done) => match &done.fate {
                Fate::Forwarded(_, Some((activation, _))) => Some(of(activation)),
                Fate::Ended(Some(sent)) => match Message::decode_head(&sent.message.head) {
                    Ok(Message::End(end)) => Some(*end),
                    _ => None,
                },
                _ => None,
            },
            StepRecord::Calling { .. } => return None,
        };
        Some((arrived.clone(), end.unwrap_or_else(|| bare_end(ground, key))))
    }
}

/// An intermediate answer: to the origin, or to the creator of the sub-chain if the creator wants it.
pub(super) fn emit(ground: &mut Ground, activation: &mut Activation, value: Value) {
    let (key, number) = (activation.key(), activation.state.emitted);
    activation.state.emitted = number.saturating_add(1);
    let until = ground.now.after(activation.budget.left(ground.now).time_left_us());
    let header = &activation.state.header;
    let (origin, way) = (header.origin.clone(), ground.way_home(header));
    let (to, step, via) = match activation.state.listener() {
        Listener::Nobody => return,
        Listener::Creator(creator, step) => (Arc::new(creator), step, None),
        Listener::Origin => (origin.clone(), 0, way.clone()),
    };
    let partial = Message::Partial { key: key.clone(), number, value, to: step };
    if to.id == ground.me.id {
        return ground.out.tell(Event::Message(partial));
    }
    let parcel = Parcel::new(activation.by, to, via, partial.encode(), until);
    let parcel = if step == 0 { parcel } else { parcel.away_from(origin, way) };
    ground.send_kept(key, Part::answer(number, step), parcel);
}

/// Sends a heartbeat, and the console lines that the origin has not been sent.
fn beat(ground: &mut Ground, activation: &mut Activation) {
    // Later than now, whatever the policy says: a timer that is always due would leave no others their turn.
    activation.heartbeat_at = ground.now.after(ground.policy.heartbeat_interval_us.max(1));
    let open = match &activation.phase {
        // The hop was accepted once, and is being sent again: heartbeats have to come from the node that has the chain.
        Phase::HandingOff(hand_off) if hand_off.delivery.was_taken() => return,
        // A hop whose state has not arrived is still its sender's, to whom a heartbeat from here would be an implicit acknowledgement.
        Phase::Suspended(Suspended { continuation: Continuation::Coming(..), .. })
            if !bug!(ground.policy, HeadlessBeats) =>
        {
            return;
        }
        // The merge host sends heartbeats on behalf of branches that have ended, and names the open ones (rpc-chains section 3.10).
        Phase::Merging(merging) => merging.open_branches(),
        _ => Vec::new(),
    };
    let key = activation.key();
    let beat = Message::Heartbeat(key.clone(), (*ground.me).clone(), open);
    ground.send_home(&activation.state.header, beat, Receipt::Beat(key));
    tell_lines(ground, activation);
}

/// The end of a chain or branch, which takes over what the activation carried.
fn end_of(now: Time, activation: &mut Activation, outcome: Outcome) -> End {
    let (key, hops_left) = (activation.key(), activation.budget.left(now).hops_left());
    let state = &mut activation.state;
    let outcome = match outcome {
        Outcome::Threw(why) => Outcome::Threw(why.at(&key, &state.path)),
        done @ Outcome::Done(_) => done,
    };
    End {
        key,
        outcome,
        emitted: state.answers(),
        at: state.merge.as_ref().map(|merge| merge.at.clone()),
        hops_left,
        path: core::mem::take(&mut state.path),
        trace: state.trace.take(),
        recording: state.recording.take().map(|recording| recording.into_wire()),
        console: core::mem::take(&mut state.console),
        merged: core::mem::take(&mut state.merged),
        cut: false,
    }
}

/// The end of a chain or branch of which nothing is known but the step.
fn bare_end(ground: &Ground, key: &StepKey) -> End {
    End {
        key: key.clone(),
        outcome: Outcome::Done(Value::null()),
        emitted: 0,
        at: None,
        hops_left: 0,
        path: alloc::vec![ground.me.name.clone()],
        trace: None,
        recording: None,
        console: Vec::new(),
        merged: Vec::new(),
        cut: false,
    }
}

/// A parcel without a message yet, addressed to where the end goes: to the merge host if there is one, else to the origin.
fn way_of(ground: &Ground, activation: &Activation) -> Parcel {
    let header = &activation.state.header;
    let merge = activation.state.merge.as_ref();
    let to = merge.map_or_else(|| header.origin.clone(), |merge| Arc::new(merge.host.clone()));
    let via = ground.way_home(header).filter(|_| to.id == header.origin.id);
    empty_parcel(ground, activation, to, via)
}

/// A parcel without a message yet, addressed to the origin.
fn homeward(ground: &Ground, activation: &Activation) -> Parcel {
    let header = &activation.state.header;
    empty_parcel(ground, activation, header.origin.clone(), ground.way_home(header))
}

fn empty_parcel(ground: &Ground, activation: &Activation, to: Arc<NodeRef>, via: Option<Arc<NodeRef>>) -> Parcel {
    let left_us = activation.budget.left(ground.now).time_left_us();
    let until = ground.now.after(left_us.max(ground.policy.heartbeat_timeout_us));
    Parcel::new(activation.by, to, via, Encoded { head: Bytes::new(), tail: Bytes::new() }, until)
}

/// Sends the end, and keeps it until it has arrived and to answer repeats of its step.
fn send_end(ground: &mut Ground, (arrived, from): (&StepKey, Senders), end: End, way: Parcel) {
    let (key, to, via) = (end.key.clone(), way.to.clone(), way.via.clone());
    let end = Message::End(Box::new(end));
    let sent = if to.id == ground.me.id {
        ground.out.tell(Event::Message(end));
        None
    } else {
        let message = end.encode();
        ground.send_kept(key.clone(), Part::End, way.with(message.clone()));
        Some(Box::new(Sent { key, to: to.clone(), message, via }))
    };
    let (awake, to) = (ground.clock.now(), alloc::vec![to]);
    ground.dedup.remember(awake, arrived, Fate::Ended(sent), from, to, &ground.policy);
}

/// The end of a chain or branch is larger than a link carries: an exception that says so is sent in its place.
fn end_too_large(ground: &mut Ground, key: &StepKey, bytes: u64, bytes_max: u64) {
    let Some(parcel) = ground.outgoing.remove(&(key.clone(), Part::End)) else { return };
    let Ok(Message::End(end)) = Message::decode_head(&parcel.message.head) else { return };
    let why = end_exception(&end.outcome, bytes, bytes_max).at(&end.key, &end.path);
    // Lines are left out, since they may be what is too large. Those sent ahead have been shown.
    let trace = end.trace.map(|_| Vec::new());
    let end = End { outcome: Outcome::Threw(why), trace, recording: None, console: Vec::new(), ..*end };
    let Some(parcel) = parcel.replaced_by(Message::End(Box::new(end)).encode()) else { return };
    if let Some((arrived, StepRecord::Done(done))) = ground.dedup.stay_of(key)
        && matches!(done.fate, Fate::Ended(_))
    {
        let (arrived, from, nodes) = (arrived.clone(), done.from.clone(), done.to.clone());
        let Parcel { to, via, message, .. } = parcel.clone();
        let fate = Fate::Ended(Some(Box::new(Sent { key: key.clone(), to, message, via })));
        ground.dedup.remember(ground.clock.now(), &arrived, fate, from, nodes, &ground.policy);
    }
    ground.send_kept(key.clone(), Part::End, parcel);
}

/// The exception that takes the place of an end that is too large to send.
fn end_exception(outcome: &Outcome, bytes: u64, bytes_max: u64) -> Exception {
    let (what, unknown) = match outcome {
        Outcome::Done(value) => {
            (format!("returned; its calls have taken effect; {} bytes are its result", value.len_bytes()), true)
        }
        Outcome::Threw(why) => (format!("ended with {}", why.name), why.unknown),
    };
    let message = format!(
        "the function {what}, but its end, with its lines and profile, has {bytes} bytes, where a message may have {bytes_max}; answer in parts, or leave what is large at a service and answer with its name"
    );
    let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message);
    if unknown { why.outcome_unknown() } else { why }
}
