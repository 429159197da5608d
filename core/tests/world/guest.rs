//! A tiny interpreter whose continuation is real bytes: what a chain's function is to the world.

use bytes::Bytes;
use catena_core::{GuestCall, Turn};
use catena_wire::{Exception, Fault, Hash, Value};
use minicbor::{Decode, Encode};

use crate::rng::mix;

/// Which function of which service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Target {
    #[n(0)]
    pub(crate) service: u8,
    #[n(1)]
    pub(crate) function: u8,
}

pub(crate) const FUNCTIONS: [&str; 3] = ["work", "fail", "slow"];
pub(crate) const WORK: u8 = 0;
pub(crate) const FAIL: u8 = 1;
pub(crate) const SLOW: u8 = 2;

pub(crate) fn work(service: u8) -> Target {
    Target { service, function: WORK }
}

pub(crate) fn failing(service: u8) -> Target {
    Target { service, function: FAIL }
}

pub(crate) fn slow(service: u8) -> Target {
    Target { service, function: SLOW }
}

/// One statement of a program.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(crate) enum Op {
    /// `x = await call(..)`
    #[n(0)]
    Call(#[n(0)] Target),
    /// The same, at a service that the last result chooses among the first so many.
    #[n(1)]
    Dynamic(#[n(0)] u8),
    /// `emit(..)`
    #[n(2)]
    Emit,
    /// `log(..)`
    #[n(3)]
    Log,
    /// `await Promise.all([call(..), ..])`
    #[n(4)]
    All(#[n(0)] Vec<Target>),
    /// `await Promise.race([call(..), ..])`: its value is not looked at, since it depends on who is fast.
    #[n(5)]
    Race(#[n(0)] Vec<Target>),
    /// `try { await call(..) } catch { caught = true }`
    #[n(6)]
    Try(#[n(0)] Target),
    /// `throw`
    #[n(7)]
    Throw,
    /// Awaits what nothing settles.
    #[n(8)]
    Stall,
    /// `goto`: for ever, if it goes back.
    #[n(9)]
    Jump(#[n(0)] u32),
    /// `call(..)` without `await`.
    #[n(10)]
    Start(#[n(0)] Target),
}

/// The function's bytes.
pub(crate) fn compile(program: &[Op]) -> Bytes {
    minicbor::to_vec(program.to_vec()).expect("memory").into()
}

/// Not a cryptographic hash: the world has no forgers, only wrong bytes.
pub(crate) fn hash_of(code: &[u8]) -> Hash {
    let mut hash = [0; 32];
    for (lane, chunk) in hash.chunks_mut(8).enumerate() {
        let sum = code.iter().fold(lane as u64 + 1, |sum, byte| mix(sum ^ u64::from(*byte)));
        chunk.copy_from_slice(&sum.to_le_bytes());
    }
    Hash(hash)
}

/// What a service function is told: which run of which program, and which call of it.
pub(crate) type Params = (u64, u32);
/// What a function returns: its results folded, whether it caught an exception that a fault caused, and its emits.
pub(crate) type Returned = (u64, bool, u32);

/// What a service function returns.
pub(crate) fn result_of(service: u8, (run, call): Params) -> u64 {
    mix(mix(run).wrapping_add(u64::from(call)) ^ u64::from(service))
}

pub(crate) fn service_name(service: u8) -> String {
    format!("s{service}")
}

/// A running function. All of it travels.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Guest {
    #[n(0)]
    run: u64,
    #[n(1)]
    pc: u32,
    #[n(2)]
    next_call: u32,
    #[n(3)]
    emits: u32,
    #[n(4)]
    fold: u64,
    #[n(5)]
    caught: bool,
    /// Calls that the statement at `pc` awaits.
    #[n(6)]
    awaited: Vec<u32>,
    /// Results for them.
    #[n(7)]
    got: Vec<(u32, u64)>,
}

impl Guest {
    pub(crate) fn begin(input: &Value) -> Self {
        Self { run: minicbor::decode(input.as_bytes()).expect("the input is the run's number"), ..Self::default() }
    }

    pub(crate) fn continuation(&self) -> Bytes {
        minicbor::to_vec(self).expect("memory").into()
    }

    pub(crate) fn lay_over(continuation: &[u8]) -> Self {
        minicbor::decode(continuation).expect("a continuation arrives as it was taken")
    }

    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// Runs until it waits or ends.
    pub(crate) fn turn(&mut self, program: &[Op], settled: Option<(u32, Result<Value, Exception>)>) -> Turn {
        let mut turn = Turn::default();
        if let Some((call, result)) = settled
            && self.awaited.contains(&call)
            && let Err(why) = self.take(program, call, result)
        {
            turn.end = Some(Err(why));
            return turn;
        }
        while let Some(op) = program.get(self.pc as usize) {
            if !self.step(op, &mut turn) {
                return turn;
            }
        }
        let returned: Returned = (self.fold, self.caught, self.emits);
        turn.end = Some(Ok(Value::encode(&returned)));
        turn
    }

    /// A result for the statement that awaits it; an error unless it is caught.
    fn take(&mut self, program: &[Op], call: u32, result: Result<Value, Exception>) -> Result<(), Exception> {
        match (result, &program[self.pc as usize]) {
            (Ok(value), _) => self.got.push((call, minicbor::decode(value.as_bytes()).expect("a result"))),
            (Err(why), Op::Try(_)) => {
                self.caught |= why.name != "Oops";
                self.got.push((call, 1));
            }
            (Err(why), _) => return Err(why),
        }
        Ok(())
    }

    /// False if it has to wait, or has ended.
    fn step(&mut self, op: &Op, turn: &mut Turn) -> bool {
        match op {
            Op::Call(target) | Op::Try(target) => return self.wait_for(&[*target], 1, turn),
            Op::Dynamic(services) => {
                let target = work((self.fold % u64::from(*services)) as u8);
                return self.wait_for(&[target], 1, turn);
            }
            Op::All(targets) => return self.wait_for(targets, targets.len(), turn),
            Op::Race(targets) => return self.wait_for(targets, 1, turn),
            Op::Emit => {
                turn.emits.push(Value::encode(&(self.run, self.emits)));
                self.emits += 1;
            }
            Op::Log => turn.logs.push(format!("at {}", self.pc)),
            Op::Throw => {
                turn.end = Some(Err(Exception::new("Thrown", Fault::Guest, "as the program says")));
                return false;
            }
            Op::Stall => return false,
            Op::Jump(to) => {
                self.pc = *to;
                return true;
            }
            Op::Start(target) => {
                self.issue(*target, turn);
            }
        }
        self.pc += 1;
        true
    }

    fn wait_for(&mut self, targets: &[Target], enough: usize, turn: &mut Turn) -> bool {
        if self.awaited.is_empty() {
            self.awaited = targets.iter().map(|target| self.issue(*target, turn)).collect();
            return false;
        }
        if self.got.len() < enough {
            return false;
        }
        if enough == self.awaited.len() {
            self.got.sort_unstable();
            self.fold = self.got.iter().fold(self.fold, |fold, (_, result)| mix(fold ^ *result));
        }
        self.awaited.clear();
        self.got.clear();
        self.pc += 1;
        true
    }

    fn issue(&mut self, target: Target, turn: &mut Turn) -> u32 {
        let call = self.next_call;
        self.next_call += 1;
        let params: Params = (self.run, call);
        turn.calls.push(GuestCall {
            call,
            service: service_name(target.service),
            function: FUNCTIONS[usize::from(target.function)].to_string(),
            params: Value::encode(&params),
            line: self.pc + 1,
            column: 1,
        });
        call
    }
}

/// What the program comes to where nothing goes wrong and every call takes no time.
pub(crate) fn expected(program: &[Op], run: u64, hops: u32) -> (Result<Returned, String>, u32) {
    let mut guest = Guest { run, ..Guest::default() };
    let mut queue = std::collections::VecDeque::new();
    let mut turn = guest.turn(program, None);
    let mut left = hops;
    loop {
        for call in turn.calls {
            let Some(less) = left.checked_sub(1) else { return (Err("HopBudgetExceeded".into()), guest.emits) };
            left = less;
            queue.push_back(call);
        }
        match turn.end {
            Some(Ok(value)) => return (Ok(minicbor::decode(value.as_bytes()).expect("returned")), guest.emits),
            Some(Err(why)) => return (Err(why.name), guest.emits),
            None => {}
        }
        let Some(call) = queue.pop_front() else { return (Err("Stalled".into()), guest.emits) };
        let service: u8 = call.service[1..].parse().expect("a service");
        let params: Params = minicbor::decode(call.params.as_bytes()).expect("parameters");
        let result = match call.function.as_str() {
            "fail" => Err(oops()),
            _ => Ok(Value::encode(&result_of(service, params))),
        };
        turn = guest.turn(program, Some((call.call, result)));
    }
}

pub(crate) fn oops() -> Exception {
    Exception::new("Oops", Fault::Service, "as the function does").with_params(Value::encode(&7))
}
