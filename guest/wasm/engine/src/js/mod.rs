//! Values and contexts of QuickJS, made safe.
//!
//! There is one runtime with one context for the module's whole life, and one thread, so a [`Value`] needs
//! neither a lifetime nor a context beside it. An `Err(`[`Pending`]`)` says that the engine holds an exception;
//! [`take_exception`] fetches it.
//!
//! The calls of the engine in here are sound for the same reasons, which each `SAFETY` note names:
//!
//! - *the context*: [`runtime::init`] makes the runtime and its context before anything else runs, and nothing frees them.
//! - *alive*: a [`Value`], [`Name`] or [`Text`] owns a reference to what it stands for, or borrows one from a caller that does,
//!   so the engine has not freed it; and the engine takes a reference of its own to whatever it keeps.
//! - *room*: what the engine writes through a pointer is a local of the type that it writes, which outlives the call.
//!
//! | file | its one job |
//! | --- | --- |
//! | `runtime` | the runtime, its context and the jobs that wait |
//! | `value` | what any value can be asked |
//! | `make` | new values |
//! | `class` | objects that no program can make itself |
//! | `bytes` | what typed arrays and buffers hold |
//! | `shape` | what a value is sent as |
//! | `name`, `text` | property names, and strings as UTF-8 |
//! | `handles` | what would otherwise be looked up in every turn |
//! | `throw` | exceptions, raised and fetched |
//! | `promise` | promises and what settles them |
//! | `module` | source to bytecode to a module that has run |
#![allow(unsafe_code)]

mod bytes;
mod class;
mod handles;
mod make;
mod module;
mod name;
mod promise;
mod runtime;
mod shape;
mod text;
mod throw;
mod value;

pub(crate) use class::BLOB_CLASS;
pub(crate) use handles::{Names, intern, name};
pub(crate) use module::{CompileError, compile, evaluate};
pub(crate) use name::{Key, Name, OwnNames};
pub(crate) use promise::{Deferred, PromiseState};
pub(crate) use runtime::{context, init, keep_for_good, run_job};
pub(crate) use shape::{Kind, Shape};
pub(crate) use text::Text;
pub(crate) use throw::{
    ErrorClass, error, error_here, error_without_trace, take_exception, throw, throw_error, throw_uncatchable,
};
pub(crate) use value::Value;

/// A static that only one thread can see.
pub(crate) struct Single<T>(pub(crate) T);

// SAFETY: the module has one thread.
unsafe impl<T> Sync for Single<T> {}

/// The engine holds an exception.
#[derive(Debug)]
pub(crate) struct Pending;

/// What may throw.
pub(crate) type Js<T> = Result<T, Pending>;
