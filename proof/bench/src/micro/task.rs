//! The task: it sleeps for a part of its time, and replies; its parts one after the other, or side by side; in tasks, or in threads.

use std::time::{Duration, Instant};

use catena::{Context, Exception, Service, ServiceError};
use serde_bytes::Bytes;

use crate::segments::monotonic_ns;

/// Records that all parts bring together.
const RECORDS_BYTES: usize = 20 << 10;

/// Of how long, microseconds, and in how many parts.
type Task = (u64, u32);

/// What one part replies: when it was ready, and its records.
pub(super) fn records(parts: u32) -> (u64, Vec<u8>) {
    (monotonic_ns(), vec![7; RECORDS_BYTES / parts.max(1) as usize])
}

/// When the first `part` parts of a task are done, after it began.
fn until((task_us, parts): Task, part: u32) -> Duration {
    Duration::from_micros(task_us) * part / parts.max(1)
}

pub(crate) fn service(name: &str) -> Service {
    Service::new(name)
        .replies("se", async |context: Context, task: Task| {
            let began = tokio::time::Instant::now();
            for part in 1..=task.1 {
                tokio::time::sleep_until(began + until(task, part)).await;
                reply(&context, task).await?;
            }
            Ok(())
        })
        .replies("pe", async |context: Context, task: Task| {
            for _ in 0..task.1 {
                let context = context.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(until(task, 1)).await;
                    reply(&context, task).await
                });
            }
            Ok(())
        })
        .blocking("se_threads", |context: Context, task: Task| {
            let began = Instant::now();
            // The last part is what it returns: one more reply.
            for part in 1..task.1 {
                block_until(began + until(task, part));
                reply_blocking(&context, task)?;
            }
            block_until(began + until(task, task.1));
            let (ready, records) = records(task.1);
            Ok((ready, serde_bytes::ByteBuf::from(records)))
        })
        .blocking("pe_threads", |context: Context, task: Task| {
            let (began, parts) = (Instant::now(), task.1);
            for _ in 1..parts {
                let context = context.clone();
                std::thread::spawn(move || {
                    block_until(began + until(task, 1));
                    reply_blocking(&context, task)
                });
            }
            block_until(began + until(task, 1));
            let (ready, records) = records(parts);
            Ok::<_, ServiceError>((ready, serde_bytes::ByteBuf::from(records)))
        })
}

async fn reply(context: &Context, (_, parts): Task) -> Result<(), Exception> {
    let (ready, records) = records(parts);
    context.preturn(&(ready, Bytes::new(&records))).await
}

fn reply_blocking(context: &Context, (_, parts): Task) -> Result<(), Exception> {
    let (ready, records) = records(parts);
    context.preturn_blocking(&(ready, Bytes::new(&records)))
}

#[allow(clippy::disallowed_methods, reason = "a thread that blocks is what is measured")]
fn block_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}
