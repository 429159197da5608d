//! JavaScript as a guest: QuickJS-ng behind version 1 of the guest ABI (`guest/ABI.md`).
//!
//! The engine is set up once, when the base image is taken (`catena_init`, run by wizer). From then on
//! everything it knows lies in linear memory, so that a chain can stop at any `await`, travel as the
//! difference between this memory and the image, and go on elsewhere. It has no clock, no randomness
//! and no I/O: what there is of these comes in with `catena_start`.
//!
//! | file | its one job |
//! | --- | --- |
//! | `abi` | the exports: bytes in, bytes out (unsafe leaf) |
//! | `engine` | what the engine remembers, and one turn from its start to its end |
//! | `load` | a module's source becomes a function waiting for its input |
//! | `api` | what a program imports from `"catena"` |
//! | `replies` | calls that are answered many times |
//! | `encode`, `decode` | JavaScript values to CBOR and back |
//! | `exception` | JavaScript errors to exceptions and back |
//! | `limits` | which limit broke, and where |
//! | `outbox` | the events of a turn |
//! | `position` | line and column out of a stack trace |
//! | `js/` | values and contexts of the engine, made safe (unsafe leaf) |
//! | `native` | the functions that the engine calls (unsafe leaf) |
//! | `heap` | the one heap: small continuations, no garbage in them (unsafe leaf) |
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod abi;
mod api;
mod decode;
mod encode;
mod engine;
mod exception;
mod heap;
mod js;
mod layers;
mod limits;
mod load;
mod native;
mod outbox;
mod position;
mod random;
mod replies;
mod split;

/// A panic is a bug of the engine, never the program's doing: the host sees the trap and ends this one chain.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
