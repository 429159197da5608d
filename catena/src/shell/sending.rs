//! Messages out: by an open link, or by dialling.

use std::sync::Arc;

use catena_core::{Receipt, Undelivered, Urgency};
use catena_net::{Link, LinkError, Message, Place, SendRefused};
use catena_wire::{Encoded, NodeRef};

use super::Shell;

impl Shell {
    /// To a node that cannot be dialled, and to which there is no link, by one that can reach it.
    pub(super) fn send_by(
        self: &Arc<Self>,
        to: Arc<NodeRef>,
        message: Encoded,
        receipt: Receipt,
        urgency: Urgency,
        via: Option<Arc<NodeRef>>,
    ) {
        let linked = || self.endpoint().and_then(|endpoint| endpoint.link_to_node(to.id.0)).is_some();
        match via {
            Some(via) if !linked() => {
                let Encoded { head, tail } = message;
                let relay = catena_wire::Message::Relay { to: to.id, head: head.to_vec(), tail }.encode();
                self.send(via, relay, receipt, urgency);
            }
            _ => self.send(to, message, receipt, urgency),
        }
    }

    pub(super) fn send(self: &Arc<Self>, to: Arc<NodeRef>, message: Encoded, receipt: Receipt, urgency: Urgency) {
        let message = Message::new(message.head, message.tail);
        let Some(link) = self.endpoint().and_then(|endpoint| endpoint.link_to_node(to.id.0)) else {
            let shell = Arc::clone(self);
            self.runtime.spawn(async move {
                if let Err(why) = shell.dial_and_send(&to, message).await {
                    shell.undelivered(receipt, why);
                }
            });
            return;
        };
        let refused = match urgency {
            Urgency::Lazy => return drop(link.send_lazily(message)),
            Urgency::Now => link.try_send(message),
        };
        match refused {
            Ok(()) => {}
            Err(SendRefused::Full(message)) => self.send_when_there_is_room(link, message, receipt),
            Err(SendRefused::Broken(why)) => self.undelivered(receipt, meaning(&why, Undelivered::Unreachable)),
        }
    }

    fn send_when_there_is_room(self: &Arc<Self>, link: Arc<Link>, message: Message, receipt: Receipt) {
        let shell = Arc::clone(self);
        self.runtime.spawn(async move {
            if let Err(why) = link.send(message).await {
                shell.undelivered(receipt, meaning(&why, Undelivered::Lost));
            }
        });
    }

    async fn dial_and_send(&self, to: &NodeRef, message: Message) -> Result<(), Undelivered> {
        let link = self.dial(to).await.ok_or(Undelivered::Unreachable)?;
        link.send(message).await.map_err(|why| meaning(&why, Undelivered::Lost))
    }

    /// A link to this very run of the node: another one at its address remembers none of its steps.
    pub(super) async fn dial(&self, to: &NodeRef) -> Option<Arc<Link>> {
        let endpoint = self.endpoint()?;
        if let Some(link) = endpoint.link_to_node(to.id.0) {
            return Some(link);
        }
        let place = Place { address: to.address.clone()?, site: to.site.clone() };
        let leave = self.dials.leave(&place.address).await?;
        let link = endpoint.link(&place).await.ok()?;
        let same = link.introduced().await.is_ok_and(|identity| identity.node == to.id.0);
        same.then(|| {
            leave.reached();
            link
        })
    }

    fn undelivered(self: &Arc<Self>, receipt: Receipt, why: Undelivered) {
        let now = self.now();
        self.core().on_undelivered(now, receipt, why);
        self.drive();
    }
}

/// What a link's error means for the message: too large, or what such an error means here.
fn meaning(why: &LinkError, else_it_is: Undelivered) -> Undelivered {
    match why {
        LinkError::TooLarge { bytes, bytes_max, .. } => {
            Undelivered::TooLarge { bytes: *bytes as u64, bytes_max: *bytes_max }
        }
        _ => else_it_is,
    }
}
