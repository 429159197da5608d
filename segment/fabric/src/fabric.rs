//! The two sides of the interface: what is offered, what is reached.

use std::{
    fmt,
    fs::File,
    io::Read as _,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use catena_segment::{Access, Allow, Memory, Offer, Reached, RemoteError, RemoteMemory, Width};

use crate::{
    operation::{Operation, Outcome, Waiting, What, lock},
    port::Port,
    provider::Provider,
    pump::{Cell, Pump},
    token::Token,
};

const INSTALL: &str = "accesses go by the link until that is put right";
const LATER: &str = "it goes by the link until there is room";

/// Providers whose CAS was shown by this crate's tests to be atomic with that of the owner's processor: an adapter's need not be.
const SWAPS_SHOWN: [&str; 2] = ["tcp;ofi_rxm", "shm"];

/// The limits that a node sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Segments offered to partners and reached at owners, together: each has an endpoint of its own.
    pub ports_max: usize,
    /// Bytes of one access.
    pub access_bytes_max: usize,
    /// How long one access may take: after that its port is shut, which ends everything under way there.
    pub access_timeout_ms: u64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { ports_max: 128, access_bytes_max: 1 << 20, access_timeout_ms: 2_000 }
    }
}

/// Remote memory by one provider of libfabric.
pub struct Fabric {
    name: Arc<str>,
    terms: Terms,
    provider: Arc<Provider>,
    /// Started with the first port.
    pump: OnceLock<Arc<Pump>>,
    starting: Mutex<()>,
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric")
            .field("provider", &self.name)
            .field("rules", &self.provider.rules)
            .finish_non_exhaustive()
    }
}

impl Fabric {
    /// Opens a provider by libfabric's name for it (`tcp;ofi_rxm`, `shm`, `verbs;ofi_rxm`, `efa`). `address` is this host's own address at which partners reach
    /// it, for providers that use Internet addresses; without one libfabric chooses.
    ///
    /// # Errors
    /// libfabric is not installed, is another version, or has no such provider on this host.
    pub fn open(provider: &str, address: Option<&str>, terms: Terms) -> Result<Self, RemoteError> {
        let name: Arc<str> = provider.into();
        let opened = Provider::open(provider, address);
        let opened = opened.map_err(|why| error(&name, "opening the provider", &why, INSTALL))?;
        let fabric =
            Self { name, terms, provider: Arc::new(opened), pump: OnceLock::new(), starting: Mutex::default() };
        // Opened once for nothing: what a provider cannot do, or does to the process when first used, shows now, and not while guests run.
        drop(fabric.port("opening the provider")?);
        Ok(fabric)
    }

    fn pump(&self) -> Result<&Arc<Pump>, RemoteError> {
        let _starting = lock(&self.starting);
        if self.pump.get().is_none() {
            let started = Pump::start().map_err(|why| self.error("starting a thread", &why.to_string(), LATER))?;
            let _ = self.pump.set(started);
        }
        self.pump.get().ok_or_else(|| self.error("starting a thread", "it is gone", LATER))
    }

    /// A new port, not yet looked after.
    fn port(&self, what: &str) -> Result<(Port, Option<std::os::fd::OwnedFd>), RemoteError> {
        Port::open(&self.provider, &self.name).map_err(|why| self.error(what, &why, LATER))
    }

    /// Hands the port to the pump's thread, which looks after it from now on.
    fn keep(&self, port: (Port, Option<std::os::fd::OwnedFd>), what: &str) -> Result<Held, RemoteError> {
        let pump = Arc::clone(self.pump()?);
        let cell = Arc::new(Cell { port: Mutex::new(port.0), descriptor: port.1 });
        if !pump.add(&cell, self.terms.ports_max) {
            return Err(self.error(what, "ports_max is reached", LATER));
        }
        Ok(Held { cell, pump })
    }

    fn error(&self, what: &str, why: &str, next: &'static str) -> RemoteError {
        error(&self.name, what, why, next)
    }
}

fn error(provider: &str, what: &str, why: &str, next: &'static str) -> RemoteError {
    RemoteError { provider: provider.into(), peer: "".into(), what: what.into(), why: why.into(), next }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if let Some(pump) = self.pump.get() {
            pump.stop();
        }
    }
}

impl RemoteMemory for Fabric {
    fn name(&self) -> &str {
        &self.name
    }

