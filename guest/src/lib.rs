//! The sandbox: loads functions, resumes them, computes their differences and enforces their limits.
//!
//! A function runs as a WebAssembly guest (`guest/ABI.md`). When it awaits a call, the guest returns with an empty stack, and the
//! difference between its memory and its *image* (engine and function, loaded, not yet started: the same bytes on every node) is
//! the function's **continuation**, from which it can resume in any other sandbox that has the image.
//!
//! ```text
//! Sandbox::load ─▶ Image ─▶ Sandbox::begin ──▶ Session::start ─▶ Turn ─▶ Session::suspend ─▶ bytes
//!                    └────▶ Sandbox::resume ─▶ Session::settle ─▶ Turn ─▶ ...
//! ```
//!
//! This crate knows wasmtime and the engine, but no sockets, chains or nodes.

#![allow(
    clippy::result_large_err,
    reason = "an exception is what a chain ends with: it is made once, and handed on as it is"
)]

mod abi;
mod admission;
mod base;
mod budget;
mod cache;
pub mod continuation;
mod difference;
mod error;
mod explicit;
mod function;
mod host;
mod image;
mod instance;
mod kept;
mod last_words;
mod leb;
mod limits;
mod loading;
mod owner;
mod pages;
mod prototype;
mod ready;
mod runtime;
mod sandbox;
mod scratch;
mod seats;
mod session;
#[cfg(test)]
mod tests;
mod ticker;
mod warm;

pub use abi::Start;
pub use admission::Refusal as AdmissionRefusal;
pub use budget::{GuestsBudget, MemoryBudget};
pub use catena_wire::{GuestCall, GuestRead, GuestSplit};
pub use error::{GUEST_ABI, GUEST_TRAPPED, SESSION_OVER, SandboxError};
pub use explicit::{VERSION_EXPLICIT, decode_explicit};
pub use function::{Function, FunctionError, FunctionKind};
pub use image::Image;
pub use limits::{HARD_STOP_EPOCHS, Limits, MEMORY_RESERVE_BYTES, STACK_BYTES_MAX, SandboxConfig};
pub use owner::Owner;
pub use pages::PageFinder;
pub use sandbox::{Sandbox, SandboxStats};
pub use scratch::{SCRATCH_RANGES_MAX, Scratch, ScratchError};
pub use session::{Session, Turn};
