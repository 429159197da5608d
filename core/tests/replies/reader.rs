//! Calls that are made, and read, by functions at host 0.

use catena_core::{GuestAsk, GuestCall, GuestRead, Missing, Plan, Replied, SessionId, Turn};
use catena_wire::{Branch, Budget, Exception, Fault, Hash, Outcome, Value, names};

use crate::{
    tree::Tree,
    world::{Setup, World},
};

/// The guest's number for its set: that of its first call.
const SET: u32 = 0;

/// A function that makes one call, and reads its replies until they end.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    session: SessionId,
    /// Which call it is.
    number: usize,
    /// The guest's number for its next read.
    next: u32,
    /// It has been told something, and has done nothing about it yet.
    runs: bool,
}

impl World {
    /// A chain begins whose function makes this call.
    pub(crate) fn begin_function(&mut self, number: u128, budget: Budget) -> catena_wire::ChainId {
        self.hosts[0].node.run(self.now, number, Hash([7; 32]), Value::null(), Plan::new(budget)).unwrap()
    }

    pub(crate) fn function_begins(&mut self, setup: &Setup, session: SessionId) {
        let number = self.functions.len();
        let tree = &setup.calls[number];
        self.functions.push(Function { session, number, next: SET + 1, runs: true });
        let (service, function, params) = (format!("s{}", tree.host), "f".to_owned(), Value::encode(tree));
        let call = GuestCall { call: SET, service, function, params, line: 0, column: 0 };
        let ask = GuestAsk { number: 1_000 + number as u128, call };
        self.turn(setup, session, Turn { asks: vec![ask], ..Turn::default() });
    }

    fn turn(&mut self, setup: &Setup, session: SessionId, turn: Turn) {
        self.functions.iter_mut().filter(|function| function.session == session).for_each(|one| one.runs = false);
        let now = self.now;
        self.hosts[0].node.on_turn(now, session, Ok(turn), 1);
        self.drain(setup, 0);
    }

    /// What comes is handed in.
    pub(crate) fn function_told(&mut self, setup: &Setup, session: SessionId, told: Result<Value, Exception>) {
        let Some(function) = self.functions.iter_mut().find(|function| function.session == session) else {
            self.wrong = Some(format!("{session:?}, which is gone, is told {told:?}"));
            return;
        };
        function.runs = true;
        let number = function.number;
        let (replies, over) = match told {
            Ok(told) => decode(&setup.calls[number], &told),
            Err(why) => (Vec::new(), Some((Vec::new(), Some(why)))),
        };
        let seen = &mut self.calls[number].1;
        if !seen.is_open() {
            self.wrong = Some(format!("{session:?} is told {replies:?} after the end"));
        }
        for (branch, count) in replies {
            seen.replies.entry(branch).or_default().push(count);
        }
        if let Some(over) = over {
            seen.ends.push(over);
            return self.turn(setup, session, Turn { end: Some(Ok(Value::null())), ..Turn::default() });
        }
        seen.unread = 1;
        if !setup.lazy {
            self.function_reads(setup, number);
        }
    }

    pub(crate) fn function_reads(&mut self, setup: &Setup, number: usize) {
        self.calls[number].1.unread = 0;
        let function = &mut self.functions[number];
        let (session, call) = (function.session, function.next);
        function.next += 1;
        self.turn(setup, session, Turn { reads: vec![GuestRead { call, set: SET }], ..Turn::default() });
    }

    /// It stops early if it can, or is stopped; or nobody wants it any more.
    pub(crate) fn stop_function(&mut self, setup: &Setup, number: usize, forget: bool) {
        let (now, chain, function) = (self.now, self.calls[number].0, self.functions[number].clone());
        if forget {
            self.calls[number].1.forgotten = true;
            self.hosts[0].node.forget(now, chain);
            self.drain(setup, 0);
        } else if function.runs {
            let why = Exception::new(names::CANCELLED, Fault::Guest, "it stops early");
            (self.calls[number].1.ends, self.calls[number].1.unread) = (vec![(Vec::new(), Some(why))], 0);
            // It goes on with something else, which takes as long as it takes: that ends nothing of the set.
            let leaves = vec![SET];
            let call = GuestCall {
                call: function.next,
                service: "s0".to_owned(),
                function: "nobody".to_owned(),
                params: Value::null(),
                line: 0,
                column: 0,
            };
            self.turn(setup, function.session, Turn { leaves, calls: vec![call], ..Turn::default() });
        } else {
            self.hosts[0].node.cancel(now, chain);
            self.drain(setup, 0);
        }
    }

    /// What the user of such a chain hears.
    pub(crate) fn function_ended(&mut self, number: usize, replied: Replied) {
        let seen = &mut self.calls[number].1;
        if let Replied::End { outcome: Outcome::Threw(why), .. } = replied
            && seen.ends.is_empty()
        {
            seen.ends.push((Vec::new(), Some(why)));
            seen.unread = 0;
        }
    }

    /// Whether it was stopped early: what it goes on with settles.
    pub(crate) fn has_stopped(&self, session: SessionId) -> Option<usize> {
        let function = self.functions.iter().find(|function| function.session == session)?;
        (!self.calls[function.number].1.is_open()).then_some(function.number)
    }

    pub(crate) fn end_function(&mut self, setup: &Setup, session: SessionId) {
        self.turn(setup, session, Turn { end: Some(Ok(Value::null())), ..Turn::default() });
    }
}

type Over = (Vec<Missing>, Option<Exception>);

/// `[replies, over]`, as the guest ABI has it. A function is told services, not rights: each right of that service counts as named.
fn decode(tree: &Tree, told: &Value) -> (Vec<(Branch, u32)>, Option<Over>) {
    let mut d = minicbor::Decoder::new(told.as_bytes());
    assert_eq!(d.array().unwrap(), Some(2));
    let mut replies = Vec::new();
    for _ in 0..d.array().unwrap().unwrap() {
        let (parts, number) = d.decode::<(Vec<u16>, u32)>().unwrap();
        let branch = parts.into_iter().fold(Branch::root(), |branch, part| branch.child(part).unwrap());
        replies.push((branch, number));
    }
    if d.datatype().unwrap() == minicbor::data::Type::Null {
        return (replies, None);
    }
    assert_eq!(d.array().unwrap(), Some(3));
    let mut missing: Vec<Missing> = Vec::new();
    for _ in 0..d.array().unwrap().unwrap() {
        let (target, node, why) = d.decode::<(String, Option<String>, Exception)>().unwrap();
        let named = tree.rights().into_iter().filter(|(_, right)| format!("s{}/f", right.host) == target);
        let one = |branch| Missing { branch, target: target.clone(), node: node.clone(), why: why.clone() };
        // Of a right without a name it is known only that there is one.
        let unnamed = target.is_empty().then(Branch::root);
        missing.extend(named.map(|(branch, _)| branch).chain(unnamed).map(one));
    }
    let why: Option<Exception> = d.decode().unwrap();
    assert_eq!(
        why.is_none(),
        missing.is_empty() && !d.probe().bool().unwrap(),
        "an end that is not complete has its reason"
    );
    let failure = if d.bool().unwrap() { why } else { None };
    (replies, Some((missing, failure)))
}
