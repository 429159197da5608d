//! What the services of the world do: they return values, fail, take their time, or answer with chains.

use catena_core::{Answer, SubChain};
use catena_wire::{Exception, Fault, Kinds, Value};
use minicbor::{Decode, Encode};

use crate::{
    drawn::mix,
    guest::{Op, Params, Returned, compile, hash_of, is_its_own, sub_chain_of},
};

/// Which function of which service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Target {
    #[n(0)]
    pub(crate) service: u8,
    #[n(1)]
    pub(crate) function: u8,
}

pub(crate) const FUNCTIONS: [&str; 16] = [
    "work",
    "fail",
    "slow",
    "chain",
    "caught",
    "throws",
    "hears",
    "nested",
    "forever",
    "recover",
    "forks",
    "quiet",
    "twice",
    "keeps",
    "replicate",
    "uncertain",
];
const WORK: u8 = 0;
const FAIL: u8 = 1;
const SLOW: u8 = 2;
/// Answers with a chain that calls two services.
pub(crate) const CHAIN: u8 = 3;
/// Answers with a chain that throws, and has a function that catches it.
pub(crate) const CAUGHT: u8 = 4;
/// Answers with a chain that throws, and catches nothing.
pub(crate) const THROWS: u8 = 5;
/// Answers with a chain whose intermediate answers it wants.
pub(crate) const HEARS: u8 = 6;
/// Answers with a chain that calls a service that answers with a chain.
pub(crate) const NESTED: u8 = 7;
/// Answers with a chain that calls the same function.
pub(crate) const FOREVER: u8 = 8;
/// Answers with a chain that splits, and wants the intermediate answers of it and of its branches.
pub(crate) const FORKS: u8 = 10;
/// Answers with a chain whose intermediate answers nobody wants.
pub(crate) const QUIET: u8 = 11;
/// Answers with a chain that calls the same function twice, whatever comes of it.
pub(crate) const TWICE: u8 = 12;
/// Its steps outlive its node.
const KEEPS: u8 = 13;
/// Answers with a chain that does something here, and then the same at the next service: primary and backup.
pub(crate) const REPLICATE: u8 = 14;
/// Answers with a chain that catches what may have taken effect, goes on, and throws an exception of its own.
pub(crate) const UNCERTAIN: u8 = 15;
/// Those that answer with chains, and end.
pub(crate) const SUB_CHAINS: [u8; 9] = [CHAIN, CAUGHT, THROWS, HEARS, NESTED, FORKS, QUIET, REPLICATE, UNCERTAIN];

pub(crate) const fn at(service: u8, function: u8) -> Target {
    Target { service, function }
}

pub(crate) const fn work(service: u8) -> Target {
    at(service, WORK)
}

pub(crate) const fn failing(service: u8) -> Target {
    at(service, FAIL)
}

pub(crate) const fn slow(service: u8) -> Target {
    at(service, SLOW)
}

pub(crate) const fn durable(service: u8) -> Target {
    at(service, KEEPS)
}

/// Whether it does something by itself: a refusal does not, and a function that answers with a chain leaves that to the chain.
pub(crate) const fn is_effect(target: &Target) -> bool {
    matches!(target.function, WORK | SLOW | KEEPS)
}

pub(crate) fn target_of(service: &str, function: &str) -> Target {
    let function = FUNCTIONS.iter().position(|known| *known == function).expect("a function");
    at(number_of(service), u8::try_from(function).expect("few functions"))
}

pub(crate) fn service_name(service: u8) -> String {
    format!("s{service}")
}

pub(crate) fn number_of(service: &str) -> u8 {
    service[1..].parse().expect("a service")
}

/// Functions that may be done again, at services that say so.
pub(crate) fn repeatable_functions() -> Vec<String> {
    ["work", "slow", "fail"].map(String::from).to_vec()
}

/// What a service says of its functions, if those of these services may be done again.
pub(crate) fn kinds_of(service: u8, repeatable: &[u8]) -> Kinds {
    let repeatable = if repeatable.contains(&service) { repeatable_functions() } else { Vec::new() };
    Kinds { repeatable, ..kinds() }
}

