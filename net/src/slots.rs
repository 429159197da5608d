//! How many links there may be, in all and with one address, and what the links of one address share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::EndpointConfig;
use crate::egress::STANDING_BYTES;
use crate::memory::Lease;
use crate::{LinkError, MemoryBudget, OverBudget};

/// The places for links.
pub(crate) struct Slots {
    config: Arc<EndpointConfig>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    links: usize,
    accepted: usize,
    addresses: HashMap<String, Address>,
}

struct Address {
    links: usize,
    accepted: usize,
    memory: MemoryBudget,
}

/// A place for one link, given back on drop.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    address: String,
    accepted: bool,
    /// The memory that links of this address may take.
    pub(crate) memory: MemoryBudget,
    /// The charge that a link has from the start, which its egress takes over.
    pub(crate) lease: Option<Lease>,
}

impl Slots {
    pub(crate) fn new(config: Arc<EndpointConfig>) -> Arc<Self> {
        Arc::new(Self { config, taken: Mutex::default() })
    }

    /// A place for a link to or, if `accepted`, from this peer.
    ///
    /// # Errors
    /// The limit on links is reached, or there is no memory.
    pub(crate) fn take(self: &Arc<Self>, peer: &str, accepted: bool) -> Result<Slot, LinkError> {
        let config = &self.config;
        let address = address_of(peer);
        let mut taken = self.taken();
        let from_there = taken.addresses.get(&address).map_or(0, |address| address.accepted);
        let limits = [
            ("links_max", config.links_max, taken.links),
            ("links_accepted_max", config.links_accepted_max, if accepted { taken.accepted } else { 0 }),
            ("links_per_address_max", config.links_per_address_max, if accepted { from_there } else { 0 }),
        ];
        if let Some((limit, links_max, _)) = limits.into_iter().find(|(_, max, links)| links >= max) {
            return Err(LinkError::TooManyLinks { peer: peer.to_owned(), limit, links_max });
        }
        let memory = taken.enter(&address, accepted, config);
        drop(taken);
        let mut slot = Slot { slots: Arc::clone(self), address, accepted, memory, lease: None };
        let lease = slot.memory.lease(STANDING_BYTES);
        slot.lease = Some(lease.map_err(|why| LinkError::NoMemory { peer: peer.to_owned(), why })?);
        Ok(slot)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Counts one more link of this address. Returns the memory that links of it share.
    fn enter(&mut self, address: &str, accepted: bool, config: &EndpointConfig) -> MemoryBudget {
        let part = || Address { links: 0, accepted: 0, memory: config.memory.part(config.address_bytes_max) };
        let known = self.addresses.entry(address.to_owned()).or_insert_with(part);
        known.links += 1;
        known.accepted += usize::from(accepted);
        self.links += 1;
        self.accepted += usize::from(accepted);
        known.memory.clone()
    }

    fn leave(&mut self, address: &str, accepted: bool) {
        self.links -= 1;
        self.accepted -= usize::from(accepted);
        if let Some(known) = self.addresses.get_mut(address) {
            known.links -= 1;
            known.accepted -= usize::from(accepted);
            if known.links == 0 {
                self.addresses.remove(address);
            }
        }
    }
}

impl Slot {
    /// The name that was dialled has led to this host: all links with it share their memory, whatever their names.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn move_to(&mut self, host: IpAddr) -> Result<(), OverBudget> {
        let address = customer_of(host).to_string();
        let mut taken = self.slots.taken();
        let memory = taken.enter(&address, self.accepted, &self.slots.config);
        taken.leave(&self.address, self.accepted);
        drop(taken);
        (self.address, self.memory, self.lease) = (address, memory, None);
        self.lease = Some(self.memory.lease(STANDING_BYTES)?);
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken().leave(&self.address, self.accepted);
    }
}

/// To whom a peer's address belongs: the address without its port; for IPv6 the first 64 bits, which all belong to one customer.
fn address_of(peer: &str) -> String {
    match peer.parse::<SocketAddr>() {
        Ok(address) => customer_of(address.ip()).to_string(),
        Err(_) => peer.rsplit_once(':').map_or(peer, |(host, _)| host).to_owned(),
    }
}

pub(crate) fn customer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn links_with_one_host_share_its_memory_by_whatever_names_it_was_dialled() {
        let slots = Slots::new(Arc::new(EndpointConfig::default()));
        let host = IpAddr::from([10, 0, 0, 1]);
        let mut named: Vec<_> = ["a.test:1", "b.test:1"].map(|name| slots.take(name, false).unwrap()).into();
        let accepted = slots.take("10.0.0.1:9", true).unwrap();
        assert_eq!(accepted.memory.used(), STANDING_BYTES);
        named.iter_mut().for_each(|slot| slot.move_to(host).unwrap());
        assert_eq!(accepted.memory.used(), 3 * STANDING_BYTES);
        let taken = |slots: &Slots| {
            let Taken { links, accepted, addresses } = &*slots.taken();
            (*links, *accepted, addresses.len())
        };
        assert_eq!(taken(&slots), (3, 1, 1));
        drop((named, accepted));
        assert_eq!(taken(&slots), (0, 0, 0));
    }
}
