//! Does what a node asks for, at once.

use std::sync::Arc;

use bytes::Bytes;
use catena_core::{Action, Answer, Instance, Receipt, Replied, SubChain, Turn, Undelivered};
use catena_wire::{
    ChainId, Encoded, Exception, Fault, Hash, Message, NodeId, NodeRef, PossibleDuplicate, StepKey, Value, names,
};

use crate::{
    durable,
    guest::{Guest, Params},
    setup::{Code, Kind, Setup},
    world::{Packet, What, World},
};

/// The one function of the model; what it does is in its input.
pub(crate) const CODE: Hash = Hash([7; 32]);

impl World {
    /// Does all that a node asks for. What it says is not heard if it dies before.
    pub(crate) fn drain(&mut self, setup: &Setup, host: usize, heard: bool) {
        while let Some(action) = self.hosts[host].node.poll_action() {
            self.act(setup, host, action, heard);
        }
    }

    fn act(&mut self, setup: &Setup, host: usize, action: Action, heard: bool) {
        let now = self.now;
        match action {
            Action::Send { to, message, receipt, via, .. } => {
                if let Err(receipt) = self.send(setup, host, &to, message, receipt, via, heard) {
                    self.hosts[host].node.on_undelivered(now, receipt, Undelivered::Unreachable);
                }
            }
            Action::RunService { ticket, service, params, key, duplicate, .. } => {
                let answer = self.run_service(setup, host, &service, &params, key, duplicate.as_ref());
                self.hosts[host].node.on_service_done(now, ticket, answer, 1);
            }
            Action::Resolve { lookup, service, avoid } => {
                let place = self.place(setup, &service, &avoid);
                self.hosts[host].node.on_resolved(now, lookup, place);
            }
            Action::Reply(chain, replied) => self.reply(chain, &replied),
            Action::CallDone(call, _) => self.wrong = Some(format!("{call:?} ended, and nobody made it")),
            Action::CheckCode { session, code, .. } if !self.hosts[host].has_code => {
                self.hosts[host].node.on_code_missing(now, session, code);
            }
            Action::Resume { .. } | Action::Branch { .. } if !self.hosts[host].has_code => {
                self.hosts[host].node.on_code_absent(now, action);
            }
            Action::StoreCode { code, .. } => {
                self.hosts[host].has_code = true;
                self.hosts[host].node.on_code_stored(now, code, Ok(()));
            }
            Action::ServeCode { code, to } => {
                let bytes = Bytes::from_static(b"a function");
                let has = self.hosts[host].has_code;
                let message = if has { Message::Code(code, bytes) } else { Message::NoCode(code) };
                drop(self.send(setup, host, &to, message.encode(), Receipt::None, None, heard));
            }
            Action::Heard(..) => self.heard += 1,
            Action::CancelService(_)
            | Action::CheckCode { .. }
            | Action::ServeListing { .. }
            | Action::Listing { .. }
            | Action::RightChanged(_)
            | Action::Offered { .. }
            | Action::FetchCode(_)
            | Action::ServeResolvers { .. }
            | Action::ResolversSaid { .. }
            | Action::HeardEnd(_)
            | Action::AbandonLookup(_) => {}
            action => self.act_on_guest(setup, host, action),
        }
    }

    /// By a link, or by whoever has one. Gives the receipt back if there is none.
    #[allow(clippy::too_many_arguments, reason = "what a sending consists of")]
    fn send(
        &mut self,
        setup: &Setup,
        host: usize,
        to: &NodeRef,
        message: Encoded,
        receipt: Receipt,
        via: Option<Arc<NodeRef>>,
        heard: bool,
    ) -> Result<(), Receipt> {
        let from = self.hosts[host].me.id;
        let Some(target) = self.index_of(to.id) else { return Err(receipt) };
        if target == host {
            self.wrong = Some(format!("n{host} is to send to itself"));
        }
        if setup.secluded && host == 0 {
            self.linked.insert(to.id);
        }
        let reached = !setup.secluded || target > 0 || self.linked.contains(&from);
        let (to, message) = match via {
            _ if reached => (to.id, message),
            Some(via) if self.index_of(via.id).is_some() => {
                let relay = Message::Relay { to: to.id, head: message.head.to_vec(), tail: message.tail };
                (via.id, relay.encode())
            }
            _ => return Err(receipt),
        };
        if heard {
            let what = match Message::decode_head(&message.head) {
                Ok(Message::Received(..)) => What::Acknowledgement(message.head.to_vec()),
                _ => What::Message { head: message.head.to_vec(), tail: message.tail.to_vec() },
            };
            self.packets.push(Packet { to, from, what });
        }
        Ok(())
    }

