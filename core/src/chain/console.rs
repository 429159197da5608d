//! The virtual console (rpc-chains section 3.7): lines travel with the chain, some ahead of its end.

use alloc::{string::String, vec::Vec};
use catena_wire::{Branch, LogLine, Message};

use super::activation::Activation;
use crate::{
    Receipt,
    console::{carried_max, extend},
    ground::Ground,
};

/// Adds lines that the chain's function logged here.
pub(super) fn log(ground: &Ground, activation: &mut Activation, texts: Vec<String>) {
    let (step, at_us) = (activation.step, ground.unix_us());
    let line = |text| LogLine { step, node: ground.me.name.clone(), at_us, text, branch: Branch::root(), number: 0 };
    carry(ground, activation, step, texts.into_iter().map(line));
}

/// Adds lines to those of this chain, with its branch, its numbering and this step. Their node, time and text stay.
pub(super) fn carry(ground: &Ground, activation: &mut Activation, step: u32, lines: impl IntoIterator<Item = LogLine>) {
    let (console, branch) = (&mut activation.state.console, &activation.arrived.branch);
    let own = console.iter().rev().find(|line| line.branch == *branch);
    let mut next = own.map_or(0, |line| line.number.saturating_add(1));
    let own = |line: LogLine| {
        let number = next;
        next = next.saturating_add(1);
        LogLine { step, branch: branch.clone(), number, ..line }
    };
    extend(console, lines.into_iter().map(own), carried_max(&ground.policy));
}

/// Sends the origin the lines that it has not been sent, as with each heartbeat, so that they outlive the chain.
pub(super) fn tell_lines(ground: &mut Ground, activation: &mut Activation) {
    let Some(lines) = untold(activation) else { return };
    let said = Message::Console(activation.key(), activation.state.console_told, lines);
    activation.state.console_told = u32::try_from(activation.state.console.len()).unwrap_or(u32::MAX);
    ground.send_home(&activation.state.header, said, Receipt::None);
}

/// Lines that this chain carries and that the origin has not been sent.
pub(super) fn untold(activation: &Activation) -> Option<Vec<LogLine>> {
    let lines = activation.state.console.get(activation.state.console_told as usize..)?;
    (!lines.is_empty()).then(|| lines.to_vec())
}
