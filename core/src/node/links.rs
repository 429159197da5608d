//! Links to other nodes: made, measured, broken; and messages that did not arrive.

use core::net::IpAddr;

use catena_wire::{NodeId, Part};

use super::Node;
use crate::{Link, Receipt, Time, Undelivered, calls::result_too_large, replies::end_too_large};

impl Node {
    /// How far a node is, as measured.
    pub fn on_link_measured(&mut self, node: NodeId, link: Link) {
        self.ground.directory.placement.learn_link(node, link);
    }

    /// `node` is linked from now on: over a network from this address, or, if there is none, from a process of this machine. All nodes of one address have a
    /// common share of what this node takes on; for IPv6 the first 64 bits count.
    pub fn on_linked(&mut self, node: NodeId, address: Option<IpAddr>) {
        let ground = &mut self.ground;
        ground.parties.linked(node, address);
        ground.outgoing.link_changed(ground.now, node, &ground.policy);
    }

    /// A link to `node` has broken: what the node was asked is lost. Nobody waits for what the node asked, unless it is still linked: of two links that both
    /// sides dialled at once only one lasts, and what came over that link goes on.
    pub fn on_link_lost(&mut self, now: Time, node: NodeId, still_linked: bool) {
        self.at(now, |this| {
            let ground = &mut this.ground;
            ground.directory.forget_node(&mut ground.out, node);
            ground.parties.link_lost(node);
            ground.outgoing.link_changed(now, node, &ground.policy);
            for code in ground.codes.link_lost(now, node, &ground.policy) {
                this.chains.ask_for_code(ground, code);
            }
            this.sets.link_lost(ground, node);
            this.rights.link_lost(ground, node);
            if !still_linked {
                this.calls.abandon_peer(ground, node);
            }
            this.calls.link_lost(ground, node);
            this.chains.link_lost(ground, node);
        });
    }

    /// Whether a message that has waited, for example for a link, is still to go to that node. A hop or call may have been given up meanwhile: nobody waits for
    /// it any more, and another node may do it.
    #[must_use]
    pub fn is_to_go(&self, to: NodeId, receipt: &Receipt) -> bool {
        match receipt {
            Receipt::Hop(handed) => self.chains.is_to_go(to, handed),
            Receipt::Call(id) => self.calls.is_to_go(to, *id),
            Receipt::Return(..) | Receipt::WantCode(_) | Receipt::Part(..) | Receipt::Beat(_) | Receipt::None => true,
        }
    }

    /// A message did not arrive, or may not have.
    pub fn on_undelivered(&mut self, now: Time, receipt: Receipt, why: Undelivered) {
        self.at(now, |node| {
            let ground = &mut node.ground;
            match (receipt, why) {
                (Receipt::Hop(handed), why) => node.chains.hop_undelivered(ground, handed, why),
                (Receipt::Call(id), why) => node.calls.undelivered(ground, id, why),
                (Receipt::Part(key, Part::Partial(first)), Undelivered::TooLarge { bytes, bytes_max })
                    if node.rights.knows(&key) =>
                {
                    node.rights.reply_too_large(ground, &key, first, bytes, bytes_max);
                }
                (Receipt::Part(key, Part::End), Undelivered::TooLarge { bytes, bytes_max })
                    if node.rights.knows(&key) =>
                {
                    end_too_large(ground, &key, bytes, bytes_max);
                }
                (Receipt::Part(key, part), why) => node.chains.part_undelivered(ground, (key, part), why),
                (Receipt::Return(to, id), Undelivered::TooLarge { bytes, bytes_max }) => {
                    result_too_large(ground, &to, id, bytes, bytes_max);
                }
                (Receipt::WantCode(wanted), _) if ground.codes.awaits(wanted.code, wanted.from) => {
                    if ground.codes.unheard(now, wanted.code, &ground.policy) {
                        node.chains.ask_for_code(ground, wanted.code);
                    }
                }
                (Receipt::Beat(key), Undelivered::Unreachable | Undelivered::Lost) => {
                    node.chains.origin_unreached(ground, &key);
                    node.rights.unreached(now, &key);
                }
                // A caller asks for its result again when its link has broken.
                (Receipt::Return(..) | Receipt::WantCode(_) | Receipt::Beat(_) | Receipt::None, _) => {}
            }
        });
    }
}