    fn run_service(
        &mut self,
        setup: &Setup,
        host: usize,
        service: &str,
        params: &Value,
        key: Option<StepKey>,
        duplicate: Option<&PossibleDuplicate>,
    ) -> Result<Answer, Exception> {
        let Params { run, call, sub } = minicbor::decode(params.as_bytes()).unwrap();
        let kind = setup.services[number_of(service)].kind;
        if !self.owners(setup, number_of(service)).contains(&host) {
            self.wrong = Some(format!("n{host} runs {service}, which is not there"));
        }
        let durable = key.as_ref().filter(|_| kind == Kind::Durable && sub.is_none());
        if let Some(kept) = durable.and_then(|key| durable::kept(&self.disks[host], key, duplicate)) {
            return kept;
        }
        let id = self.hosts[host].me.id;
        // A sub-chain's run has a number of its own, beyond its chain's.
        let chain = self.chains.get(usize::try_from(run % 50).unwrap() - 1).map(|(chain, _)| *chain);
        if chain.is_some_and(|chain| self.cancelled.contains(&(id, chain))) {
            self.wrong = Some(format!("a service of {id:?} begins for a chain that it knows is cancelled"));
        }
        self.effects.entry((run, call, service.to_owned())).or_default().push(id);
        if let Some(key) = durable {
            let way = catena_core::Way::of(key, duplicate);
            self.disks[host].insert(key.clone(), (way, Value::encode(&call)));
        }
        self.done.extend(key.filter(|_| sub.is_none()));
        Ok(match sub {
            None => Answer::Value(Value::encode(&call)),
            // A run of its own, so that its effects are told apart.
            Some(todo) => Answer::Chain(SubChain {
                number: 1_000 + u128::from(run) * 100 + u128::from(call),
                code: CODE,
                input: Value::encode(&(run + 50, todo)),
                catch: None,
                hears: setup.hears,
            }),
        })
    }

    fn place(&self, setup: &Setup, service: &str, avoid: &[NodeId]) -> Result<Instance, Exception> {
        let number = number_of(service);
        let by = self.rumoured(setup, number).into_iter().map(|host| (host, &self.hosts[host].me));
        // Those that were up all along are known better.
        let Some((host, me)) = by.filter(|(_, me)| !avoid.contains(&me.id)).min_by_key(|(_, me)| me.id.0 / 100) else {
            let why = format!("nobody else serves {service}");
            return Err(Exception::new(names::NODE_UNREACHABLE, Fault::Network, why));
        };
        let proxy = setup.proxy.filter(|(served, _)| *served == host).map(|(_, proxy)| self.hosts[proxy].me.clone());
        Ok(Instance { node: me.clone(), proxy, kinds: setup.kinds(number) })
    }

    fn act_on_guest(&mut self, setup: &Setup, host: usize, action: Action) {
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
            Action::Suspend { session, with_code } => {
                let Some(guest) = self.hosts[host].guests.remove(&session) else {
                    self.wrong = Some(format!("Suspend of {session:?}, which is not there"));
                    return;
                };
                let rides = with_code.filter(|_| setup.code == Code::Everywhere);
                let code = rides.map(|_| Bytes::from_static(b"a function"));
                return self.hosts[host].node.on_suspended(now, session, Ok((guest.continuation(), code)), 1);
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

    fn reply(&mut self, chain: ChainId, replied: &Replied) {
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
            Replied::Told(_) | Replied::Replies(_) | Replied::Over { .. } => {}
            Replied::End { outcome, .. } => self.ended(chain, outcome),
        }
    }
}

fn number_of(service: &str) -> usize {
    service[1..].parse().unwrap()
}
