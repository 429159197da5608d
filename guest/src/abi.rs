//! The events of the guest ABI and their encoding (`ABI.md`, "In" and "Out").

use bytes::Bytes;
use catena_wire::{Exception, GuestCall, GuestRead, GuestSplit, Value};
use minicbor::{Decoder, Encoder};

/// The only sources of time and randomness that a function has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The chain's start: the only clock there is. Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The only randomness there is, derived from the chain's id.
    pub seed: u64,
}

/// The events that a guest emitted in one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outbox {
    pub(crate) calls: Vec<GuestCall>,
    pub(crate) emits: Vec<Value>,
    pub(crate) logs: Vec<String>,
    pub(crate) splits: Vec<GuestSplit>,
    /// Calls that are answered many times.
    pub(crate) asks: Vec<GuestCall>,
    pub(crate) reads: Vec<GuestRead>,
    /// Sets from which the function wants nothing more.
    pub(crate) leaves: Vec<u32>,
    /// State to be passed to the next step, which handles the call's result (`next`).
    pub(crate) state: Option<Bytes>,
    pub(crate) end: Option<GuestEnd>,
}

/// How a guest's turn ended, if it did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GuestEnd {
    Done(Value),
    Threw(Box<Exception>),
    Limit { limit: String, message: String, line: u32, column: u32 },
    Loaded,
}

/// Why a guest's outbox is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OutboxError {
    #[error("its outbox is not what the guest ABI says: {0}")]
    Malformed(String),
    #[error("more than {max} events in one step")]
    TooMany { max: u32 },
}

