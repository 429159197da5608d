//! Does what a node asks for, at once.

use catena_core::{Action, Answer, Replied, SubChain, Turn};
use catena_wire::{Hash, Value};

use crate::{
    guest::{Guest, Params},
    world::{Packet, What, World},
};

/// The one function of the model; what it does is in its input.
pub(crate) const CODE: Hash = Hash([7; 32]);

impl World {
    /// Does all that a node asks for. What it says is not heard if it dies before.
    pub(crate) fn drain(&mut self, host: usize, heard: bool) {
        while let Some(action) = self.hosts[host].node.poll_action() {
            self.act(host, action, heard);
        }
    }

    fn act(&mut self, host: usize, action: Action, heard: bool) {
        let now = self.now;
        match action {
            Action::Send { to, message, receipt, .. } if self.index_of(to.id).is_some() => {
                if heard {
                    let what = What::Message { head: message.head.to_vec(), tail: message.tail.to_vec() };
                    self.packets.push(Packet { to: to.id, from: self.hosts[host].me.id, what });
                }
                drop(receipt);
            }
            Action::Send { receipt, .. } => self.undelivered(host, receipt),
            Action::RunService { ticket, params, key, .. } => {
                let params: Params = minicbor::decode(params.as_bytes()).unwrap();
                let id = self.hosts[host].me.id;
                // A sub-chain's run has a number of its own, beyond its chain's.
                let chain = self.chains.get(usize::try_from(params.run % 50).unwrap() - 1).map(|(chain, _)| *chain);
                if chain.is_some_and(|chain| self.cancelled.contains(&(id, chain))) {
                    self.wrong = Some(format!("a service of {id:?} begins for a chain that it knows is cancelled"));
                }
                self.effects.entry((params.run, params.call)).or_default().push(id);
                self.done.extend(key.filter(|_| params.sub.is_none()));
                let answer = match params.sub {
                    None => Answer::Value(Value::encode(&params.call)),
                    // A run of its own, so that its effects are told apart.
                    Some(todo) => Answer::Chain(SubChain {
                        number: 1_000 + u128::from(params.run) * 100 + u128::from(params.call),
                        code: CODE,
                        input: Value::encode(&(params.run + 50, todo)),
                        catch: None,
                        hears: false,
                    }),
                };
                self.hosts[host].node.on_service_done(now, ticket, Ok(answer), 1);
            }
            Action::Resolve { service, .. } => {
                let place = self.place(&service);
                self.hosts[host].node.on_resolved(now, &service, place);
            }
            Action::Reply(chain, replied) => self.reply(chain, &replied),
            Action::CallDone(call, _) => self.no_plain_calls(call),
            Action::CancelService(_)
            | Action::CheckCode { .. }
            | Action::StoreCode { .. }
            | Action::ServeCode { .. }
            | Action::ServeListing { .. }
            | Action::Listing { .. }
            | Action::Heard(..)
            | Action::HeardEnd(_) => {}
            action => self.act_on_guest(host, action),
        }
    }

    fn act_on_guest(&mut self, host: usize, action: Action) {
        let now = self.now;
        let (session, guest, turn): (_, Guest, Turn) = match action {
            Action::Begin { session, input, .. } => {
                let mut guest = Guest::begin(&input);
                let turn = guest.turn(None);
                (session, guest, turn)
            }
            Action::Resume { session, continuation, result, .. } => {
                let mut guest = Guest::lay_over(&continuation);
                let turn = guest.turn(Some(result));
                (session, guest, turn)
            }
            Action::Branch { session, continuation, index, .. } => {
                let mut guest = Guest::lay_over(&continuation);
                let turn = guest.branch(index);
                (session, guest, turn)
            }
            Action::Settle { session, result, .. } => {
                let Some(mut guest) = self.hosts[host].guests.remove(&session) else {
                    self.wrong = Some(format!("Settle of {session:?}, which is not there"));
                    return;
                };
                let turn = guest.turn(Some(result));
                (session, guest, turn)
            }
            Action::Suspend { session, .. } => {
                let Some(guest) = self.hosts[host].guests.remove(&session) else {
                    self.wrong = Some(format!("Suspend of {session:?}, which is not there"));
                    return;
                };
                return self.hosts[host].node.on_suspended(now, session, Ok((guest.continuation(), None)), 1);
            }
            Action::Discard(session) => {
                self.hosts[host].guests.remove(&session);
                return;
            }
            other => panic!("the model does not know {other:?}"),
        };
        if self.hosts[host].guests.insert(session, guest).is_some() {
            self.wrong = Some(format!("two guests in {session:?}"));
        }
        self.hosts[host].node.on_turn(now, session, Ok(turn), 1);
    }

    fn reply(&mut self, chain: catena_wire::ChainId, replied: &Replied) {
        match replied {
            Replied::Partial(_) => {
                if let Some((_, seen)) = self.chains.iter_mut().find(|(id, _)| *id == chain) {
                    seen.partials += 1;
                    if !seen.ends.is_empty() {
                        self.wrong = Some(format!("an answer of {chain} after its end"));
                    }
                }
            }
            Replied::Console(lines) => {
                if let Some((_, seen)) = self.chains.iter_mut().find(|(id, _)| *id == chain) {
                    seen.lines.extend(lines.iter().map(|line| line.number));
                }
            }
            Replied::Told(_) => {}
            Replied::End { outcome, .. } => self.ended(chain, outcome),
        }
    }
}
