//! How many connections and streams each client address has.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// A connection.
    Connection,
    /// A call or chain under way.
    Stream,
}

/// The addresses in use now. An address with nothing left is forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visitors {
    counts: Arc<Mutex<HashMap<(IpAddr, What), usize>>>,
}

/// One connection or stream; dropping it lowers the count.
#[derive(Debug)]
pub(crate) struct Pass {
    visitors: Visitors,
    key: (IpAddr, What),
}

impl Visitors {
    /// Counts one more for this address, unless it has `max` already.
    pub(crate) fn enter(&self, address: IpAddr, what: What, max: usize) -> Option<Pass> {
        let key = (network(address), what);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Pass { visitors: self.clone(), key })
    }

    /// All of one kind.
    pub(crate) fn count(&self, what: What) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter(|((_, of), _)| *of == what).map(|(_, count)| count).sum()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut counts = self.visitors.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// A client with one IPv6 address usually controls its whole /64 network (RFC 6177).
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_address_has_its_own_bound() {
        let visitors = Visitors::default();
        let enter = |address: &str| visitors.enter(address.parse().unwrap(), What::Stream, 1);
        let first = enter("2001:db8::1").unwrap();
        assert!(enter("2001:db8::2").is_none());
        let _other = enter("2001:db8:0:1::1").unwrap();
        let _mapped = enter("::ffff:10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        drop(first);
        assert!(enter("2001:db8::2").is_some());
        assert_eq!((visitors.count(What::Stream), visitors.count(What::Connection)), (2, 0));
    }
}