impl From<minicbor::decode::Error> for OutboxError {
    fn from(error: minicbor::decode::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

type EncodeResult = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

/// Encodes an event into `out`, which is cleared first.
fn encode(out: &mut Vec<u8>, put: impl FnOnce(&mut Encoder<&mut Vec<u8>>) -> EncodeResult) {
    out.clear();
    // Writing to memory cannot fail.
    let _ = put(&mut Encoder::new(out));
}

fn raw(e: &mut Encoder<&mut Vec<u8>>, item: &[u8]) {
    e.writer_mut().extend_from_slice(item);
}

/// For `catena_start`.
pub(crate) fn put_start(out: &mut Vec<u8>, input: &Value, start: Start, output_bytes_max: u32) {
    encode(out, |e| {
        e.array(4)?;
        raw(e, input.as_bytes());
        e.u64(start.started_at_ms)?.u64(start.seed)?.u32(output_bytes_max)?.ok()
    });
}

/// For `catena_resume`.
pub(crate) fn put_resume(out: &mut Vec<u8>, call: u32, result: Result<&Value, &Exception>, output_bytes_max: u32) {
    encode(out, |e| {
        e.array(4)?.u32(call)?;
        put_result(e, result)?;
        e.u32(output_bytes_max)?.ok()
    });
}

/// For `catena_resume`: begins this branch of a split.
pub(crate) fn put_branch(out: &mut Vec<u8>, call: u32, index: u16, output_bytes_max: u32) {
    encode(out, |e| e.array(4)?.u32(call)?.null()?.u16(index)?.u32(output_bytes_max)?.ok());
}

/// For `catena_step`. `state` is an encoded item, or `None` at the first step.
pub(crate) fn put_step(
    out: &mut Vec<u8>,
    state: Option<&[u8]>,
    result: Result<&Value, &Exception>,
    start: Start,
    output_bytes_max: u32,
) {
    encode(out, |e| {
        e.array(6)?;
        match state {
            Some(state) => raw(e, state),
            None => drop(e.null()?),
        }
        put_result(e, result)?;
        e.u64(start.started_at_ms)?.u64(start.seed)?.u32(output_bytes_max)?.ok()
    });
}

fn put_result(e: &mut Encoder<&mut Vec<u8>>, result: Result<&Value, &Exception>) -> EncodeResult {
    match result {
        Ok(value) => {
            e.bool(true)?;
            raw(e, value.as_bytes());
            Ok(())
        }
        Err(exception) => e.bool(false)?.encode(exception)?.ok(),
    }
}

/// For `catena_load`.
pub(crate) fn put_load(out: &mut Vec<u8>, name: &str, source: &str) {
    encode(out, |e| e.array(2)?.str(name)?.str(source)?.ok());
}

/// Decodes a guest's outbox. `bytes` is copied once; values that are most of it are slices of that copy.
pub(crate) fn read_outbox(bytes: &[u8], events_max: u32) -> Result<Outbox, OutboxError> {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut d = Decoder::new(&bytes);
    let mut outbox = Outbox::default();
    let count = d.array()?;
    let mut seen = 0_u64;
    while match count {
        Some(count) => seen < count,
        None => d.datatype()? != minicbor::data::Type::Break,
    } {
        if seen == u64::from(events_max) {
            return Err(OutboxError::TooMany { max: events_max });
        }
        if outbox.end.is_some() {
            return Err(OutboxError::Malformed("an event follows the function's end".to_owned()));
        }
        outbox.event(&mut d, &bytes)?;
        seen += 1;
    }
    if count.is_none() {
        d.skip()?;
    }
    if d.position() != bytes.len() {
        return Err(OutboxError::Malformed("bytes follow its end".to_owned()));
    }
    Ok(outbox)
}

impl Outbox {
    fn event(&mut self, d: &mut Decoder<'_>, bytes: &Bytes) -> Result<(), OutboxError> {
        let fields = d.array()?;
        let kind = d.u8()?;
        let expected = match kind {
            0 | 9 => 7,
            1..=4 | 11 => 2,
            5 | 6 => 5,
            7 => 1,
            8 => 6,
            10 => 3,
            _ => {
                return Err(OutboxError::Malformed(format!("event {kind} is unknown")));
            }
        };
        if fields != Some(expected) {
            return Err(OutboxError::Malformed(format!("event {kind} has {expected} fields")));
        }
        match kind {
            0 => self.calls.push(call(d, bytes)?),
            1 => self.end = Some(GuestEnd::Done(value(d, bytes)?)),
            2 => self.end = Some(GuestEnd::Threw(Box::new(d.decode()?))),
            3 => self.emits.push(value(d, bytes)?),
            4 => self.logs.push(d.str()?.to_owned()),
            5 => {
                self.end = Some(GuestEnd::Limit {
                    limit: d.str()?.to_owned(),
                    message: d.str()?.to_owned(),
                    line: d.u32()?,
                    column: d.u32()?,
                });
            }
            6 => self.next(d, bytes)?,
            9 => self.asks.push(call(d, bytes)?),
            10 => self.reads.push(GuestRead { call: d.u32()?, set: d.u32()? }),
            11 => self.leaves.push(d.u32()?),
            8 => self.splits.push(GuestSplit {
                call: d.u32()?,
                count: d.u32()?,
                at: d.decode()?,
                line: d.u32()?,
                column: d.u32()?,
            }),
            _ => self.end = Some(GuestEnd::Loaded),
        }
        Ok(())
    }

    fn next(&mut self, d: &mut Decoder<'_>, bytes: &Bytes) -> Result<(), OutboxError> {
        if self.state.is_some() {
            return Err(OutboxError::Malformed("two next events".to_owned()));
        }
        self.calls.push(GuestCall {
            // The session numbers these.
            call: 0,
            service: d.str()?.to_owned(),
            function: d.str()?.to_owned(),
            params: value(d, bytes)?,
            line: 0,
            column: 0,
        });
        self.state = Some(value(d, bytes)?.as_bytes().clone());
        Ok(())
    }
}

fn call(d: &mut Decoder<'_>, bytes: &Bytes) -> Result<GuestCall, OutboxError> {
    Ok(GuestCall {
        call: d.u32()?,
        service: d.str()?.to_owned(),
        function: d.str()?.to_owned(),
        params: value(d, bytes)?,
        line: d.u32()?,
        column: d.u32()?,
    })
}

/// The next item. A slice keeps all of `bytes` in memory, and whoever holds a value counts the value's own bytes alone: so only a value that is at least half
/// of `bytes` is a slice, and others are copies.
fn value(d: &mut Decoder<'_>, bytes: &Bytes) -> Result<Value, OutboxError> {
    let start = d.position();
    d.skip()?;
    let item = start..d.position();
    let item = match item.len() >= bytes.len() / 2 {
        true => bytes.slice(item),
        false => Bytes::copy_from_slice(bytes.get(item).unwrap_or_default()),
    };
    Value::from_cbor(item).map_err(|error| OutboxError::Malformed(format!("a value is {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn outbox(put: impl FnOnce(&mut Encoder<&mut Vec<u8>>) -> EncodeResult) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, put);
        out
    }

    #[test]
    fn events_are_read_in_order() {
        let bytes = outbox(|e| {
            e.array(4)?;
            e.array(2)?.u8(4)?.str("hello")?;
            e.array(7)?.u8(0)?.u32(3)?.str("a.b")?.str("f")?.u8(9)?.u32(2)?.u32(5)?;
            e.array(2)?.u8(3)?.bool(true)?;
            e.array(2)?.u8(1)?.array(1)?.str("x")?.ok()
        });
        let outbox = read_outbox(&bytes, 4).unwrap();
        assert_eq!(outbox.logs, ["hello"]);
        assert_eq!(outbox.calls[0].params, Value::encode(&9_u8));
        assert_eq!((outbox.calls[0].call, outbox.calls[0].line), (3, 2));
        assert_eq!(outbox.emits, [Value::encode(&true)]);
        assert_eq!(outbox.end, Some(GuestEnd::Done(Value::encode(&["x"]))));
        assert_eq!(read_outbox(&bytes, 3), Err(OutboxError::TooMany { max: 3 }));
    }

    #[test]
    fn a_small_value_does_not_keep_a_large_outbox() {
        let bytes = outbox(|e| {
            e.array(2)?;
            e.array(2)?.u8(3)?.bool(true)?;
            e.array(2)?.u8(3)?.str(&"x".repeat(1_000))?.ok()
        });
        let emits = read_outbox(&bytes, 2).unwrap().emits;
        let [small, large] = [0, 1].map(|at: usize| emits[at].as_bytes().clone());
        drop(emits);
        assert!(small.try_into_mut().unwrap().capacity() < 100);
        assert!(large.try_into_mut().unwrap().capacity() >= 1_000);
    }

    #[test]
    fn nothing_follows_an_end() {
        let bytes = outbox(|e| {
            e.array(2)?;
            e.array(2)?.u8(1)?.null()?;
            e.array(2)?.u8(4)?.str("late")?.ok()
        });
        let error = read_outbox(&bytes, 9).unwrap_err().to_string();
        assert!(error.contains("follows the function's end"), "{error}");
    }

    proptest! {
        #[test]
        fn any_outbox_is_read_or_refused(bytes: Vec<u8>) {
            if read_outbox(&bytes, 100).is_ok() {
                let longer = [&bytes[..], &[0]].concat();
                prop_assert!(read_outbox(&longer, 100).is_err(), "what follows it is not seen");
            }
        }
    }
}
