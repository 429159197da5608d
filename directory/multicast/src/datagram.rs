//! The messages on the local network: each is one CBOR datagram, bounded.

use minicbor::{Decode, Decoder, Encode};

/// Longest datagram, in bytes: small enough not to be fragmented on any Ethernet.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 1_400;
/// Longest name of a service.
pub(crate) const NAME_BYTES_MAX: usize = 256;
/// Longest address.
const ADDRESS_BYTES_MAX: usize = 256;
/// Services in one datagram.
const ENTRIES_MAX: usize = 64;
/// Marks a datagram as one of ours, of this version.
const MAGIC: u32 = 0xca7e_4a01;

/// One datagram.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(crate) enum Datagram {
    /// Who serves these?
    #[n(0)]
    Ask(#[n(0)] Vec<String>),
    /// I serve these.
    #[n(1)]
    Tell(#[n(0)] Told),
}

/// What a node says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Told {
    /// Its name.
    #[n(0)]
    pub(crate) node: String,
    /// Its run.
    #[n(1)]
    pub(crate) run: u64,
    /// For how long this may be believed; 0: the node no longer serves these.
    #[n(2)]
    pub(crate) ttl_ms: u32,
    /// Services, and where each is.
    #[n(3)]
    pub(crate) entries: Vec<(String, String)>,
}

impl Datagram {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_be_bytes().to_vec();
        // Writing to a `Vec` cannot fail.
        let _ = minicbor::encode(self, &mut bytes);
        bytes
    }

    /// Reads a datagram: `None` for anything that is not exactly one of this version, within its bounds.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC.to_be_bytes()).filter(|_| bytes.len() <= DATAGRAM_BYTES_MAX)?;
        let mut decoder = Decoder::new(rest);
        let datagram: Self = decoder.decode().ok()?;
        (decoder.position() == rest.len() && datagram.is_bounded()).then_some(datagram)
    }

    fn is_bounded(&self) -> bool {
        let named = |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len());
        match self {
            Self::Ask(services) => services.len() <= ENTRIES_MAX && services.iter().all(named),
            Self::Tell(told) => {
                let entry =
                    |(service, address): &(String, String)| named(service) && address.len() <= ADDRESS_BYTES_MAX;
                told.entries.len() <= ENTRIES_MAX && told.entries.iter().all(entry) && told.node.len() <= NAME_BYTES_MAX
            }
        }
    }

    /// What a node announces, in as many datagrams as necessary.
    pub(crate) fn telling(told: &Told) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let mut next = Told { entries: Vec::new(), ..told.clone() };
        for entry in &told.entries {
            next.entries.push(entry.clone());
            let too_long = Self::Tell(next.clone()).encode().len() > DATAGRAM_BYTES_MAX;
            if too_long && next.entries.len() > 1 {
                next.entries.pop();
                datagrams.push(Self::Tell(next.clone()).encode());
                next.entries = vec![entry.clone()];
            } else if next.entries.len() == ENTRIES_MAX {
                datagrams.push(Self::Tell(next.clone()).encode());
                next.entries.clear();
            }
        }
        if !next.entries.is_empty() {
            datagrams.push(Self::Tell(next).encode());
        }
        datagrams
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_is_told_is_understood_whole_and_within_its_bounds() {
        let entries: Vec<_> = (0..500).map(|n| (format!("service.{n}"), "10.0.0.7:7400".to_owned())).collect();
        let told = Told { node: "a".into(), run: 7, ttl_ms: 9, entries: entries.clone() };
        let datagrams = Datagram::telling(&told);
        assert!(datagrams.iter().all(|bytes| bytes.len() <= DATAGRAM_BYTES_MAX));
        let mut again = Vec::new();
        for bytes in &datagrams {
            let Some(Datagram::Tell(part)) = Datagram::decode(bytes) else { panic!("not understood") };
            assert_eq!((part.run, part.ttl_ms), (7, 9));
            again.extend(part.entries);
        }
        assert_eq!(again, entries);
    }

    #[test]
    fn anything_else_is_nothing() {
        let ask = Datagram::Ask(vec!["a".into()]).encode();
        assert!(Datagram::decode(&ask).is_some());
        assert!(Datagram::decode(&[&ask[..], b"x"].concat()).is_none(), "something follows it");
        for cut in 0..ask.len() {
            assert!(Datagram::decode(&ask[..cut]).is_none());
        }
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let random: Vec<u8> = (0..40)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) as u8
                })
                .collect();
            let _ = Datagram::decode(&[&MAGIC.to_be_bytes()[..], &random].concat());
        }
        let long = Datagram::Ask(vec!["x".repeat(NAME_BYTES_MAX + 1)]).encode();
        assert!(
            Datagram::decode(&long).is_none()
                && Datagram::decode(&Datagram::Ask(vec![String::new()]).encode()).is_none()
        );
    }
}
