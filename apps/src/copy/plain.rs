//! The copy by plain calls: the baseline, as well pipelined as it can be.

use std::{
    future::Future,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use catena::{Client, Exception, Fault, RunOptions, to_value};
use catena_files::{
    CommitParams, CreateParams, Entry, Kind, LookupParams, ReadParams, ReadResult, RemoveParams, Stable, WriteParams,
    WriteResult,
};
use futures_util::{
    FutureExt, StreamExt, TryStreamExt,
    future::{BoxFuture, Shared},
    stream,
};
use serde::de::IgnoredAny;

use super::{
    Copied, Copy, Progress,
    told::{Told, is_uncertain, may_be_left},
};

/// Copies by plain calls: the target is made while the first chunks are read, reads and writes overlap.
///
/// # Errors
/// Whatever went wrong, with the path of hosts; the half-written target has been removed, or is named.
pub async fn by_rpc(client: &Client, copy: &Copy, progress: impl Fn(Progress)) -> Result<Copied, Exception> {
    copy.check()?;
    let told = Told::new(client, copy);
    copied(client, copy, &told, progress).await.map_err(|why| told.by_calls(why))
}

async fn copied(
    client: &Client,
    copy: &Copy,
    told: &Told<'_>,
    progress: impl Fn(Progress),
) -> Result<Copied, Exception> {
    let began = Instant::now();
    let mark = || u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let lookup = LookupParams { path: Some(copy.source.clone()), ..LookupParams::default() };
    let file: Entry = client.call(&copy.from, "lookup", &lookup).await.map_err(|why| told.lost(why))?;
    let found_us = mark();
    if file.attributes.kind != Kind::File {
        let message = format!("{}: {} is no file", copy.from, copy.source);
        return Err(Exception::new("NotAFile", Fault::Caller, message).calling(&copy.from, "lookup"));
    }
    let carrying = Carrying::new(client, copy, &file);
    let carried = async {
        carrying.all(progress).await?;
        let written_us = mark();
        carrying.commit().await.map(|()| written_us)
    };
    match carried.await {
        Ok(written_us) => {
            Ok(Copied { bytes: file.attributes.size, trace: Vec::new(), marks_us: vec![found_us, written_us] })
        }
        Err(why) => Err(carrying.clean_up(told.lost(why)).await),
    }
}

struct Carrying<'a> {
    client: &'a Client,
    copy: &'a Copy,
    file: &'a Entry,
    /// Everybody waits for the one making of the target, which is never given up half-way: what was made is known.
    made: Shared<BoxFuture<'a, Result<Entry, Exception>>>,
    /// Whether anything may have been written to it.
    touched: AtomicBool,
}

impl<'a> Carrying<'a> {
    fn new(client: &'a Client, copy: &'a Copy, file: &'a Entry) -> Self {
        // Nothing is cut off yet: what is there stays as it is until the first bytes to put in its place have come.
        let made = create(client, copy, None).boxed().shared();
        Self { client, copy, file, made, touched: AtomicBool::new(false) }
    }

    async fn all(&self, progress: impl Fn(Progress)) -> Result<(), Exception> {
        let size = self.file.attributes.size;
        let (written, chunk) = (AtomicU64::new(0), u64::from(self.copy.chunk_bytes.max(1)));
        let carry = |offset: u64| {
            let count = u32::try_from(chunk.min(size - offset)).unwrap_or(u32::MAX);
            let (written, progress) = (&written, &progress);
            async move {
                self.one(offset, count).await?;
                let written = written.fetch_add(count.into(), Ordering::Relaxed) + u64::from(count);
                progress(Progress { written, size });
                Ok::<_, Exception>(())
            }
        };
        let offsets = (0..size.div_ceil(chunk)).map(|index| index * chunk);
        in_window(offsets.map(carry), self.copy.window).await
    }

    async fn one(&self, offset: u64, count: u32) -> Result<(), Exception> {
        let Self { client, copy, file, .. } = *self;
        let read = ReadParams { handle: file.handle.clone(), offset, count };
        let read = client.call::<_, ReadResult>(&copy.from, "read", &read);
        let (part, made) = tokio::try_join!(read, self.made.clone())?;
        let data = part.data;
        if data.len() != count as usize {
            let message = format!("{}: {} grew shorter while it was copied", copy.from, copy.source);
            return Err(Exception::new("Changed", Fault::Service, message).calling(&copy.from, "read"));
        }
        self.touched.store(true, Ordering::Relaxed);
        let write = WriteParams { handle: made.handle, offset, data, stable: Stable::Unstable };
        client.call::<_, WriteResult>(&copy.to, "write", &write).await.map(drop)
    }

    async fn commit(&self) -> Result<(), Exception> {
        let Self { client, copy, file, .. } = *self;
        let made = self.made.clone().await?;
        self.touched.store(true, Ordering::Relaxed);
        if made.attributes.size > file.attributes.size {
            create(client, copy, Some(file.attributes.size)).await?;
        }
        let commit = CommitParams { handle: made.handle, offset: 0, count: 0 };
        client.call::<_, IgnoredAny>(&copy.to, "commit", &commit).await.map(drop)
    }

    async fn clean_up(&self, why: Exception) -> Exception {
        let Self { client, copy, .. } = *self;
        let (made, touched) = (self.made.clone().await, self.touched.load(Ordering::Relaxed));
        clean_up(client, copy, &RunOptions::default(), made, touched, why).await
    }
}

/// Removes what was half written, if anything was, and says what became of the target.
pub(super) async fn clean_up(
    client: &Client,
    copy: &Copy,
    options: &RunOptions,
    made: Result<Entry, Exception>,
    touched: bool,
    mut why: Exception,
) -> Exception {
    match made {
        Ok(made) if touched || made.attributes.size == 0 => {
            let remove = RemoveParams { path: Some(copy.target.clone()), ..RemoveParams::default() };
            let removed = match to_value(&remove) {
                Ok(params) => client.call_with(&copy.to, "remove", params, options).await,
                Err(why) => Err(why),
            };
            let outcome = match removed {
                Ok(_) => "has been removed".to_owned(),
                Err(second) => format!("could not be removed ({}): remove it there", second.message),
            };
            why.message = format!("{}; the half-written {} at {} {outcome}", why.message, copy.target, copy.to);
        }
        Err(second) if is_uncertain(&second) => why.message = may_be_left(&why.message, copy),
        Ok(_) => why.message = format!("{}; {} at {} is as it was", why.message, copy.target, copy.to),
        Err(_) => {}
    }
    why
}

async fn create(client: &Client, copy: &Copy, size: Option<u64>) -> Result<Entry, Exception> {
    let create = CreateParams { path: Some(copy.target.clone()), size, ..CreateParams::default() };
    client.call(&copy.to, "create", &create).await
}

pub(super) async fn in_window<F>(chunks: impl Iterator<Item = F>, window: u32) -> Result<(), Exception>
where
    F: Future<Output = Result<(), Exception>>,
{
    stream::iter(chunks).buffer_unordered(window.max(1) as usize).try_collect().await
}
