//! A thread of its own for the parser, with bounds.
//!
//! The parser recurses once per level of nesting and asks nobody whether there is stack left, so a short file of
//! brackets could end the whole process. Its hunger per byte of source is bounded though, so each source gets a
//! stack in proportion to its length: that is address space, and costs memory only where it is really used. A few
//! shapes of nesting also take time in proportion to the square of their depth, so somebody has to watch the clock.

use std::{
    sync::mpsc::{RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use crate::error::{ErrorKind, ScriptError};

/// The stack a byte of source may need. The hungriest shape known (`a<b<b<b`, one level in two bytes) takes half.
const STACK_BYTES_PER_SOURCE_BYTE: usize = 4 * 1024;

/// What the parser needs before the first byte.
const STACK_BYTES_MIN: usize = 1024 * 1024;

/// Runs `work` on `source` with stack enough for it, for at most `wall_ms_max` milliseconds. Work that runs out of time
/// cannot be stopped: its thread is left behind, and ends by itself or with the process.
pub(crate) fn run<T, W>(name: &str, source: &str, wall_ms_max: u64, work: W) -> Result<T, ScriptError>
where
    T: Send + 'static,
    W: FnOnce(&str, &str) -> Result<T, ScriptError> + Send + 'static,
{
    let stack_bytes = STACK_BYTES_MIN + source.len() * STACK_BYTES_PER_SOURCE_BYTE;
    let (answer, answered) = sync_channel(1);
    let (file, text) = (name.to_owned(), source.to_owned());
    let builder = thread::Builder::new().name("catena-script".to_owned()).stack_size(stack_bytes);
    builder
        .spawn(move || {
            // Nobody listens any more once the time is up.
            let _ = answer.send(work(&file, &text));
        })
        .map_err(|refused| no_thread(name, stack_bytes, &refused))?;
    match answered.recv_timeout(Duration::from_millis(wall_ms_max)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(too_slow(name, wall_ms_max)),
        Err(RecvTimeoutError::Disconnected) => Err(parser_failed(name)),
    }
}

fn no_thread(name: &str, stack_bytes: usize, refused: &std::io::Error) -> ScriptError {
    let message = format!("no thread with {stack_bytes} bytes of stack could be had to check the source: {refused}");
    let help = "free some memory, raise the limit on address space (ulimit -v), or shorten the source";
    ScriptError::of_file(ErrorKind::TooComplex, name, message, help)
}

fn too_slow(name: &str, wall_ms_max: u64) -> ScriptError {
    let message = format!("checking the source took more than prepare_wall_ms_max, {wall_ms_max} ms");
    let help = "look for something nested thousands deep, and write it flat";
    ScriptError::of_file(ErrorKind::TooComplex, name, message, help)
}

fn parser_failed(name: &str) -> ScriptError {
    let message = "the parser failed on this source, which is its fault and not yours";
    let help = "please report it with the source; writing the function in plain JavaScript may avoid it";
    ScriptError::of_file(ErrorKind::Internal, name, message, help)
}
