//! What threads do to the right to reply: the very files of `catena/src/replying` that threads and tasks share, compiled on loom's and on shuttle's types.
//!
//! `tests/loom` goes every way that two or three threads can take with few interruptions, with the weak memory that the standard allows. `tests/shuttle` goes thousands of drawn ways through whole
//! calls: a function with threads and tasks that live how long they like, replies that wait for others, and tasks that watch for pauses. Each mistake of
//! `catena/src/replying/mistake.rs` is made on purpose, and found.
