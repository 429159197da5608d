//! Results that have arrived and have not been handed to the function.

use alloc::collections::VecDeque;
use catena_wire::{Exception, Value};

type Settled = Result<Value, Exception>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    results: VecDeque<(u32, Settled)>,
    bytes: usize,
}

impl Ready {
    /// Bytes that keeping the results takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    pub(crate) fn has(&self, call: u32) -> bool {
        self.results.iter().any(|(ready, _)| *ready == call)
    }

    pub(crate) fn push(&mut self, call: u32, result: Settled) {
        self.bytes += kept_bytes(&result);
        self.results.push_back((call, result));
    }

    pub(crate) fn pop(&mut self) -> Option<(u32, Settled)> {
        let (call, result) = self.results.pop_front()?;
        self.bytes -= kept_bytes(&result);
        Some((call, result))
    }

    /// The function has forgotten this call.
    pub(crate) fn forget(&mut self, call: u32) {
        let Some(at) = self.results.iter().position(|(ready, _)| *ready == call) else { return };
        if let Some((_, result)) = self.results.remove(at) {
            self.bytes -= kept_bytes(&result);
        }
    }
}

pub(crate) fn kept_bytes(result: &Settled) -> usize {
    size_of::<(u32, Settled)>() + result.as_ref().map_or_else(Exception::kept_bytes, Value::len_bytes)
}

#[cfg(test)]
mod tests {
    use catena_wire::{Fault, names};

    use super::*;

    #[test]
    fn what_is_kept_is_counted_until_it_goes() {
        let mut ready = Ready::default();
        let why = Exception::new(names::OVERLOADED, Fault::Service, "x".repeat(1_000));
        ready.push(1, Ok(Value::encode(&"x".repeat(1_000))));
        ready.push(2, Err(why));
        ready.push(3, Ok(Value::null()));
        assert!(ready.bytes() > 2_000 && ready.has(2));
        ready.forget(2);
        assert!((1_000..2_000).contains(&ready.bytes()) && !ready.has(2));
        assert!(ready.pop().is_some_and(|(call, _)| call == 1) && ready.bytes() < 1_000);
        ready.forget(3);
        assert!(ready.is_empty() && ready.bytes() == 0);
    }
}
