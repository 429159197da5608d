//! What a node says about itself when a link opens.

use alloc::vec::Vec;
use minicbor::{Decode, Encode};

use crate::{NodeRef, ServiceEntry, WireError};

/// The node's part of the link's own greeting, sent before any message.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Hello {
    /// Who it is.
    #[n(0)]
    pub node: NodeRef,
    /// What it serves.
    #[cbor(n(1), with = "crate::bytes_codec::listing")]
    pub services: Vec<ServiceEntry>,
    /// Whether it keeps functions for all nodes.
    #[n(2)]
    pub repository: bool,
}

impl Hello {
    /// The greeting's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Writing to a `Vec` cannot fail.
        let _ = minicbor::encode(self, &mut out);
        out
    }

    /// Reads a greeting.
    ///
    /// # Errors
    /// [`WireError::Head`] if it is not one of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        minicbor::decode(bytes).map_err(|why| WireError::Head(alloc::format!("{why}")))
    }
}
