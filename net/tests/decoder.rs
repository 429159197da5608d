//! The decoders, on any bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use bytes::{Bytes, BytesMut};
use catena_net::{
    Assembler, Frame, Hello, Identity, Limits, MemoryBudget, Message, Outcome, decode_hello, encode_hello,
};
use proptest::collection::vec;
use proptest::prelude::*;
use support::decode_frames;

fn data(bytes_max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..bytes_max).prop_map(Bytes::from)
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        (data(300), data(300)).prop_map(|(head, tail)| Frame::Whole(Message { head, tail })),
        (any::<u64>(), any::<u32>(), any::<u64>(), data(300))
            .prop_map(|(id, head_bytes, tail_bytes, data)| Frame::Begin { id, head_bytes, tail_bytes, data }),
        (any::<u64>(), vec(any::<u8>(), 1..300)).prop_map(|(id, data)| Frame::More { id, data: data.into() }),
        any::<u64>().prop_map(|nonce| Frame::Ping { nonce }),
        any::<u64>().prop_map(|nonce| Frame::Pong { nonce }),
    ]
}

/// Frames that often fit each other, so that the assembler gets deep.
fn likely_frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        (0..4_u64, 0..40_u32, 0..80_u64, data(60)).prop_map(|(id, head_bytes, tail_bytes, data)| Frame::Begin {
            id,
            head_bytes,
            tail_bytes,
            data
        }),
        (0..4_u64, vec(any::<u8>(), 1..30)).prop_map(|(id, data)| Frame::More { id, data: data.into() }),
    ]
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in vec(any::<u8>(), 0..2000)) {
        let mut buffer = BytesMut::from(&bytes[..]);
        let before = buffer.len();
        if let Ok(frames) = decode_frames(&mut buffer) {
            let taken: usize = frames.iter().map(|frame| frame.encode().len()).sum();
            prop_assert_eq!(taken + buffer.len(), before, "no byte is lost or read twice");
        }
        let _ = decode_hello(&mut BytesMut::from(&bytes[..]), 1000);
        let mut hello = BytesMut::from(&b"catena\x01\x00"[..]);
        hello.extend_from_slice(&bytes);
        let _ = decode_hello(&mut hello, 1000);
    }

    #[test]
    fn damaged_frames_never_panic(frames in vec(frame(), 1..10), at in any::<prop::sample::Index>(), bits in any::<u8>()) {
        let mut bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        let mut assembler = Assembler::new(Limits::default(), MemoryBudget::new(1 << 30));
        for frame in decode_frames(&mut BytesMut::from(&bytes[..])).unwrap_or_default() {
            if assembler.accept(&frame).is_err() {
                break;
            }
        }
    }

    #[test]
    fn what_was_encoded_is_decoded_however_it_was_split(frames in vec(frame(), 0..20), cuts in vec(1..700_usize, 0..40)) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        let mut buffer = BytesMut::new();
        let mut decoded = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.into_iter().chain([bytes.len()]) {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            buffer.extend_from_slice(piece);
            rest = later;
            decoded.extend(decode_frames(&mut buffer).unwrap());
        }
        prop_assert_eq!(decoded, frames);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn the_assembler_never_panics_and_never_invents_bytes(frames in vec(likely_frame(), 0..60)) {
        let mut assembler = Assembler::new(Limits::default(), MemoryBudget::new(1 << 30));
        let (mut came, mut delivered) = (0, 0);
        for frame in frames {
            came += match &frame {
                Frame::Begin { data, .. } | Frame::More { data, .. } => data.len(),
                _ => 0,
            };
            match assembler.accept(&frame) {
                Ok(Outcome::Deliver(catena_net::Incoming::Whole(message))) => delivered += message.bytes(),
                Ok(Outcome::Deliver(catena_net::Incoming::Head { head, .. })) => delivered += head.len(),
                Ok(Outcome::Deliver(catena_net::Incoming::Tail { tail, .. })) => delivered += tail.len(),
                Ok(_) => {}
                Err(_) => break,
            }
            prop_assert!(delivered <= came);
        }
    }

    #[test]
    fn hellos_survive_any_split(node in any::<u64>(), site in "[a-z]{0,40}", hello in data(2000), taken in any::<bool>(), cut in any::<prop::sample::Index>()) {
        let site = (!site.is_empty()).then_some(site);
        let hello = Hello { identity: Identity { node, site, hello }, limits: Limits::default(), taken };
        let bytes = encode_hello(&hello);
        let cut = cut.index(bytes.len());
        let mut buffer = BytesMut::from(&bytes[..cut]);
        prop_assert_eq!(decode_hello(&mut buffer, 65 << 10), Ok(None));
        buffer.extend_from_slice(&bytes[cut..]);
        buffer.extend_from_slice(b"next");
        prop_assert_eq!(decode_hello(&mut buffer, 65 << 10), Ok(Some(hello)));
        prop_assert_eq!(&buffer[..], b"next");
    }
}
