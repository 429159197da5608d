//! The node's service: a desk that takes notes, and does jobs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catena::{Blob, Context, Service, ServiceError, SubChain};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::watch;

/// A note to be taken.
#[derive(Clone, Debug, Deserialize)]
struct Note {
    text: String,
    /// Waits for `open` before it is taken, or after: a function that takes its time.
    #[serde(default)]
    wait: Option<Wait>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wait {
    Before,
    After,
}

/// A job: a function, and what it is given.
#[derive(Clone, Debug, Deserialize)]
struct Job {
    source: String,
    #[serde(default)]
    input: Json,
}

/// What the functions of one desk share.
struct Desk {
    name: String,
    taken: Mutex<BTreeMap<String, u32>>,
    open: watch::Sender<bool>,
}

/// A service of this name.
pub(crate) fn desk(name: &str) -> Service {
    let desk = Arc::new(Desk { name: name.into(), taken: Mutex::default(), open: watch::Sender::new(false) });
    let take = {
        let desk = Arc::clone(&desk);
        move |note: Note| Arc::clone(&desk).take(note)
    };
    let (opening, counting, holding) = (Arc::clone(&desk), Arc::clone(&desk), Arc::clone(&desk));
    let service = Service::new(name)
        .function_in("where", async |context: Context, _: Json| Ok(context.node.to_string()))
        .function_raw("echo", async |_, value| Ok(value))
        .function("note", take.clone())
        // Notes that may be taken twice: chains go on at another desk of this name if this one is lost.
        .function("jot", take)
        .repeatable("jot")
        // Only waits.
        .function("hold", move |_: Json| {
            let desk = Arc::clone(&holding);
            async move {
                let _ = desk.open.subscribe().wait_for(|open| *open).await;
                Ok(())
            }
        })
        .function("count", move |text: String| std::future::ready(Ok(counting.count(&text))))
        .repeatable("count")
        .function("open", move |_: Json| {
            opening.open.send_replace(true);
            std::future::ready(Ok(()))
        })
        .function("fail", async |why: Json| {
            Err::<(), _>(ServiceError::named("Refused", "as it was asked to").with_params(&why))
        });
    with_jobs(with_segments(with_pictures(service)), &desk)
}

/// A picture to be painted.
#[derive(Clone, Debug, Deserialize)]
struct Picture {
    bytes: u32,
    /// How long it is kept, with the node's grace; otherwise as long as the chain may take.
    #[serde(default)]
    keep_ms: Option<u64>,
}

/// Functions that give and take values by reference.
fn with_pictures(service: Service) -> Service {
    service
        .function_in("paint", async |context: Context, picture: Picture| {
            let bytes: Vec<u8> = (0..picture.bytes).map(|at| at.to_le_bytes()[0]).collect();
            Ok(match picture.keep_ms {
                Some(ms) => context.blob_for(&bytes, "image/x-test", Duration::from_millis(ms))?,
                None => context.blob(&bytes, "image/x-test")?,
            })
        })
        .function("look", async |picture: Blob| {
            let sum: u64 = picture.bytes().await?.iter().map(|byte| u64::from(*byte)).sum();
            Ok(json!({ "size": picture.size(), "type": picture.media_type(), "sum": sum, "by": picture.owner().name }))
        })
        .function("discard", async |picture: Blob| Ok(picture.release()))
}

/// A WRITE of as many ones as `bytes` says, from the segment's beginning on.
#[derive(Clone, Debug, Deserialize)]
struct Ones {
    segment: String,
    bytes: usize,
}

/// Functions that reach segments of others.
fn with_segments(service: Service) -> Service {
    service.function_in("write", async |context: Context, ones: Ones| {
        let segment = context.client().import(&ones.segment).await?;
        segment.write(0, vec![1; ones.bytes]).await?;
        segment.flush().await?;
        Ok(())
    })
}

/// Functions that answer with chains of their own: whoever calls becomes that chain.
fn with_jobs(service: Service, desk: &Arc<Desk>) -> Service {
    let (plain, caught, catching) = (Arc::clone(desk), Arc::clone(desk), Arc::clone(desk));
    service
        .chain("job", move |context, job| Arc::clone(&plain).job(context, job))
        .chain("job_caught", move |context, job| {
            let begun = Arc::clone(&caught).job(context, job);
            async move { Ok(begun.await?.catch("caught")) }
        })
        .function("caught", move |why: Json| {
            println!("{} caught {}", catching.name, why["name"]);
            std::future::ready(Ok(json!({ "caught_by": catching.name, "why": why })))
        })
}

impl Desk {
    async fn take(self: Arc<Self>, note: Note) -> Result<u32, ServiceError> {
        println!("{} begins {}", self.name, note.text);
        if note.wait == Some(Wait::Before) {
            self.wait(&note.text).await;
        }
        {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            *taken.entry(note.text.clone()).or_default() += 1;
        }
        println!("{} noted {}", self.name, note.text);
        if note.wait == Some(Wait::After) {
            self.wait(&note.text).await;
        }
        Ok(self.count(&note.text))
    }

    /// Until the desk is open. A call that its caller gave up is dropped here, at its `await`.
    async fn wait(&self, text: &str) {
        let mut leaving = Leaving { line: Some(format!("{} let go of {text}", self.name)) };
        // The sender is this desk's own, so it is there.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        leaving.line = None;
    }

    fn count(&self, text: &str) -> u32 {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).get(text).copied().unwrap_or_default()
    }

    /// What the job emits comes back here, wherever it has gone.
    async fn job(self: Arc<Self>, context: Context, job: Job) -> Result<SubChain, ServiceError> {
        let code = context.client().javascript("job.js", &job.source).await?;
        let hear = move |value| match catena::from_value::<Json>(&value) {
            Ok(value) => println!("{} heard {value}", self.name),
            Err(why) => println!("{} heard what it cannot read: {why}", self.name),
        };
        Ok(SubChain::new(&code, &job.input)?.hear(hear))
    }
}

/// Says that a call was dropped.
struct Leaving {
    line: Option<String>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            println!("{line}");
        }
    }
}
