//! Runs and suspends guests as the machines say.

use std::{net::IpAddr, sync::Arc, time::Instant};

use bytes::Bytes;
use catena_core::{GuestAsk, Party, SessionId, Turn};
use catena_guest::{Image, Owner, Sandbox, Session, Start};
use catena_wire::{Exception, Fault, Hash, StepLimits, Value, names};

use super::{Shell, in_turn::InTurn};
use crate::random;

/// What a guest resumes from, and whose share pays for it.
pub(super) enum Basis {
    /// The function as it was loaded.
    Image(Party, Hash),
    /// Its continuation, laid over the image, which is given if it is at hand.
    Continuation(Party, Hash, Option<Arc<Image>>, Bytes),
    /// The guest is at this node already.
    Live,
}

/// The event that is handed to the guest.
pub(super) enum Event {
    Start(Value, Start),
    Settled(u32, Result<Value, Exception>),
    Branch(u32, u16),
}

impl Shell {
    /// Runs one turn of a guest; at most as many busy guests run at once as there are cores.
    pub(super) fn run_guest(self: &Arc<Self>, id: SessionId, basis: Basis, limits: StepLimits, event: Event) {
        let turn = Arc::clone(self).turn(id, basis, limits, event);
        self.here_or_later(InTurn::new(turn));
    }

    async fn turn(self: Arc<Self>, id: SessionId, basis: Basis, limits: StepLimits, event: Event) {
        let began = Instant::now();
        let turn = async {
            let Some(mut guest) = self.guest(id, basis, &limits).await? else { return Ok(None) };
            let turn = match event {
                Event::Start(input, start) => guest.start(&input, start).await,
                Event::Settled(call, result) => guest.settle(call, result.as_ref()).await,
                Event::Branch(call, index) => guest.branch(call, index).await,
            };
            turn.map(|turn| Some((guest, turn)))
        };
        // `None` if the session was discarded.
        if let Some(turn) = turn.await.transpose() {
            self.turned(id, turn, began);
        }
    }

    async fn guest(
        self: &Arc<Self>,
        id: SessionId,
        basis: Basis,
        limits: &StepLimits,
    ) -> Result<Option<Session>, Exception> {
        let mut guest = match basis {
            Basis::Live => return Ok(self.sessions.take(id)),
            Basis::Image(by, code) => {
                let sandbox = self.sandbox_for(by).await?;
                let image = self.image(&sandbox, code).await?;
                sandbox.begin(&image).await?
            }
            Basis::Continuation(by, code, image, continuation) => {
                let sandbox = self.sandbox_for(by).await?;
                let image = match image {
                    Some(image) => image,
                    None => self.image(&sandbox, code).await?,
                };
                sandbox.resume(&image, &continuation).await?
            }
        };
        guest.lower(limits)?;
        Ok(Some(guest))
    }

    fn turned(&self, id: SessionId, turn: Result<(Session, catena_guest::Turn), Exception>, began: Instant) {
        let turn = turn.map(|(guest, turn)| {
            match turn.end {
                None => self.sessions.put(id, guest),
                Some(_) => self.sessions.leave(guest),
            }
            translate(turn)
        });
        let now = self.now();
        self.core().on_turn(now, id, turn, elapsed_us(began));
    }

    /// Takes the continuation; the function travels with it if it is small enough.
    pub(super) async fn suspend(self: Arc<Self>, session: SessionId, with_code: Option<Hash>) {
        let began = Instant::now();
        let mut guest = self.sessions.remove(session);
        let taken = match &mut guest {
            Some(guest) => guest.suspend().await,
            None => Err(Exception::new(names::BAD_CONTINUATION, Fault::Node, "the guest was gone when it was to move")),
        };
        let riding = |code| self.store.get(code).filter(|code: &Bytes| code.len() <= self.settings.code_ride_bytes_max);
        let taken = taken.map(|continuation| (continuation, with_code.and_then(riding)));
        let now = self.now();
        self.core().on_suspended(now, session, taken, elapsed_us(began));
        if let Some(guest) = guest {
            self.sessions.leave(guest);
        }
    }

    async fn sandbox_for(self: &Arc<Self>, by: Party) -> Result<Sandbox, Exception> {
        Ok(self.sandbox().await?.on_behalf_of(owner(by)))
    }

    async fn image(&self, sandbox: &Sandbox, code: Hash) -> Result<Arc<Image>, Exception> {
        if let Some(image) = sandbox.loaded(code) {
            return Ok(image);
        }
        let Some(bytes) = self.store.get(code) else {
            let message = format!("{} no longer has function {code:?}; run the chain again", self.me.name);
            return Err(Exception::new(names::CODE_MISSING, Fault::Node, message));
        };
        // Boxed, so that the future of each turn does not reserve memory for it.
        Box::pin(sandbox.load(code, &bytes)).await
    }

    /// Whether this function is available without asking another node.
    pub(super) fn has_code(&self, code: Hash) -> bool {
        self.loaded(code).is_some() || self.store.get(code).is_some()
    }

    pub(super) fn loaded(&self, code: Hash) -> Option<Arc<Image>> {
        self.sandbox.get()?.loaded(code)
    }
}

/// The sandbox's name for a party. An address of IPv6 comes without its last 64 bits, and one of IPv4 is put before as many, so that none is the number of a node.
fn owner(by: Party) -> Owner {
    Owner::Other(match by {
        Party::Own => return Owner::Own,
        Party::Address(IpAddr::V4(address)) => u128::from(address.to_bits()) << 64,
        Party::Address(IpAddr::V6(address)) => address.to_bits(),
        Party::Node(node) => node.0.into(),
    })
}

fn translate(turn: catena_guest::Turn) -> Turn {
    let ask = |call| GuestAsk { number: random::bits128(), call };
    Turn {
        calls: turn.calls,
        emits: turn.emits,
        logs: turn.logs,
        splits: turn.splits,
        asks: turn.asks.into_iter().map(ask).collect(),
        reads: turn.reads,
        leaves: turn.leaves,
        end: turn.end,
    }
}

pub(super) fn elapsed_us(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}
