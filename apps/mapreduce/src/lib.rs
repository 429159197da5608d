//! Pipelined MapReduce (Quatrain sections 4.3 and 5.4): word count whose reduces work while the maps still map.
//!
//! A reduce asks each map once, and the map replies block by block: from its store what it has made, from then on what it makes. So no part of
//! the program decides whether data is pushed or pulled. [`job::Mode`] has the two older ways beside it, on the same code.
//!
//! A reduce replies with snapshots: the most frequent words so far, each with the least and the most that its count can be. From the snapshots
//! of all partitions follows whether the rest of the text can still change which words they are ([`top`]).
#![forbid(unsafe_code)]

pub mod coordinator;
pub mod data;
pub mod figures;
pub mod fleet;
pub mod job;
pub mod map;
pub mod pull;
pub mod reduce;
pub mod reduce_task;
pub mod store;
pub mod text;
pub mod top;
pub mod worker;
