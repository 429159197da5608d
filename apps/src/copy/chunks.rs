//! The copy by one chain for each chunk, several of them under way at once: what the paper measures (rpc-chains sections 5.2.2 and 5.3).
//!
//! Each chain goes from the client to the source, on to the target and straight home. If the target answers with a chain of its own, as a replicated
//! one does, the two are composed unless that is switched off.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use catena::{Client, Code, Exception, RunOptions, StepTrace, Value, from_value, to_value};
use catena_files::{Entry, Handle, Verifier};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Copied, Copy, Progress,
    plain::{clean_up, in_window},
    told::Told,
};

/// The three chains of such a copy, loaded.
#[derive(Clone, Copy, Debug)]
pub struct ChunkCode {
    begin: Code,
    chunk: Code,
    end: Code,
}

impl ChunkCode {
    /// Loads them.
    ///
    /// # Errors
    /// Whatever the sandbox says.
    pub async fn load(client: &Client) -> Result<Self, Exception> {
        let load = |name, source| crate::shipped(client, name, source);
        Ok(Self {
            begin: load("copy_begin.ts", include_str!("../../functions/copy_begin.ts")).await?,
            chunk: load("copy_chunk.ts", include_str!("../../functions/copy_chunk.ts")).await?,
            end: load("copy_end.ts", include_str!("../../functions/copy_end.ts")).await?,
        })
    }
}

#[derive(Deserialize)]
struct Begun {
    file: Entry,
    made: Entry,
}

#[derive(Serialize)]
struct Chunk<'a> {
    from: &'a str,
    file: &'a Handle,
    to: &'a str,
    made: &'a Handle,
    offset: u64,
    count: u32,
}

#[derive(Serialize)]
struct End<'a> {
    to: &'a str,
    target: &'a str,
    made: &'a Handle,
    cut_to: Option<u64>,
}

/// Copies by one chain for each chunk, each run as `options` say: with `compose` off, chains that the services answer with run apart and come back to them.
///
/// The trace is that of the first chunk.
///
/// # Errors
/// The exception that ended one of them, with the path of hosts; the half-written target has been removed, or is named.
pub async fn by_chunks(
    client: &Client,
    code: &ChunkCode,
    copy: &Copy,
    options: &RunOptions,
    progress: impl Fn(Progress),
) -> Result<Copied, Exception> {
    copy.check()?;
    let told = Told::new(client, copy);
    let run = Run { client, copy, told: &told, options };
    let begun: Begun = run.one(&code.begin, to_value(copy)?).await?;
    let (size, touched) = (begun.file.attributes.size, AtomicBool::new(false));
    let copied = async {
        let trace = run.chunks(code, &begun, &touched, progress).await?;
        touched.store(true, Ordering::Relaxed);
        let cut_to = (begun.made.attributes.size > size).then_some(size);
        let end = End { to: &copy.to, target: &copy.target, made: &begun.made.handle, cut_to };
        let _: Verifier = run.one(&code.end, to_value(&end)?).await?;
        Ok(Copied { bytes: size, trace, marks: None })
    };
    match copied.await {
        Ok(copied) => Ok(copied),
        Err(why) => Err(clean_up(client, copy, options, Ok(begun.made), touched.load(Ordering::Relaxed), why).await),
    }
}

/// One copy: what each of its chains needs.
struct Run<'a> {
    client: &'a Client,
    copy: &'a Copy,
    told: &'a Told<'a>,
    options: &'a RunOptions,
}

impl Run<'_> {
    async fn chunks(
        &self,
        code: &ChunkCode,
        begun: &Begun,
        touched: &AtomicBool,
        progress: impl Fn(Progress),
    ) -> Result<Vec<StepTrace>, Exception> {
        let (size, chunk) = (begun.file.attributes.size, u64::from(self.copy.chunk_bytes.max(1)));
        let (written, trace) = (AtomicU64::new(0), std::sync::Mutex::new(Vec::new()));
        progress(Progress { written: 0, size });
        let carry = |offset: u64| {
            let count = u32::try_from(chunk.min(size - offset)).unwrap_or(u32::MAX);
            let (written, progress, trace) = (&written, &progress, &trace);
            let (from, to) = (self.copy.from.as_str(), self.copy.to.as_str());
            async move {
                let (file, made) = (&begun.file.handle, &begun.made.handle);
                let input = to_value(&Chunk { from, file, to, made, offset, count })?;
                touched.store(true, Ordering::Relaxed);
                let options = RunOptions { profile: offset == 0, ..self.options.clone() };
                let (_, steps): (Verifier, _) = self.traced(&code.chunk, input, &options).await?;
                if offset == 0 {
                    *trace.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = steps;
                }
                let written = written.fetch_add(count.into(), Ordering::Relaxed) + u64::from(count);
                progress(Progress { written, size });
                Ok::<_, Exception>(())
            }
        };
        let offsets = (0..size.div_ceil(chunk)).map(|index| index * chunk);
        in_window(offsets.map(carry), self.copy.window).await?;
        Ok(trace.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    async fn one<R: DeserializeOwned>(&self, code: &Code, input: Value) -> Result<R, Exception> {
        self.traced(code, input, self.options).await.map(|(result, _)| result)
    }

    async fn traced<R: DeserializeOwned>(
        &self,
        code: &Code,
        input: Value,
        options: &RunOptions,
    ) -> Result<(R, Vec<StepTrace>), Exception> {
        let mut replies = self.client.run_with(code, &input, options)?;
        let last = replies.last().await.map_err(|why| self.told.by_chain(why))?;
        Ok((from_value(&last)?, replies.trace().to_vec()))
    }
}
