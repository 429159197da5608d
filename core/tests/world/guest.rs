//! A tiny interpreter whose continuation is real bytes: what a chain's function is to the world.

use bytes::Bytes;
use catena_core::{GuestCall, GuestSplit, Turn};
use catena_wire::{Exception, Fault, Hash, Value};
use minicbor::{Decode, Encode};

use crate::{
    drawn::mix,
    services::{FUNCTIONS, Target, service_name, value_of, work},
    state::State,
};

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
    /// `await split([async () => .., ..], { at })`: what the branches bring is folded in, whether they returned or threw.
    #[n(11)]
    Split(#[n(0)] Vec<Vec<Op>>, #[n(1)] Option<u8>),
    /// `try { await split([.., ..]) } catch {}` with so many branches, each empty.
    #[n(12)]
    TrySplit(#[n(0)] u32),
    /// `x = new Uint8Array(..)`: from here on its state has so many bytes more.
    #[n(13)]
    Keep(#[n(0)] u32),
    /// `try { await call(..) } catch (why) { held = why }`
    #[n(14)]
    Hold(#[n(0)] Target),
    /// `if (held) throw held`, long after it was caught.
    #[n(15)]
    Rethrow,
    /// `if (held) throw new Error(..)`
    #[n(16)]
    ThrowOwn,
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

/// Whose function it is: the run of the chain that the user began, and which of its sub-chains or branches.
pub(crate) type Who = (u64, u64);
/// What a service function is told: who calls, and the number of the call.
pub(crate) type Params = (u64, u64, u32);
/// What an exception of its own has for programs: whose it is, and whether that was uncertain.
pub(crate) type Thrown = (u64, u64, bool);
/// What a function returns: its results folded, whether it caught an exception that a fault caused, and its emits.
pub(crate) type Returned = (u64, bool, u32);

/// The low bit tells sub-chains, and what belongs to them, from the user's own chain and its branches.
pub(crate) fn of_sub_chain(own: u64) -> bool {
    own & 1 == 1
}

/// The sub-chain that answers this call.
pub(crate) fn sub_chain_of((run, own, call): Params) -> Who {
    (run, mix(own ^ mix(u64::from(call) + 1)) | 1)
}

fn branch_of(own: u64, call: u32, index: u16) -> u64 {
    mix(own ^ mix((u64::from(call) << 20) + u64::from(index) + (1 << 60))) & !1 | own & 1
}

/// Exceptions that programs and services throw themselves; all others come of a fault.
pub(crate) fn is_its_own(name: &str) -> bool {
    matches!(name, "Oops" | "Thrown")
}

/// A running function. All of it travels.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Guest {
    #[n(0)]
    run: u64,
    #[n(1)]
    own: u64,
    /// The splits in whose branches it is: where each stands in the program, and which branch.
    #[n(2)]
    within: Vec<(u32, u16)>,
    #[n(3)]
    pc: u32,
    #[n(4)]
    next_call: u32,
    #[n(5)]
    emits: u32,
    #[n(6)]
    fold: u64,
    #[n(7)]
    caught: bool,
    /// Calls that the statement at `pc` awaits.
    #[n(8)]
    awaited: Vec<u32>,
    /// Results for them.
    #[n(9)]
    got: Vec<(u32, u64)>,
    #[cbor(n(10), with = "minicbor::bytes")]
    kept: Vec<u8>,
    /// What it was told of a call that may have taken effect leaves it uncertain.
    #[n(11)]
    uncertain: bool,
    /// The last exception that it held on to.
    #[n(12)]
    held: Option<Exception>,
    #[n(13)]
    state: State,
}

impl Guest {
    pub(crate) fn begin(input: &Value) -> Self {
        let (run, own) = minicbor::decode(input.as_bytes()).expect("the input says who it is");
        Self { run, own, ..Self::default() }
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

    pub(crate) fn who(&self) -> Who {
        (self.run, self.own)
    }

    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    /// Whether it was told of a call that may have taken effect.
    pub(crate) const fn is_uncertain(&self) -> bool {
        self.uncertain
    }

    /// Whether it caught an exception that came of a fault.
    pub(crate) fn caught(&self) -> bool {
        self.caught
    }

    pub(crate) fn emits(&self) -> u32 {
        self.emits
    }

    /// What it runs: the program, or a branch of a split in it.
    fn ops<'a>(&self, program: &'a [Op]) -> &'a [Op] {
        self.within.iter().fold(program, |ops, (pc, index)| match &ops[*pc as usize] {
            Op::Split(branches, _) => &branches[usize::from(*index)],
            _ => &[],
        })
    }

    /// Becomes a branch of the split that it waits for.
    pub(crate) fn branch(&mut self, program: &[Op], call: u32, index: u16) -> Turn {
        assert_eq!(self.awaited, [call], "it waits for the split and for nothing else");
        self.within.push((self.pc, index));
        self.own = branch_of(self.own, call, index);
        self.fold = mix(self.fold ^ (u64::from(index) + 1));
        // Its parent answers for what its parent was told.
        (self.pc, self.emits, self.caught, self.uncertain) = (0, 0, false, false);
        self.awaited.clear();
        self.turn(program, None)
    }

    /// Runs until it waits or ends.
    pub(crate) fn turn(&mut self, program: &[Op], settled: Option<(u32, Result<Value, Exception>)>) -> Turn {
        let ops = self.ops(program);
        let mut turn = Turn::default();
        if let Some((call, result)) = settled
            && self.awaited.contains(&call)
            && let Err(why) = self.take(ops, call, result)
        {
            turn.end = Some(Err(why));
            return turn;
        }
        while let Some(op) = ops.get(self.pc as usize) {
            if !self.step(op, &mut turn) {
                return turn;
            }
        }
        let returned: Returned = (self.fold, self.caught, self.emits);
        turn.end = Some(Ok(Value::encode(&returned)));
        turn
    }

    /// A result for the statement that awaits it; an error unless it is caught.
    fn take(&mut self, ops: &[Op], call: u32, result: Result<Value, Exception>) -> Result<(), Exception> {
        self.uncertain |= matches!(&result, Err(why) if why.unknown);
        match (result, &ops[self.pc as usize]) {
            (Ok(value), Op::Split(..) | Op::TrySplit(_)) => {
                let folded = self.merged(&value);
                self.got.push((call, folded));
            }
            (Ok(value), _) => {
                let result = self.result(&value);
                self.got.push((call, result));
            }
            (Err(why), op @ (Op::Try(_) | Op::Hold(_) | Op::TrySplit(_))) => {
                self.caught |= !is_its_own(&why.name);
                self.got.push((call, 1));
                self.held = Some(why).filter(|_| matches!(op, Op::Hold(_))).or(self.held.take());
            }
            (Err(why), _) => return Err(why),
        }
        Ok(())
    }

    /// What a service function returned, or a chain in its place.
    fn result(&mut self, value: &Value) -> u64 {
        if let Some(result) = value_of(value) {
            return result;
        }
        let (fold, caught, _): Returned = minicbor::decode(value.as_bytes()).expect("a result");
        self.caught |= caught;
        fold
    }

    /// The outcomes of a split's branches, in their order.
    fn merged(&mut self, value: &Value) -> u64 {
        let mut decoder = minicbor::Decoder::new(value.as_bytes());
        let count = decoder.array().expect("outcomes").expect("so many");
        (0..count).fold(0, |fold, _| {
            assert_eq!(decoder.array().expect("an outcome"), Some(2), "an outcome is a pair");
            let (result, caught) = if decoder.bool().expect("whether it returned") {
                let (result, caught, _): Returned = decoder.decode().expect("what the branch returned");
                (result, caught)
            } else {
                let why: Exception = decoder.decode().expect("what the branch threw");
                self.uncertain |= why.unknown;
                (1, !is_its_own(&why.name))
            };
            self.caught |= caught;
            mix(fold ^ result)
        })
    }

    /// False if it has to wait, or has ended.
    fn step(&mut self, op: &Op, turn: &mut Turn) -> bool {
        match op {
            Op::Call(target) | Op::Try(target) | Op::Hold(target) => return self.wait_for(&[*target], 1, turn),
            Op::Dynamic(services) => {
                let target = work((self.fold % u64::from(*services)) as u8);
                return self.wait_for(&[target], 1, turn);
            }
            Op::All(targets) => return self.wait_for(targets, targets.len(), turn),
            Op::Race(targets) => return self.wait_for(targets, 1, turn),
            Op::Split(branches, at) => return self.split(branches.len() as u32, at.map(service_name), turn),
            Op::TrySplit(count) => return self.split(*count, None, turn),
            Op::Emit => {
                turn.emits.push(Value::encode(&(self.run, self.own, self.emits)));
                self.emits += 1;
            }
            Op::Keep(bytes) => self.kept = vec![7; *bytes as usize],
            Op::Log => turn.logs.push(format!("at {}", self.pc)),
            Op::Throw => return self.throws(turn),
            Op::ThrowOwn if self.held.is_some() => return self.throws(turn),
            Op::Rethrow if self.held.is_some() => {
                turn.end = self.held.take().map(Err);
                return false;
            }
            Op::ThrowOwn | Op::Rethrow => {}
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

    /// An exception of its own, which says whose it is and whether that was uncertain.
    fn throws(&self, turn: &mut Turn) -> bool {
        let whose: Thrown = (self.run, self.own, self.uncertain);
        let why = Exception::new("Thrown", Fault::Guest, "as the program says").with_params(Value::encode(&whose));
        turn.end = Some(Err(why));
        false
    }

    fn wait_for(&mut self, targets: &[Target], enough: usize, turn: &mut Turn) -> bool {
        if self.awaited.is_empty() {
            self.awaited = targets.iter().map(|target| self.issue(*target, turn)).collect();
            return false;
        }
        self.have(enough)
    }

    fn split(&mut self, count: u32, at: Option<String>, turn: &mut Turn) -> bool {
        if self.awaited.is_empty() {
            let call = self.number();
            self.awaited.push(call);
            turn.splits.push(GuestSplit { call, count, at, line: self.pc + 1, column: 1 });
            return false;
        }
        self.have(1)
    }

    /// Goes on if enough has come of what is awaited.
    fn have(&mut self, enough: usize) -> bool {
        if self.got.len() < enough {
            return false;
        }
        if enough == self.awaited.len() {
            self.got.sort_unstable();
            self.fold = self.got.iter().fold(self.fold, |fold, (_, result)| mix(fold ^ *result));
        }
        self.awaited.clear();
        self.got.clear();
        self.state.set(self.run, self.own);
        self.pc += 1;
        true
    }

    fn number(&mut self) -> u32 {
        self.next_call += 1;
        self.next_call - 1
    }

    fn issue(&mut self, target: Target, turn: &mut Turn) -> u32 {
        let call = self.number();
        let params: Params = (self.run, self.own, call);
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