pub(crate) fn kinds() -> Kinds {
    let chaining =
        SUB_CHAINS.iter().chain([&FOREVER, &TWICE]).map(|function| FUNCTIONS[usize::from(*function)].to_owned());
    Kinds { chaining: chaining.collect(), durable: vec!["keeps".into()], ..Kinds::default() }
}

/// The program of the chain with which this function answers, if it does, where there are so many services.
pub(crate) fn program_of(service: u8, function: &str, services: u8) -> Option<Vec<Op>> {
    let next = |n: u8| (service + n) % services.max(1);
    Some(match function {
        "chain" => vec![Op::Call(work(next(1))), Op::Log, Op::Call(work(next(2)))],
        "caught" => vec![Op::Call(work(next(1))), Op::Log, Op::Throw],
        "throws" => vec![Op::Call(work(next(1))), Op::Log, Op::Call(failing(next(2)))],
        "hears" | "quiet" => {
            vec![Op::Emit, Op::Call(work(next(1))), Op::Emit, Op::Emit, Op::Call(work(next(2))), Op::Emit]
        }
        "replicate" => vec![Op::Call(work(service)), Op::Call(work(next(1)))],
        "uncertain" => vec![Op::Hold(work(next(1))), Op::Call(work(next(2))), Op::ThrowOwn],
        "nested" => vec![Op::Call(at(next(1), CHAIN)), Op::Call(work(next(2)))],
        "twice" => vec![Op::Try(at(service, TWICE)), Op::Try(at(service, TWICE))],
        "forever" => vec![Op::Call(at(service, FOREVER))],
        "forks" => {
            let branch = |n| vec![Op::Emit, Op::Call(work(next(n))), Op::Emit];
            vec![Op::Emit, Op::Split(vec![branch(1), branch(2)], None), Op::Emit]
        }
        _ => return None,
    })
}

/// What a function of a service answers.
pub(crate) fn answer(service: u8, function: &str, params: &Value, services: u8) -> Result<Answer, Exception> {
    if function == "recover" {
        let why: Exception = minicbor::decode(params.as_bytes()).expect("an exception");
        return Ok(Answer::Value(Value::encode(&recovered(&why.name))));
    }
    let params: Params = minicbor::decode(params.as_bytes()).expect("parameters");
    if let Some(program) = program_of(service, function, services) {
        return Ok(Answer::Chain(SubChain {
            number: 0,
            code: hash_of(&compile(&program)),
            input: Value::encode(&sub_chain_of(params)),
            catch: (function == "caught").then(|| "recover".into()),
            hears: matches!(function, "hears" | "forks"),
        }));
    }
    match function {
        "fail" => Err(oops()),
        _ => Ok(Answer::Value(Value::encode(&result_of(service, params)))),
    }
}

/// The same answer; a chain under this number.
pub(crate) fn numbered(answer: Answer, number: u128) -> Answer {
    match answer {
        Answer::Chain(sub) => Answer::Chain(SubChain { number, ..sub }),
        value => value,
    }
}

/// The same result with so many bytes besides.
pub(crate) fn enlarged(answer: Answer, bytes: u32) -> Answer {
    match answer {
        Answer::Value(value) if bytes > 0 => {
            let result: u64 = minicbor::decode(value.as_bytes()).expect("a number");
            Answer::Value(Value::encode(&(result, minicbor::bytes::ByteVec::from(vec![7; bytes as usize]))))
        }
        answer => answer,
    }
}

/// What a service function returns.
pub(crate) fn result_of(service: u8, (run, own, call): Params) -> u64 {
    mix(mix(run ^ own).wrapping_add(u64::from(call)) ^ u64::from(service))
}

/// The result in what a function of a service returned.
pub(crate) fn value_of(value: &Value) -> Option<u64> {
    let enlarged = || minicbor::decode::<(u64, minicbor::bytes::ByteVec)>(value.as_bytes()).map(|(result, _)| result);
    minicbor::decode(value.as_bytes()).or_else(|_| enlarged()).ok()
}

/// What the catching function answers in the place of a chain that threw.
pub(crate) fn recovered(name: &str) -> Returned {
    (77, !is_its_own(name), 0)
}

pub(crate) fn oops() -> Exception {
    Exception::new("Oops", Fault::Service, "as the function does").with_params(Value::encode(&7))
}
