//! What a plan is, and how it is written.

use catena_guest_sdk::Raw;
use minicbor::{Decode, Decoder, decode};

/// One thing to do. In CBOR an array: the name of what to do, then its parts.
pub enum Plan {
    /// `["value", any]`: nothing but this result.
    Value(Raw),
    /// `["call", "service/function", any]`: the call's result.
    Call(String, Raw),
    /// `["tell", "service/function", any]`: a call that answers nothing; null.
    Tell(String, Raw),
    /// `["ask", "service/function", any]`: a call that answers a number, or nothing; that, or null.
    Ask(String, Raw),
    /// `["seq", [plan, ...]]`: one after the other; their results.
    Seq(Vec<Plan>),
    /// `["all", [plan, ...]]`: side by side; their results, or the first failure.
    All(Vec<Plan>),
    /// `["race", [plan, ...]]`: side by side; what the quickest comes to.
    Race(Vec<Plan>),
    /// `["split", service | null, settled, [plan, ...]]`: in branches, that merge at the service's node; their results, or, `settled`,
    /// what each came to, as for `catch`.
    Split(Option<String>, bool, Vec<Plan>),
    /// `["catch", plan]`: `["done", result]` or `["threw", "name: message"]`.
    Catch(Box<Plan>),
    /// `["guarded", any, plan]`: the plan's result; the value is emitted when it ends or is given up.
    Guarded(Raw, Box<Plan>),
    /// `["start", name, "service/function", any]`: a call that is not awaited yet; null.
    Start(String, String, Raw),
    /// `["await", name]`: the result of the call started by this name.
    Await(String),
    /// `["add", n]`: adds to a number that the whole function shares; its value then.
    Add(i64),
    /// `["emit", any]`: an intermediate answer; null.
    Emit(Raw),
    /// `["log", text]`: a line of the console; null.
    Log(String),
    /// `["seed"]`: the function's randomness.
    Seed,
    /// `["throw", name, message]`: an exception.
    Throw(String, String),
    /// `["panic", message]`: a fault of the program.
    Panic(String),
}

impl<'b, C> Decode<'b, C> for Plan {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        d.array()?.ok_or_else(|| decode::Error::message("an array of definite length is expected"))?;
        Ok(match d.str()? {
            "value" => Self::Value(d.decode_with(ctx)?),
            "call" => Self::Call(d.decode()?, d.decode_with(ctx)?),
            "tell" => Self::Tell(d.decode()?, d.decode_with(ctx)?),
            "ask" => Self::Ask(d.decode()?, d.decode_with(ctx)?),
            "seq" => Self::Seq(d.decode_with(ctx)?),
            "all" => Self::All(d.decode_with(ctx)?),
            "race" => Self::Race(d.decode_with(ctx)?),
            "split" => Self::Split(d.decode()?, d.bool()?, d.decode_with(ctx)?),
            "catch" => Self::Catch(Box::new(Self::decode(d, ctx)?)),
            "guarded" => Self::Guarded(d.decode_with(ctx)?, Box::new(Self::decode(d, ctx)?)),
            "start" => Self::Start(d.decode()?, d.decode()?, d.decode_with(ctx)?),
            "await" => Self::Await(d.decode()?),
            "add" => Self::Add(d.i64()?),
            "emit" => Self::Emit(d.decode_with(ctx)?),
            "log" => Self::Log(d.decode()?),
            "seed" => Self::Seed,
            "throw" => Self::Throw(d.decode()?, d.decode()?),
            "panic" => Self::Panic(d.decode()?),
            other => return Err(decode::Error::message(format!("no plan begins with {other:?}"))),
        })
    }
}
