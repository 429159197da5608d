//! Many replies to one call, beside tonic's server streaming: time, and processor time of both ends, for each. As they come, and in one go.

use std::time::Instant;

use catena::{Client, Place};
use serde_bytes::ByteBuf;

use super::replier::REPLY_BYTES;
use crate::{
    Failure,
    cores::Cores,
    cpu::cpu_s,
    grpc::{self, Payload},
    mesh,
    server::Server,
    stats::ratios,
    summary::Summary,
};

const REPLIES: usize = 20_000;

/// Microseconds for one reply: time, and processor time.
#[derive(Default)]
struct Costs {
    time: Vec<f64>,
    cpu: Vec<f64>,
}

/// By round.
#[derive(Default)]
pub(super) struct Flowing {
    each: Costs,
    tonic: Costs,
    gathered: Costs,
    tonic_burst: Costs,
}

pub(super) async fn measure(rounds: usize) -> Result<Flowing, Failure> {
    let (ours, theirs) = (Server::start(&["replying", "many"]).await?, Server::start(&["tonic"]).await?);
    let place = Place::new(ours.address.as_str());
    let client =
        Client::builder("reader").sandbox(mesh::sandbox()?).without_shared_memory().join(place).connect().await?;
    let grpc = grpc::connect(&theirs).await?;
    let _held = Cores::hold([], [&ours, &theirs].into_iter().filter_map(Server::process))?;
    let mut all = Flowing::default();
    for round in 0..=rounds {
        let each = cost(&ours, ask(&client, "many/many")).await?;
        let tonic = cost(&theirs, stream(&grpc, false)).await?;
        let gathered = cost(&ours, ask(&client, "many/gathered")).await?;
        let tonic_burst = cost(&theirs, stream(&grpc, true)).await?;
        if round > 0 {
            all.each.push(each);
            all.gathered.push(gathered);
            all.tonic.push(tonic);
            all.tonic_burst.push(tonic_burst);
        }
    }
    Ok(all)
}

async fn cost(server: &Server, read: impl Future<Output = Result<usize, Failure>>) -> Result<(f64, f64), Failure> {
    let (cpu, began) = (cpu_s() + server.cpu_s().await?, Instant::now());
    let replies = read.await?;
    let time = began.elapsed().as_secs_f64();
    if replies != REPLIES {
        return Err(format!("{replies} replies of {REPLIES}").into());
    }
    let cpu = cpu_s() + server.cpu_s().await? - cpu;
    let each = |seconds: f64| seconds * 1e6 / REPLIES as f64;
    Ok((each(time), each(cpu)))
}

async fn ask(client: &Client, target: &str) -> Result<usize, Failure> {
    let mut set = client.replies(target, &REPLIES).await?;
    let mut count = 0;
    while let Some(reply) = set.next().await {
        let bytes: ByteBuf = reply?.decode()?;
        count += usize::from(bytes.len() == REPLY_BYTES);
    }
    Ok(count)
}

async fn stream(client: &grpc::Client, burst: bool) -> Result<usize, Failure> {
    let request = Payload { data: [&[u8::from(burst)][..], &(REPLIES as u64).to_be_bytes()].concat().into() };
    let mut replies = client.clone().many(request).await?.into_inner();
    let mut count = 0;
    while let Some(reply) = replies.message().await? {
        count += usize::from(reply.data.len() == REPLY_BYTES);
    }
    Ok(count)
}

impl Costs {
    fn push(&mut self, (time, cpu): (f64, f64)) {
        self.time.push(time);
        self.cpu.push(cpu);
    }
}

impl Flowing {
    pub(super) fn report(self, summary: &mut Summary) {
        let Self { each, tonic, gathered, tonic_burst } = self;
        summary.put("reply_stream_tonic", ratios(&each.time, &tonic.time));
        summary.put("reply_stream_cpu_tonic", ratios(&each.cpu, &tonic.cpu));
        summary.put("reply_gathered_tonic", ratios(&gathered.time, &tonic_burst.time));
        summary.put("reply_gathered_cpu_tonic", ratios(&gathered.cpu, &tonic_burst.cpu));
    }
}
