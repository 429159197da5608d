//! How long after the last reply a caller knows that it was the last, when four servers reply, each asked by the one before.

use std::time::Instant;

use catena::{Client, Place};

use crate::{
    Failure,
    cores::Cores,
    mesh,
    server::Server,
    stats::{Spread, in_rounds, ratios},
    summary::Summary,
};

/// The servers, in the order in which they hand the right to reply on: three delegations.
const NAMES: [&str; 4] = ["first", "second", "third", "fourth"];
const IN_A_BLOCK: usize = 100;

/// Microseconds, by block.
pub(super) struct Ending {
    /// From the last reply to the end.
    end: Vec<f64>,
    /// Half a plain call: one message.
    message: Vec<f64>,
}

pub(super) async fn measure(blocks: usize) -> Result<Ending, Failure> {
    let mut servers: Vec<Server> = Vec::new();
    for name in NAMES {
        let mut kind = vec!["replying", name];
        kind.extend(servers.first().map(|first| first.address.as_str()));
        servers.push(Server::start(&kind).await?);
    }
    let place = Place::new(servers[0].address.as_str());
    let client =
        Client::builder("asker").sandbox(mesh::sandbox()?).without_shared_memory().join(place).connect().await?;
    mesh::known(&client, &NAMES).await?;
    // Whoever hands the right on is on another core than the one who gets it, and the last on another than the caller.
    let placed = |at: usize| servers.iter().skip(at).step_by(2).filter_map(Server::process);
    let _held = Cores::hold(placed(0), placed(1))?;
    // The last is taken first.
    let rest: Vec<String> = NAMES.iter().skip(1).rev().map(|name| format!("{name}/pass")).collect();
    let block = || async {
        let (mut ends, mut calls) = (Vec::new(), Vec::new());
        for _ in 0..IN_A_BLOCK {
            ends.push(end_after_last_us(&client, &rest).await?);
            let began = Instant::now();
            client.call::<_, u64>(NAMES[3], "once", &()).await?;
            calls.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok([Spread::of(ends).median, Spread::of(calls).median / 2.0])
    };
    let [end, message] = in_rounds(blocks, block).await?;
    Ok(Ending { end, message })
}

async fn end_after_last_us(client: &Client, rest: &[String]) -> Result<f64, Failure> {
    let mut set = client.replies(&format!("{}/pass", NAMES[0]), rest).await?;
    let (mut last, mut count) = (Instant::now(), 0);
    while let Some(reply) = set.next().await {
        reply?;
        (last, count) = (Instant::now(), count + 1);
    }
    match count == NAMES.len() {
        true => Ok(last.elapsed().as_secs_f64() * 1e6),
        false => Err(format!("{count} replies, of one for each of {NAMES:?}").into()),
    }
}

impl Ending {
    pub(super) fn report(self, summary: &mut Summary) {
        summary.put("end_after_last_message", ratios(&self.end, &self.message));
        summary.put("end_after_last_us", Spread::of(self.end));
    }
}
