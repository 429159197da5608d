//! A chain's function in the model: a list of things to do, whose continuation is a few bytes.

use bytes::Bytes;
use catena_core::{GuestCall, GuestSplit, Turn};
use catena_wire::{Exception, Fault, Value};
use minicbor::{Decode, Encode};

/// How a function ends that was handed anything but its branches' results.
pub(crate) const WRONG_MERGE: &str = "WrongMerge";
/// How one ends that caught an exception, went on, and throws; and how, if that was one of an outcome that is unknown.
pub(crate) const THROWN: &str = "Thrown";
pub(crate) const THROWN_UNCERTAIN: &str = "ThrownUncertain";

/// One statement.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(crate) enum Op {
    /// `await call(service)`
    #[n(0)]
    Call(#[n(0)] u8),
    /// `emit(..)`
    #[n(1)]
    Emit,
    /// `await split([...])`
    #[n(2)]
    Split(#[n(0)] Vec<Vec<Op>>),
    /// `await call(service)`, which answers with a chain.
    #[n(3)]
    Sub(#[n(0)] u8, #[n(1)] Vec<Op>),
    /// `console.log(..)`
    #[n(4)]
    Log,
    /// `try { await call(service) } catch { caught = true }`
    #[n(5)]
    Try(#[n(0)] u8),
    /// `if (caught) throw new Error(..)`
    #[n(6)]
    ThrowIfCaught,
    /// `await split([...], { at: service })`
    #[n(7)]
    SplitAt(#[n(0)] u8, #[n(1)] Vec<Vec<Op>>),
}

/// A running function: which list, and how far. All of it travels.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Guest {
    /// Which run this is: a chain's number, or a sub-chain's own.
    #[n(0)]
    run: u64,
    #[n(1)]
    todo: Vec<Op>,
    #[n(2)]
    calls: u32,
    /// Told apart from the other branches.
    #[n(3)]
    branch: u32,
    /// The name of what it throws, since it caught an exception.
    #[n(4)]
    caught: Option<String>,
}

/// A call's parameters: which call of which run it is, so that its effects can be counted; and what to answer with.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Params {
    #[n(0)]
    pub(crate) run: u64,
    #[n(1)]
    pub(crate) call: u32,
    #[n(2)]
    pub(crate) sub: Option<Vec<Op>>,
}

/// The input of a function.
pub(crate) type Input = (u64, Vec<Op>);

impl Guest {
    pub(crate) fn begin(input: &Value) -> Self {
        let (run, todo): Input = minicbor::decode(input.as_bytes()).unwrap();
        Self { run, todo, ..Self::default() }
    }

    pub(crate) fn lay_over(continuation: &[u8]) -> Self {
        minicbor::decode(continuation).unwrap()
    }

    pub(crate) fn continuation(&self) -> Bytes {
        minicbor::to_vec(self).unwrap().into()
    }

    /// Goes on in one branch of the split at which it stands.
    pub(crate) fn branch(&mut self, index: u16) -> Turn {
        let (Op::Split(branches) | Op::SplitAt(_, branches)) = self.todo.remove(0) else {
            panic!("it stands at a split")
        };
        self.todo = branches[usize::from(index)].clone();
        self.branch = self.branch * 8 + u32::from(index) + 1;
        self.turn(None)
    }

    /// Runs until it waits or ends.
    pub(crate) fn turn(&mut self, settled: Option<Result<Value, Exception>>) -> Turn {
        let mut turn = Turn::default();
        match settled {
            None => {}
            Some(Err(why)) if matches!(self.todo.first(), Some(Op::Try(_))) => {
                self.todo.remove(0);
                let uncertain = why.unknown || self.caught.as_deref() == Some(THROWN_UNCERTAIN);
                self.caught = Some(if uncertain { THROWN_UNCERTAIN } else { THROWN }.to_owned());
            }
            Some(Err(why)) => {
                turn.end = Some(Err(why));
                return turn;
            }
            Some(Ok(value)) => {
                if let Op::Split(branches) | Op::SplitAt(_, branches) = self.todo.remove(0)
                    && let Err(why) = self.check_merge(branches.len(), &value)
                {
                    turn.end = Some(Err(why));
                    return turn;
                }
            }
        }
        while let Some(op @ (Op::Emit | Op::Log | Op::ThrowIfCaught)) = self.todo.first() {
            match (op, &self.caught) {
                (Op::Emit, _) => turn.emits.push(Value::encode(&self.run)),
                (Op::Log, _) => turn.logs.push(String::from("said")),
                (_, Some(name)) => {
                    turn.end = Some(Err(Exception::new(name, Fault::Guest, "as the program says")));
                    return turn;
                }
                _ => {}
            }
            self.todo.remove(0);
        }
        let call = self.branch * 100 + self.calls;
        self.calls += 1;
        match self.todo.first() {
            None => turn.end = Some(Ok(Value::encode(&self.branch))),
            Some(Op::Split(branches)) => turn.splits.push(split(call, branches, None)),
            Some(Op::SplitAt(service, branches)) => turn.splits.push(split(call, branches, Some(*service))),
            Some(Op::Call(service) | Op::Try(service)) => turn.calls.push(self.call(call, *service, None)),
            Some(Op::Sub(service, todo)) => turn.calls.push(self.call(call, *service, Some(todo.clone()))),
            Some(Op::Emit | Op::Log | Op::ThrowIfCaught) => unreachable!("those are done"),
        }
        turn
    }

    /// Each branch returns its number: those of all, in their order. One that threw, throws here.
    fn check_merge(&self, branches: usize, value: &Value) -> Result<(), Exception> {
        let wrong = || Exception::new(WRONG_MERGE, Fault::Guest, "not the branches' results, in their order");
        let mut d = minicbor::Decoder::new(value.as_bytes());
        if d.array().ok().flatten() != Some(branches as u64) {
            return Err(wrong());
        }
        for index in 0..branches {
            let _ = d.array();
            match d.bool() {
                Ok(true) if d.u32().ok() == Some(self.branch * 8 + index as u32 + 1) => {}
                Ok(false) => return Err(d.decode().unwrap()),
                _ => return Err(wrong()),
            }
        }
        Ok(())
    }

    fn call(&self, call: u32, service: u8, sub: Option<Vec<Op>>) -> GuestCall {
        let params = Value::encode(&Params { run: self.run, call, sub });
        let (service, function) = (service_name(service), "f".to_owned());
        GuestCall { call, service, function, params, line: 0, column: 0 }
    }
}

pub(crate) fn service_name(service: u8) -> String {
    format!("s{service}")
}

/// How many intermediate answers a program sends to its origin.
pub(crate) fn emits(program: &[Op]) -> usize {
    let of = |op: &Op| match op {
        Op::Emit => 1,
        Op::Split(branches) | Op::SplitAt(_, branches) => branches.iter().map(|branch| emits(branch)).sum(),
        Op::Call(_) | Op::Try(_) | Op::ThrowIfCaught | Op::Sub(..) | Op::Log => 0,
    };
    program.iter().map(of).sum()
}

/// How many answers of sub-chains their services hear.
pub(crate) fn heard(program: &[Op]) -> usize {
    let of = |op: &Op| if let Op::Sub(_, todo) = op { emits(todo) } else { 0 };
    program.iter().map(of).sum()
}

fn split(call: u32, branches: &[Vec<Op>], at: Option<u8>) -> GuestSplit {
    let (count, at) = (u32::try_from(branches.len()).unwrap(), at.map(service_name));
    GuestSplit { call, count, at, line: 0, column: 0 }
}

/// How many lines a program without branches says.
pub(crate) fn lines(program: &[Op]) -> usize {
    program.iter().filter(|op| **op == Op::Log).count()
}
