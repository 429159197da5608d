//! Any message about segments, and any datagram.

use bytes::Bytes;
use catena_wire::{
    At, Buffer, Completion, Datagram, Lent, Order, Rights, SegmentEntry, SegmentMessage, SegmentRefusal, Told, Value,
};
use proptest::{collection::vec, option, prelude::*};

use super::parts::{bytes, entry, name, node};

pub(crate) fn refusal() -> impl Strategy<Value = SegmentRefusal> {
    use SegmentRefusal as R;
    let plain = vec![
        R::UnknownName,
        R::Revoked,
        R::Stale,
        R::NeverExported,
        R::WriteInhibited,
        R::Unaligned,
        R::Overloaded,
        R::GrantVoid,
        R::NotShared,
        R::NoAnswer,
        R::OwnerLost,
        R::BadAnswer,
        R::Pushed,
    ];
    prop_oneof![
        prop::sample::select(plain),
        any::<u64>().prop_map(R::OutOfBounds),
        any::<u64>().prop_map(R::TooLarge),
        any::<u8>().prop_map(|bits| R::NoRight(Rights::from_bits(bits))),
    ]
}

/// Anything said about segments.
pub(crate) fn about() -> impl Strategy<Value = SegmentMessage> {
    use SegmentMessage as M;
    let at = || {
        (any::<u32>(), any::<u64>(), any::<u64>(), option::of(any::<u64>()))
            .prop_map(|(number, generation, offset, grant)| At { number, generation, offset, grant })
    };
    let order =
        || prop_oneof![Just(Order::Bytes), any::<u8>().prop_map(Order::Little), any::<u8>().prop_map(Order::Big)];
    let entry = || {
        (name(), any::<u32>(), any::<[u64; 2]>(), any::<u8>()).prop_map(|(name, number, [generation, bytes], bits)| {
            SegmentEntry { name, number, generation, bytes, rights: Rights::from_bits(bits) }
        })
    };
    prop_oneof![
        (any::<[u64; 2]>(), at(), any::<u32>(), any::<bool>(), order()).prop_map(
            |([id, after], at, count, notify, order)| {
                let maps = count > 7;
                M::Read { id, at, count, notify, order, after, maps }
            }
        ),
        (any::<u64>(), at(), any::<bool>(), order(), bytes(60)).prop_map(|(turn, at, notify, order, data)| M::Write {
            turn,
            at,
            notify,
            order,
            data
        }),
        (any::<[u64; 4]>(), at(), any::<u8>(), any::<bool>())
            .prop_map(|([id, old, new, after], at, width, notify)| M::Cas { id, at, width, old, new, notify, after }),
        any::<[u64; 2]>().prop_map(|[id, upto]| M::Flush(id, upto)),
        (any::<u64>(), bytes(60)).prop_map(|(id, data)| M::Data(id, data)),
        any::<[u64; 2]>().prop_map(|[id, was]| M::Was(id, was)),
        any::<u64>().prop_map(M::Flushed),
        (any::<u64>(), refusal()).prop_map(|(id, why)| M::Refused(id, why)),
        (any::<u64>(), refusal()).prop_map(|(turn, why)| M::NotWritten(turn, why)),
        (any::<u64>(), name()).prop_map(|(id, name)| M::Import(id, name)),
        (any::<u64>(), entry()).prop_map(|(id, entry)| M::Imported(id, entry)),
        (any::<u64>(), at(), any::<u128>(), any::<bool>()).prop_map(|(id, at, host, write)| M::Attach {
            id,
            at,
            host,
            write
        }),
        (any::<u64>(), any::<u128>()).prop_map(|(id, ticket)| M::Attached(id, ticket)),
        (any::<u64>(), any::<u32>()).prop_map(|(id, first)| M::List(id, first)),
        (any::<u64>(), vec(entry(), 0..4)).prop_map(|(id, entries)| M::Listing(id, entries)),
        datagram().prop_map(|datagram| M::Short(Box::new(datagram))),
        vec(any::<u64>(), 0..4).prop_map(M::Taken),
        name().prop_map(M::NobodyHere),
        (any::<u64>(), any::<u64>(), buffer()).prop_map(|(id, number, buffer)| M::Lent(id, number, buffer)),
        (any::<u64>(), at(), name(), any::<bool>()).prop_map(|(id, at, by, write)| M::Reach { id, at, by, write }),
        (any::<u64>(), buffer()).prop_map(|(number, buffer)| M::Carried(number, buffer)),
        any::<u64>().prop_map(M::NotMapped),
        (at(), any::<u64>(), node()).prop_map(|(at, bytes, to)| M::Push { at, bytes, to }),
        (at(), bytes(60)).prop_map(|(at, data)| M::Pushed(at, data)),
        (any::<u64>(), vec(any::<u8>(), 0..60), any::<bool>()).prop_map(|(id, token, write)| M::Reachable {
            id,
            token,
            write
        }),
    ]
}

pub(crate) fn buffer() -> impl Strategy<Value = Buffer> {
    let lent =
        (any::<[u64; 3]>(), any::<u32>()).prop_map(|([whole, bytes, word], uses)| Lent { whole, bytes, word, uses });
    (any::<u32>(), any::<[u64; 3]>(), option::of(any::<u64>()), option::of(lent)).prop_map(
        |(number, [generation, offset, bytes], grant, lent)| Buffer {
            at: At { number, generation, offset, grant },
            bytes,
            lent,
        },
    )
}

pub(crate) fn datagram() -> impl Strategy<Value = Datagram> {
    let completion = || prop_oneof![Just(Completion::Told), Just(Completion::Piggybacked), Just(Completion::Timeout)];
    let names = (name(), name(), any::<[u64; 2]>(), option::of(any::<u64>()));
    let rest = (vec(buffer(), 0..4), completion(), option::of(buffer()), vec(any::<u64>(), 0..4), any::<bool>());
    (names, vec(bytes(60), 0..4), rest).prop_map(
        |((from, to, [number, length], about), items, (buffers, completion, room, taken, asks))| Datagram {
            from,
            to,
            number,
            about,
            items,
            buffers,
            completion,
            room,
            taken,
            returned: about.map(|_| length),
            asks,
        },
    )
}
