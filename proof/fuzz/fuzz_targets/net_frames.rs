//! The bytes of a link, however they are split: frames, or the error that ends the link.
#![no_main]

use bytes::BytesMut;
use catena_net::{Assembler, Frame, FrameError, Limits, MemoryBudget, decode_hello};
use libfuzzer_sys::fuzz_target;

/// Takes every complete frame from the front of `bytes`.
fn decode_frames(bytes: &mut BytesMut, limits: &Limits) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    while let Some(frame) = Frame::decode(bytes, limits)? {
        frames.push(frame);
    }
    Ok(frames)
}

fuzz_target!(|parts: Vec<&[u8]>| {
    let limits = Limits::default();
    let mut hello = BytesMut::from(parts.concat().as_slice());
    let _ = decode_hello(&mut hello, 64 << 10);

    let mut whole = BytesMut::from(parts.concat().as_slice());
    let at_once = decode_frames(&mut whole, &limits);
    let (mut buffer, mut piecemeal) = (BytesMut::new(), Ok(Vec::new()));
    for part in &parts {
        buffer.extend_from_slice(part);
        match (decode_frames(&mut buffer, &limits), &mut piecemeal) {
            (Ok(more), Ok(frames)) => frames.extend(more),
            (Err(why), _) => {
                piecemeal = Err(why);
                break;
            }
            (Ok(_), Err(_)) => break,
        }
    }
    assert_eq!(at_once.is_ok(), piecemeal.is_ok(), "how the bytes were split does not matter");
    if let (Ok(at_once), Ok(piecemeal)) = (at_once, piecemeal) {
        assert_eq!(at_once, piecemeal);
        let mut assembler = Assembler::new(limits, MemoryBudget::new(1 << 20));
        let _ = at_once.iter().try_for_each(|frame| assembler.accept(frame).map(drop));
    }
});
