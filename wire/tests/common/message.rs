//! Any message.

use catena_wire::{Brought, Budget, End, Hop, Message, NodeId, Replies, RightEnd, Value};
use proptest::{collection::vec, option, prelude::*};

use super::{
    chains::{duplicate, end, hop},
    memory::about,
    parts::{
        answer, blobs, branch, budget, bytes, chain, console, delegated, entry, exception, hash, key, name, node,
        outcome, relocation, right, value, whereabouts,
    },
};

/// Any message at all.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let call = (
        any::<u64>(),
        name(),
        name(),
        value(),
        budget(),
        option::of(key()),
        option::of(value()),
        (duplicate(), any::<u64>()),
    );
    let call = call.prop_map(|(id, service, function, params, budget, key, credentials, (duplicate, age_us))| {
        Message::Call { id, service, function, params, budget, key, credentials, duplicate, age_us }
    });
    let relay = (any::<u64>(), bytes(100), bytes(100)).prop_map(|(to, head, tail)| Message::Relay {
        to: NodeId(to),
        head: head.to_vec(),
        tail,
    });
    prop_oneof![
        hop().prop_map(|hop| Message::Hop(Box::new(hop))),
        key().prop_map(Message::Accepted),
        (key(), exception()).prop_map(|(key, why)| Message::Refused(key, why)),
        (key(), any::<u32>(), value(), any::<u32>()).prop_map(|(key, number, value, to)| Message::Partial {
            key,
            number,
            value,
            to
        }),
        end().prop_map(|end| Message::End(Box::new(end))),
        (key(), node(), vec(branch(), 0..4)).prop_map(|(key, host, open)| Message::Heartbeat(key, host, open)),
        call,
        (any::<u64>(), outcome(), any::<u32>(), any::<u64>(), console(), blobs()).prop_map(
            |(id, outcome, hops_left, service_us, console, blobs)| {
                Message::Return(id, outcome, Brought { hops_left, service_us, console, blobs })
            }
        ),
        any::<u64>().prop_map(Message::Withdraw),
        hash().prop_map(Message::WantCode),
        (hash(), bytes(300)).prop_map(|(code, bytes)| Message::Code(code, bytes)),
        hash().prop_map(Message::NoCode),
        any::<u64>().prop_map(Message::List),
        (any::<u64>(), vec(entry(), 0..4)).prop_map(|(id, entries)| Message::Listing(id, entries)),
        (key(), any::<u32>(), console()).prop_map(|(key, first, lines)| Message::Console(key, first, lines)),
        (key(), node(), option::of(node())).prop_map(|(key, origin, entry)| Message::Locate { key, origin, entry }),
        (key(), name(), whereabouts()).prop_map(|(key, host, place)| Message::Located(key, host, place)),
        chain().prop_map(Message::Cancel),
        (value(), right()).prop_map(|(params, right)| {
            let (service, function, budget) = ("s".into(), "f".into(), Budget::new(7, 3));
            Message::Ask { id: 1, service, function, params, budget, credentials: None, right: Box::new(right) }
        }),
        (key(), any::<u32>(), vec(value(), 0..4)).prop_map(|(key, first, values)| Message::Replies(Replies {
            key,
            first,
            values
        })),
        (key(), any::<u32>(), vec(delegated(), 0..3), option::of(exception()), any::<bool>()).prop_map(
            |(key, replies, delegated, threw, late)| {
                Message::RightEnd(Box::new(RightEnd { key, replies, delegated, threw, late }))
            }
        ),
        (key(), any::<u32>(), any::<u32>()).prop_map(|(key, arrived, read)| Message::Took { key, arrived, read }),
        relay,
        about().prop_map(Message::Segment),
        (any::<u64>(), relocation(), any::<bool>())
            .prop_map(|(id, relocation, again)| Message::CallElsewhere(id, relocation, again)),
        (key(), relocation()).prop_map(|(key, relocation)| Message::HopElsewhere(key, relocation)),
        (name(), relocation()).prop_map(|(service, relocation)| Message::Moved(service, relocation)),
        vec(entry(), 0..4).prop_map(Message::Offers),
        (any::<u64>(), name()).prop_map(|(id, service)| Message::Resolve(id, service)),
        (any::<u64>(), vec(answer(), 0..4)).prop_map(|(id, answers)| Message::Resolved(id, answers)),
    ]
}
