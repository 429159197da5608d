//! Incoming calls: from other nodes, and from chains that stay where they are.

use alloc::{boxed::Box, format, sync::Arc};
use catena_wire::{BlobBytes, Branch, Brought, Exception, Fault, Message, NodeRef, Outcome, names};

use super::{Call, Calls, Owner, ReplyTo, Request, Stage, stopped};
use crate::{
    Answer, Receipt, Ticket, Urgency,
    directory::not_served,
    ground::Ground,
    memory::{DoneStep, Fate, REPLY_TO_MAX, StepRecord, fingerprint},
    outbox::Event,
};

impl Calls {
    /// A call from another node. If a chain makes it, its result is remembered, so that a repeat does not run it again.
    pub(crate) fn serve(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, id: u64, request: Request, age_us: u64) {
        let made_at = request.right.as_ref().map(|right| &right.key).or(request.key.as_ref());
        if made_at.is_some_and(|key| ground.fences.is_stopped(key.chain, from.id)) {
            return self.answer(ground, request, Err(stopped()));
        }
        let Some(key) = request.key.clone() else {
            return match ground.relocation(&request.service, &request.function) {
                Some(relocation) => {
                    ground.out.send(from, Message::CallElsewhere(id, relocation, false), Receipt::None, Urgency::Now);
                }
                None => self.serve_new(ground, request),
            };
        };
        let mine = fingerprint(&request.service, &request.function, &request.params);
        match ground.dedup.get_mut(&key) {
            Some(StepRecord::Calling { fingerprint, reply_to, .. }) if *fingerprint == mine => {
                if reply_to.iter().any(|(node, theirs)| node.id == from.id && *theirs == id) {
                    return;
                }
                if reply_to.len() < REPLY_TO_MAX {
                    reply_to.push((from.clone(), id));
                    self.asking.insert((from.id, id), key);
                    return;
                }
                let why = ground.overloaded("callers of one step", REPLY_TO_MAX).outcome_unknown();
                self.answer(ground, request, Err(why));
            }
            Some(StepRecord::Done(done)) if matches!(done.fate, Fate::Returned(known, _) if known == mine) => {
                let known = &mut done.from.nodes;
                if known.len() < REPLY_TO_MAX && !known.contains(&from.id) {
                    known.push(from.id);
                }
                let (result, brought) = returned(done);
                self.reply(ground, request.reply_to, result, brought);
            }
            Some(_) => {
                let message = "another call was made under this step; whether this one took effect is unknown";
                let why = Exception::new(names::PROTOCOL, Fault::Caller, message).outcome_unknown();
                self.answer(ground, request, Err(why));
            }
            None => {
                if bug!(ground.policy, RefusedFences) {
                    ground.note_duplicate(request.by, request.duplicate.as_deref());
                }
                let verdict = ground.check_remembered(&key, from.id, age_us).and_then(|()| {
                    let Request { service, function, duplicate, .. } = &request;
                    ground.check_not_done(duplicate.as_deref(), &key, service, function)
                });
                if let Err(why) = verdict {
                    return self.answer(ground, request, Err(why));
                }
                if let Some(relocation) = ground.relocation(&request.service, &request.function) {
                    // It was sent before, so a copy may still arrive. The copy must find the refusal recorded, even if the service is back here by then.
                    if age_us > 0 {
                        let why = not_served(&ground.me.name, &request.service);
                        ground.dedup.begin_call(key.clone(), mine, request.by, (from.clone(), id));
                        self.step_done(ground, &key, Err(why), Brought::default());
                    }
                    let answer = Message::CallElsewhere(id, relocation, age_us > 0);
                    return ground.out.send(from, answer, Receipt::None, Urgency::Now);
                }
                ground.dedup.begin_call(key.clone(), mine, request.by, (from.clone(), id));
                self.asking.insert((from.id, id), key.clone());
                self.serve_new(ground, Request { reply_to: ReplyTo::Step(key), ..request });
            }
        }
    }

