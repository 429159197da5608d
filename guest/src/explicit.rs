//! Explicit state: what a function passes on itself, instead of its memory (rpc-chains, Figure 2; `ABI.md`, "Explicit state").

use bytes::Bytes;
use catena_wire::Value;

use crate::{
    Turn,
    abi::Start,
    continuation::{DIGEST_BYTES, Refusal, take_head},
    error::Stop,
    leb,
};

/// Version of a continuation that carries explicit state.
pub const VERSION_EXPLICIT: u8 = 2;

/// The progress of a function with explicit state.
pub(crate) struct Explicit {
    pub(crate) start: Start,
    /// Calls made so far.
    calls: u32,
    /// State that belongs to the last call.
    state: Option<Bytes>,
}

impl Explicit {
    /// Before the first step.
    pub(crate) const fn new(start: Start) -> Self {
        Self { start, calls: 0, state: None }
    }

    /// The state that was stored for this call.
    pub(crate) fn awaited(&self, call: u32) -> Option<&[u8]> {
        self.state.as_deref().filter(|_| call.checked_add(1) == Some(self.calls))
    }

    /// Numbers a turn's call, and keeps the state that belongs to it.
    pub(crate) fn take_turn(&mut self, turn: &mut Turn, state: Option<Bytes>) -> Result<(), Stop> {
        if !(turn.asks.is_empty() && turn.reads.is_empty() && turn.leaves.is_empty()) {
            return Err(Stop::abi("a step with explicit state reads no replies"));
        }
        match (turn.calls.as_mut_slice(), &state) {
            ([], None) if turn.end.is_some() => {}
            ([call], Some(_)) if turn.end.is_none() => {
                call.call = self.calls;
                self.calls = self.calls.saturating_add(1);
            }
            _ => {
                return Err(Stop::abi("a step with explicit state makes one next event or ends"));
            }
        }
        self.state = state;
        Ok(())
    }

    /// `version | image digest | calls | started_at_ms | seed | state`, or `None` if there is no state.
    pub(crate) fn encode(&self, digest: [u8; DIGEST_BYTES]) -> Option<Bytes> {
        let state = self.state.as_ref()?;
        let mut out = Vec::with_capacity(state.len() + 40);
        out.push(VERSION_EXPLICIT);
        out.extend_from_slice(&digest);
        leb::put(&mut out, self.calls.into());
        leb::put(&mut out, self.start.started_at_ms);
        leb::put(&mut out, self.start.seed);
        out.extend_from_slice(state);
        Some(out.into())
    }

    /// The reverse of [`Explicit::encode`]; checks everything.
    pub(crate) fn decode(digest: [u8; DIGEST_BYTES], bytes: &[u8]) -> Result<Self, Refusal> {
        let mut rest = bytes;
        take_head(&mut rest, VERSION_EXPLICIT, digest)?;
        let fields = (|| {
            let calls = leb::take_u32(&mut rest).filter(|calls| *calls > 0)?;
            Some((calls, leb::take(&mut rest)?, leb::take(&mut rest)?))
        })();
        let malformed = |rest: &[u8]| Refusal::Malformed { at_bytes: bytes.len() - rest.len() };
        let (calls, started_at_ms, seed) = fields.ok_or_else(|| malformed(rest))?;
        let state = Value::from_cbor(Bytes::copy_from_slice(rest)).map_err(|_| malformed(rest))?;
        Ok(Self { start: Start { started_at_ms, seed }, calls, state: Some(state.as_bytes().clone()) })
    }
}

/// Decodes a continuation with explicit state and returns that state, for tests and fuzzing.
///
/// # Errors
/// See [`Refusal`].
pub fn decode_explicit(digest: [u8; DIGEST_BYTES], bytes: &[u8]) -> Result<Value, Refusal> {
    let explicit = Explicit::decode(digest, bytes)?;
    let state = explicit.state.unwrap_or_default();
    Value::from_cbor(state).map_err(|_| Refusal::Malformed { at_bytes: bytes.len() })
}
