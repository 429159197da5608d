//! What a small message costs that goes over loopback in a packet of its own: processor time of both ends together. It bounds
//! what an acceptance or a sign of life adds beside the state machines; most ride along with something else.

use std::sync::Arc;

use catena_net::{Endpoint, EndpointConfig, Handler, Identity, Incoming, Link, LinkError, Message, Place};
use tokio::sync::Notify;

use crate::{Failure, cpu::cpu_s};

/// About what an acceptance has.
const MESSAGE_BYTES: usize = 32;
const IN_A_BLOCK: usize = 2_000;

struct Arrivals(Arc<Notify>);

impl Handler for Arrivals {
    fn on_link(&self, _: &Arc<Link>) {}

    fn on_message(&self, _: &Arc<Link>, _: Incoming) {
        self.0.notify_one();
    }

    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

/// Two ends of a link.
pub(crate) struct Lone {
    _ends: [Endpoint; 2],
    link: Arc<Link>,
    arrived: Arc<Notify>,
}

impl Lone {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let arrived = Arc::new(Notify::new());
        let identity = |node| Identity { node, site: None, hello: bytes::Bytes::new() };
        let handler = || Arc::new(Arrivals(Arc::clone(&arrived)));
        let listens = EndpointConfig { listen: Some(([127, 0, 0, 1], 0).into()), ..EndpointConfig::default() };
        let far = Endpoint::bind(listens, identity(1), handler()).await?;
        let near = Endpoint::bind(EndpointConfig::default(), identity(2), handler()).await?;
        let address = far.local_address().ok_or("it does not listen")?.to_string();
        let link = near.link(&Place { address, site: None }).await?;
        link.introduced().await?;
        Ok(Self { _ends: [far, near], link, arrived })
    }

    /// Microseconds of processor time for one message, sent when the one before has arrived.
    pub(crate) async fn message_us(&self) -> Result<f64, Failure> {
        let before = cpu_s();
        for _ in 0..IN_A_BLOCK {
            self.link.send(Message::new(vec![7; MESSAGE_BYTES], bytes::Bytes::new())).await?;
            self.arrived.notified().await;
        }
        Ok((cpu_s() - before) * 1e6 / IN_A_BLOCK as f64)
    }
}
