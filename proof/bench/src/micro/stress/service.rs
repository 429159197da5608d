//! What both kinds of server do under load: the same jobs, by tasks of the executor or by threads, within the same bounds.

use std::time::Duration;

use catena::{Context, Exception, Service, ServiceError};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};

use crate::micro::task::records;

/// Calls that a server does at one time, and that wait for their turn; more are refused.
pub(super) const AT_ONCE: usize = 64;
const WAITING: usize = 256;

/// A call's job: parts that reply one by one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) part_us: u64,
    pub(super) parts: u32,
    /// Its parts take processor time; else they wait, as for a disk or another server.
    pub(super) computes: bool,
}

/// The service of one kind of server. `se` does the parts of a job one after the other, `pe` side by side.
pub(crate) fn service(kind: &str) -> Service {
    if kind == super::EVENTS { events() } else { threads() }
}

fn events() -> Service {
    Service::new(super::EVENTS)
        .at_once(AT_ONCE, WAITING)
        .replies("se", async |context: Context, job: Job| {
            for _ in 0..job.parts {
                part(&context, job).await?;
            }
            Ok(())
        })
        .replies("pe", async |context: Context, job: Job| {
            let spawn = |_| {
                let context = context.clone();
                tokio::spawn(async move { part(&context, job).await })
            };
            let parts: Vec<_> = (0..job.parts).map(spawn).collect();
            for part in parts {
                part.await??;
            }
            Ok(())
        })
}

async fn part(context: &Context, job: Job) -> Result<(), Exception> {
    if job.computes {
        compute(job);
        // Others have their turn, as everywhere in code that is not to hold its executor.
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(job.part()).await;
    }
    let (ready, records) = records(job.parts);
    context.preturn(&(ready, Bytes::new(&records))).await
}

fn threads() -> Service {
    Service::new(super::THREADS)
        .threads(AT_ONCE, WAITING)
        .iterator("se", |_, job: Job| Ok((0..job.parts).map(move |_| part_of_thread(job))))
        .blocking("pe", |context: Context, job: Job| {
            std::thread::scope(|scope| {
                for _ in 1..job.parts {
                    scope.spawn(|| context.preturn_blocking(&part_of_thread(job)));
                }
                // The last part is what it returns: one more reply.
                Ok::<_, ServiceError>(part_of_thread(job))
            })
        })
}

#[allow(clippy::disallowed_methods, reason = "a thread that blocks is what is measured")]
fn part_of_thread(job: Job) -> (u64, ByteBuf) {
    if job.computes {
        compute(job)
    } else {
        std::thread::sleep(job.part())
    }
    let (ready, records) = records(job.parts);
    (ready, ByteBuf::from(records))
}

/// Takes so much time of a processor, whoever else wants it.
fn compute(job: Job) {
    let until = thread_ns() + job.part_us * 1_000;
    while thread_ns() < until {
        (0..1_000).for_each(|_| std::hint::spin_loop());
    }
}

fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Job {
    const fn part(self) -> Duration {
        Duration::from_micros(self.part_us)
    }
}
