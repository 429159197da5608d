//! Intermediate answers and console lines, in order and once, for the holder of the reply set or for a service that waits.

use alloc::vec::Vec;
use catena_wire::{Branch, ChainId, LogLine, StepKey, Value};

use super::{Detached, Origin, Started};
use crate::{Action, Replied, collections::Taken, ground::Ground};

impl Origin {
    /// An intermediate answer has arrived; `room`: how many bytes may be kept for it. False if there is no room, so that it has to be sent again.
    pub(crate) fn on_partial(
        &mut self,
        ground: &mut Ground,
        key: &StepKey,
        number: u32,
        value: Value,
        room: Option<usize>,
    ) -> bool {
        let Some(started) = self.seen(ground, key, None, None) else { return true };
        let again = bug!(ground.policy, AnswerTwice).then(|| value.clone());
        let bytes = value.len_bytes();
        let taken = started.answers.take(&key.branch, number, value, room, &ground.policy);
        if taken == Taken::Kept {
            self.bytes += bytes;
        }
        if let (Taken::Repeat, Some(value)) = (taken, again) {
            ground.out.ask(Action::Reply(key.chain, Replied::Partial(value)));
        }
        self.deliver(ground, key.chain, &key.branch);
        taken != Taken::NoRoom || bug!(ground.policy, EarlyAnswerDropped)
    }

    pub(crate) fn on_console(&mut self, ground: &mut Ground, key: &StepKey, first: u32, lines: Vec<LogLine>) {
        self.tell_lines(key.chain, |started| {
            let lines = match bug!(ground.policy, LineTwice) {
                true => lines,
                false => started.console.take(&key.branch, first, lines, lines_room(ground)),
            };
            show(ground, key.chain, started, lines);
        });
    }

    /// Calls `tell`, which may change a chain's lines, and then counts the bytes of the lines that are still kept.
    pub(super) fn tell_lines<T>(&mut self, chain: ChainId, tell: impl FnOnce(&mut Started) -> T) -> Option<T> {
        let started = self.chains.get_mut(&chain)?;
        let before = started.line_bytes();
        let told = tell(started);
        self.bytes = self.bytes - before + started.line_bytes();
        Some(told)
    }

    /// Hands out the answers that are next in order, and the end once every answer that it counts has been handed out.
    pub(super) fn deliver(&mut self, ground: &mut Ground, chain: ChainId, branch: &Branch) {
        let Some(started) = self.chains.get_mut(&chain) else { return };
        while let Some(value) = started.answers.pop(branch) {
            self.bytes -= value.len_bytes();
            match started.detached.as_deref() {
                Some(Detached { heard_as: Some(at), .. }) => ground.out.ask(Action::Heard(at.clone(), value)),
                Some(_) => {}
                None => ground.out.ask(Action::Reply(chain, Replied::Partial(value))),
            }
        }
        self.end_if_complete(ground, chain, branch);
    }
}

/// How many lines, and how many bytes of them, may wait for earlier ones.
pub(super) const fn lines_room(ground: &Ground) -> (usize, usize) {
    (ground.policy.console_lines_max, ground.room)
}

/// Shows lines to the holder of the reply set, or keeps them for the caller that waits for the chain's end.
pub(super) fn show(ground: &mut Ground, chain: ChainId, started: &mut Started, lines: Vec<LogLine>) {
    match &mut started.detached {
        Some(detached) => detached.keep(lines, ground.room, ground.policy.console_bytes_max),
        None if lines.is_empty() => {}
        None => ground.out.ask(Action::Reply(chain, Replied::Console(lines))),
    }
}