    fn offer(&self, memory: Arc<Memory>, allow: Allow) -> Result<Offer, RemoteError> {
        const WHAT: &str = "offering a segment";
        let (mut port, descriptor) = self.port(WHAT)?;
        let drawn = drawn().map_err(|why| self.error(WHAT, &why.to_string(), LATER))?;
        let offered = port.offer(memory, allow, drawn).and_then(|(key, base)| Ok((key, base, port.address()?)));
        let (key, base, address) = offered.map_err(|why| self.error(WHAT, &why, LATER))?;
        let hold = Box::new(self.keep((port, descriptor), WHAT)?);
        Ok(Offer { token: Token { base, key, address }.encode(), hold })
    }

    fn reach(&self, token: &[u8], bytes: u64) -> Result<Arc<dyn Reached>, RemoteError> {
        const WHAT: &str = "reaching a segment";
        let token = Token::decode(token).filter(|token| self.provider.is_address(&token.address));
        let lie = || {
            self.error(
                WHAT,
                "what its owner told is no token of this provider",
                "see that both nodes name the same one",
            )
        };
        let token = token.ok_or_else(lie)?;
        let (mut port, descriptor) = self.port(WHAT)?;
        port.reach(&token.address, token.base, token.key).map_err(|why| self.error(WHAT, &why, LATER))?;
        let held = self.keep((port, descriptor), WHAT)?;
        Ok(Arc::new(Far { held, bytes, terms: self.terms, name: Arc::clone(&self.name) }))
    }
}

/// An unguessable key.
fn drawn() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A port that is shut when this is dropped, before `drop` returns.
struct Held {
    cell: Arc<Cell>,
    pump: Arc<Pump>,
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.cell.port).shut("it is not used any more");
        self.pump.wake();
    }
}

/// A partner's memory.
struct Far {
    held: Held,
    bytes: u64,
    terms: Terms,
    name: Arc<str>,
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Far").field("provider", &self.name).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Far {
    fn begin(&self, what: What, offset: u64, count: usize, buffer: impl FnOnce() -> Vec<u8>) -> Waiting {
        let outcome = Arc::new(Outcome::default());
        let fits = offset.checked_add(count as u64).is_some_and(|end| end <= self.bytes);
        if !fits || count > self.terms.access_bytes_max {
            let why = format!(
                "{count} bytes at {offset} are not within its {} bytes, or more than one access takes",
                self.bytes
            );
            outcome.tell(Err(error(&self.name, "an access", &why, "check offset and count")));
            return Waiting(outcome);
        }
        let buffer = buffer();
        if buffer.is_empty() {
            outcome.tell(Ok(buffer));
            return Waiting(outcome);
        }
        let deadline = Instant::now() + Duration::from_millis(self.terms.access_timeout_ms);
        let operation =
            Operation { context: [0; 8], what, offset, buffer, local: None, deadline, outcome: Arc::clone(&outcome) };
        let urgent = lock(&self.held.cell.port).begin(Box::new(operation));
        if urgent || self.held.cell.descriptor.is_none() {
            self.held.pump.wake();
        }
        Waiting(outcome)
    }
}

impl Reached for Far {
    fn read(&self, offset: u64, count: usize) -> Access<Vec<u8>> {
        Box::pin(self.begin(What::Read, offset, count, || vec![0; count]))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Access<()> {
        let waiting = self.begin(What::Write, offset, bytes.len(), || bytes.to_vec());
        Box::pin(async move { waiting.await.map(drop) })
    }

    fn compare_and_swap(&self, offset: u64, width: Width, old: u64, new: u64) -> Option<Access<u64>> {
        let shown = SWAPS_SHOWN.contains(&&*self.name);
        if !shown || !offset.is_multiple_of(width.bytes()) || !lock(&self.held.cell.port).swaps(width) {
            return None;
        }
        let words = || match width {
            // The provider takes the first bytes of each operand, whatever the machine's byte order.
            Width::Four => [new as u32, 0, old as u32, 0, 0, 0].map(u32::to_ne_bytes).concat(),
            Width::Eight => [new, old, 0].map(u64::to_ne_bytes).concat(),
        };
        let waiting = self.begin(What::Swap(width), offset, width.bytes() as usize, words);
        Some(Box::pin(async move {
            let buffer = waiting.await?;
            let mut was = [0; 8];
            was.copy_from_slice(&buffer[16..24]);
            Ok(match width {
                Width::Four => u32::from_ne_bytes([was[0], was[1], was[2], was[3]]).into(),
                Width::Eight => u64::from_ne_bytes(was),
            })
        }))
    }

    fn is_live(&self) -> bool {
        lock(&self.held.cell.port).is_open()
    }
}
