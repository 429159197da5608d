//! Who and which: nodes, chains, branches, steps, functions.

use alloc::vec::Vec;
use core::fmt;
use minicbor::{Decode, Encode};

use crate::limits::BRANCH_DEPTH_MAX;

/// One run of one node: drawn at random when it starts, so that a restarted node has another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct NodeId(#[n(0)] pub u64);

/// A chain: its origin and the origin's number for it (rpc-chains section 3.9).
///
/// The number is drawn at random: whoever knows it has been told of the chain, since nobody can guess 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(array)]
pub struct ChainId {
    /// The node that began the chain and to which it answers.
    #[n(0)]
    pub origin: NodeId,
    /// Unique at that origin, and unguessable.
    #[cbor(n(1), with = "crate::bytes_codec::number")]
    pub number: u128,
}

impl ChainId {
    /// 64 bits that every node derives alike: the seed of the function's `Math.random`.
    #[must_use]
    pub fn seed(self) -> u64 {
        // Two rounds of the splitmix64 finalizer: neighbouring chains must not share their random numbers.
        let mix = |mut z: u64| {
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let (high, low) = ((self.number >> 64) as u64, self.number as u64);
        mix(mix(self.origin.0 ^ high).wrapping_add(low).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:08x}", self.origin.0 >> 32, (self.number >> 96) as u32 ^ self.number as u32)
    }
}

/// Which branch of a split chain: `74.1.2` is `[1, 2]`; the unsplit chain is empty (rpc-chains section 3.10).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Branch(Vec<u16>);

impl Branch {
    /// The whole chain, before any split.
    #[must_use]
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// The branch of this one with number `child` (from 1), or `None` if that is too deep.
    #[must_use]
    pub fn child(&self, child: u16) -> Option<Self> {
        if self.0.len() == BRANCH_DEPTH_MAX {
            return None;
        }
        let mut parts = self.0.clone();
        parts.push(child);
        Some(Self(parts))
    }

    /// The branch that split into this one; `None` for the whole chain.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (_, before) = self.0.split_last()?;
        Some(Self(before.to_vec()))
    }

    /// Whether it is a branch of `other`, at whatever depth.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.len() > other.0.len() && self.0.starts_with(&other.0)
    }

    /// Its number among its parent's branches; 0 for the whole chain.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.0.last().copied().unwrap_or(0)
    }

    /// The most bytes of memory that it takes beside itself.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        if self.is_root() { 0 } else { BRANCH_DEPTH_MAX * size_of::<u16>() }
    }

    /// Whether this is the whole chain.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| write!(f, ".{part}"))
    }
}

/// As [`Branch`] is shown: `.1.2`, or nothing for the whole chain.
impl core::str::FromStr for Branch {
    type Err = core::num::ParseIntError;

    fn from_str(shown: &str) -> Result<Self, Self::Err> {
        let parts = shown.split('.').skip(1).take(BRANCH_DEPTH_MAX);
        parts.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl<C> Encode<C> for Branch {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.0.as_slice().encode(e, ctx)
    }
}

impl<'b, C> Decode<'b, C> for Branch {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let mut parts = Vec::new();
        for part in d.array_iter::<u16>()? {
            if parts.len() == BRANCH_DEPTH_MAX {
                return Err(minicbor::decode::Error::message("branch too deep"));
            }
            parts.push(part?);
        }
        Ok(Self(parts))
    }
}

/// One step of one branch of one chain: the key of its step record, so that a repeated hop does not run twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(array)]
pub struct StepKey {
    /// The chain.
    #[n(0)]
    pub chain: ChainId,
    /// Its branch.
    #[n(1)]
    pub branch: Branch,
    /// Counts the calls that the chain has made, from 1; 0 is the origin's own turn.
    #[n(2)]
    pub step: u32,
}

impl StepKey {
    /// The first step of this chain: its origin's own turn.
    #[must_use]
    pub const fn first(chain: ChainId) -> Self {
        Self { chain, branch: Branch::root(), step: 0 }
    }
}

/// A BLAKE3 hash, by which something is requested and checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<C> Encode<C> for Hash {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Hash {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes = d.bytes()?;
        bytes.try_into().map(Self).map_err(|_| minicbor::decode::Error::message("a hash has 32 bytes"))
    }
}
