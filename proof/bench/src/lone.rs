//! What an acceptance costs to send over loopback, without the state machines: processor time of both ends together. Acceptances
//! are delayed a little to travel together; here they meet only each other, at one for each hop.

use std::sync::Arc;

use catena_net::{Endpoint, EndpointConfig, Handler, Identity, Incoming, Link, LinkError, Message, Place};
use tokio::sync::Semaphore;

use crate::{Failure, cpu::cpu_s};

/// About what an acceptance has.
const MESSAGE_BYTES: usize = 32;
const IN_A_BLOCK: u32 = 2_000;

struct Arrivals(Arc<Semaphore>);

impl Handler for Arrivals {
    fn on_link(&self, _: &Arc<Link>) {}

    fn on_message(&self, _: &Arc<Link>, _: Incoming) {
        self.0.add_permits(1);
    }

    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

/// Two ends of a link.
pub(crate) struct Lone {
    _ends: [Endpoint; 2],
    link: Arc<Link>,
    arrived: Arc<Semaphore>,
}

impl Lone {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let arrived = Arc::new(Semaphore::new(0));
        let identity = |node| Identity { node, site: None, hello: bytes::Bytes::new() };
        let handler = || Arc::new(Arrivals(Arc::clone(&arrived)));
        let listens = EndpointConfig { listen: Some(([127, 0, 0, 1], 0).into()), ..EndpointConfig::default() };
        let far = Endpoint::bind(listens).await?.start(identity(1), handler())?;
        let near = Endpoint::bind(EndpointConfig::default()).await?.start(identity(2), handler())?;
        let address = far.local_address().ok_or("it does not listen")?.to_string();
        let link = near.link(&Place { address, site: None }).await?;
        link.introduced().await?;
        Ok(Self { _ends: [far, near], link, arrived })
    }

    /// Microseconds of processor time for one message, if as many travel together as gather at one every `hop_us`.
    pub(crate) async fn message_us(&self, hop_us: f64) -> Result<f64, Failure> {
        let lazy_us = EndpointConfig::default().lazy_ms_max as f64 * 1_000.0;
        let together = ((lazy_us / hop_us) as u32).clamp(1, IN_A_BLOCK);
        let rounds = IN_A_BLOCK / together;
        let before = cpu_s();
        for _ in 0..rounds {
            for _ in 0..together {
                self.link.send_lazily(Message::new(vec![7; MESSAGE_BYTES], bytes::Bytes::new()))?;
            }
            self.arrived.acquire_many(together).await?.forget();
        }
        Ok((cpu_s() - before) * 1e6 / f64::from(rounds * together))
    }
}
