//! How many links there may be, in all and with one address, and what the links of one address share.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::EndpointConfig;
use crate::egress::STANDING_BYTES;
use crate::memory::Lease;
use crate::{LinkError, MemoryBudget};

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
        let part = || Address { links: 0, accepted: 0, memory: config.memory.part(config.address_bytes_max) };
        let known = taken.addresses.entry(address.clone()).or_insert_with(part);
        known.links += 1;
        known.accepted += usize::from(accepted);
        let memory = known.memory.clone();
        taken.links += 1;
        taken.accepted += usize::from(accepted);
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

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.links -= 1;
        taken.accepted -= usize::from(self.accepted);
        if let Some(address) = taken.addresses.get_mut(&self.address) {
            address.links -= 1;
            address.accepted -= usize::from(self.accepted);
            if address.links == 0 {
                taken.addresses.remove(&self.address);
            }
        }
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
