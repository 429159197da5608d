//! What a function asks of the node that runs it.

use alloc::string::String;

use crate::Value;

/// A call that a function made.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestCall {
    /// The function's number for the call, from 0, by which the call is settled.
    pub call: u32,
    /// The service called.
    pub service: String,
    /// Its function.
    pub function: String,
    /// The parameters.
    pub params: Value,
    /// Line of the call in the function's source, from 1; 0 where unknown.
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
}

/// A split that the function asked for (rpc-chains section 3.10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSplit {
    /// The function's number for the split, counted among its calls: all outcomes are handed in together under it.
    pub call: u32,
    /// How many branches.
    pub count: u32,
    /// The service at whose node the branches merge; `None`: where the function is.
    pub at: Option<String>,
    /// Line of the split in the function's source, from 1; 0 where unknown.
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
}

impl GuestSplit {
    /// How many branches, as far as they can be numbered.
    #[must_use]
    pub fn branches(&self) -> u16 {
        u16::try_from(self.count).unwrap_or(u16::MAX)
    }
}

/// A request for the next replies of a set, that is, of a call that is answered many times; the set has the number of that call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestRead {
    /// The function's number for the request, counted among its calls: the replies are handed in under it.
    pub call: u32,
    /// The number of the call that is answered many times.
    pub set: u32,
}
