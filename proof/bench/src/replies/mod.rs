//! Answers as they come: one of many beside tonic's server streaming, and the end behind the last one.

mod ending;
mod flowing;
mod replier;

pub(crate) use replier::{as_they_come, service};

use crate::{Failure, summary::Summary};

/// How much of each is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Streams of 20,000 replies.
    pub(crate) rounds: usize,
    /// Blocks of 100 delegated calls.
    pub(crate) blocks: usize,
}

pub(crate) async fn measure(scale: Scale, summary: &mut Summary) -> Result<(), Failure> {
    // In tasks, as every server is.
    tokio::spawn(flowing::measure(scale.rounds)).await??.report(summary);
    tokio::spawn(ending::measure(scale.blocks)).await??.report(summary);
    Ok(())
}
