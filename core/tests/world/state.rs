//! What a chain's function keeps under names (rpc-chains section 3.3), such that each value says itself whether it is the right one.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode, bytes::ByteVec};

use crate::drawn::mix;

/// Names used in turn, so that each is overwritten again and again.
const NAMES: u32 = 4;

/// Names and values. All of it travels.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub(crate) struct State {
    /// How often a value was set.
    #[n(0)]
    set: u32,
    #[n(1)]
    values: BTreeMap<String, ByteVec>,
}

impl State {
    /// One more value, under the name whose turn it is.
    pub(crate) fn set(&mut self, run: u64, own: u64) {
        self.values.insert(name(self.set), value(run, own, self.set).into());
        self.set += 1;
    }

    /// Whether these are the names that it must have, each with the last value that was set, by this run.
    pub(crate) fn check(&self, run: u64) -> Result<(), String> {
        let last = self.set.saturating_sub(NAMES)..self.set;
        if self.values.len() != last.len() {
            return Err(format!("{} names where there must be {}", self.values.len(), last.len()));
        }
        for number in last {
            let found = self.values.get(&name(number)).ok_or_else(|| format!("{} is missing", name(number)))?;
            let (_, own, _): (u64, u64, u32) = minicbor::decode(found).map_err(|why| why.to_string())?;
            if **found != value(run, own, number) {
                return Err(format!("{} is {found:?}, which is not its value number {number}", name(number)));
            }
        }
        Ok(())
    }
}

fn name(number: u32) -> String {
    // A name that is empty, and one that is more than ASCII.
    ["", "a", "größe", "a longer name, with blanks"][(number % NAMES) as usize].to_owned()
}

/// Who set it, and when; then bytes that depend on that, some times none.
fn value(run: u64, own: u64, number: u32) -> Vec<u8> {
    let mut bytes = minicbor::to_vec((run, own, number)).expect("memory");
    let more = mix(run ^ own ^ u64::from(number));
    bytes.extend(more.to_le_bytes().into_iter().take((more % 9) as usize));
    bytes
}