    fn serve_new(&mut self, ground: &mut Ground, mut request: Request) {
        let lent = request.budget.left(ground.now);
        let budget = lent.narrowed_to(ground.policy.budget_max);
        request.budget.set(ground.now, budget);
        request.hops_withheld = lent.hops_left() - budget.hops_left();
        let me = &ground.me.name;
        let verdict = ground.directory.check(me, &request.service, &request.function).and_then(|()| {
            if budget.time_left_us() == 0 {
                let message = format!("the call had no time left when it reached {me}");
                return Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message));
            }
            ground.check_running(request.by)?;
            self.check_bytes(ground, &request)
        });
        match verdict {
            Ok(()) => {
                // Only here, so that a call that is refused leaves no fence behind.
                if request.key.is_some() {
                    ground.note_duplicate(request.by, request.duplicate.as_deref());
                }
                self.run_service(ground, request);
            }
            Err(why) => self.answer(ground, request, Err(why)),
        }
    }

    pub(crate) fn running(&self, service: &str) -> usize {
        self.running.get(service).copied().unwrap_or_default()
    }

    pub(crate) fn blobs_read(&mut self, ticket: Ticket, blobs: BlobBytes) {
        let call = self.calls.get_mut(&ticket.0).filter(|call| matches!(call.stage, Stage::Running));
        if let Some(call) = call {
            call.request.blobs = Some(Box::new(blobs));
        }
    }

    pub(crate) fn service_done(
        &mut self,
        ground: &mut Ground,
        ticket: Ticket,
        result: Result<Answer, Exception>,
        took_us: u64,
    ) {
        let running = |stage: &Stage| matches!(stage, Stage::Running);
        let Some(Call { request, .. }) = self.take(ground, ticket.0, running) else { return };
        let request = Request { service_us: took_us, fallback: None, ..request };
        match result {
            Ok(Answer::Value(value)) => self.answer(ground, request, Ok(value)),
            Ok(Answer::Nothing) => match request.reply_to {
                ReplyTo::Right(right) => ground.out.tell(Event::FunctionEnded { right, result: Ok(None) }),
                _ => self.answer(ground, request, Ok(catena_wire::Value::null())),
            },
            Ok(Answer::Chain(sub)) => {
                if let Some(key) = request.key.clone().filter(|_| sub.hears) {
                    let Ground { listeners, out, clock, policy, .. } = ground;
                    listeners.begin(out, clock.now(), request.by, key, policy);
                }
                ground.out.tell(Event::SubChain { request, sub });
            }
            Err(why) => {
                // An exception that the function passes on from a call of its own has a path already: this node is put in front of it.
                let here = core::slice::from_ref(&ground.me.name);
                let why = if why.path.is_empty() { why } else { why.behind(0, Branch::root(), here) };
                self.answer(ground, request, Err(why));
            }
        }
    }

    /// The node that asked no longer wants the answer.
    pub(crate) fn withdrawn(&mut self, ground: &mut Ground, from: &NodeRef, id: u64) {
        self.abandon(ground, &Owner::Peer(from.id, id));
        let Some(key) = self.asking.remove(&(from.id, id)) else { return };
        let Some(StepRecord::Calling { reply_to, .. }) = ground.dedup.get_mut(&key) else { return };
        // Other nodes may have asked for the same step.
        let is_it = |(to, theirs): &(Arc<NodeRef>, u64)| to.id == from.id && *theirs == id;
        // If this was the last node that asked, the record keeps that node: it may ask again.
        if reply_to.iter().all(is_it) {
            self.abandon(ground, &Owner::Step(key));
        } else {
            reply_to.retain(|one| !is_it(one));
        }
    }

    /// An answer from another node. Only the node that was asked may answer. Returns what to do with it.
    pub(crate) fn returned(
        &mut self,
        ground: &mut Ground,
        from: &Arc<NodeRef>,
        id: u64,
        outcome: Outcome,
        brought: Brought,
    ) {
        let asked = |stage: &Stage| matches!(stage, Stage::Asked(delivery) if delivery.to().id == from.id);
        let Some(Call { request, stage: Stage::Asked(delivery), .. }) = self.take(ground, id, asked) else { return };
        // A node cannot bring back more hops than it was lent.
        let hops_left = brought.hops_left.min(request.budget.hops_left());
        let result = match outcome {
            Outcome::Done(value) => {
                if request.key.is_some() {
                    ground.directory.placement.learn_result(&request.service, &request.function, value.len_bytes());
                }
                Ok(value)
            }
            Outcome::Threw(why) => Err(delivery.conclude(why.calling(&request.service, &request.function))),
        };
        match (request.reply_to, result) {
            // The right to reply has moved with the call.
            (ReplyTo::Delegator(right), Ok(_)) => ground.out.tell(Event::Handed { right, at: Ok(from.clone()) }),
            (to, result) => self.reply(ground, to, result, Brought { hops_left, ..brought }),
        }
    }
}

fn returned(done: &DoneStep) -> (Result<catena_wire::Value, Exception>, Brought) {
    if let Fate::Returned(_, Some(returned)) = &done.fate {
        return (**returned).clone();
    }
    let why = "the call was made before, and its result is no longer kept; whether it took effect is unknown";
    (Err(Exception::new(names::NODE_LOST, Fault::Node, why).outcome_unknown()), Brought::default())
}
