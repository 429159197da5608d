//! The clerk: the service's part on its clients' machines. It READs the server's caches, and asks the server only for what is not there.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena_files::{FileError, Status};

use crate::{
    limits::RECONNECT_TIMEOUT,
    protocol::{Reply, Request},
    session::Session,
};

/// How a clerk comes by what it is asked for (section 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Way {
    /// By READs of the server's caches; control only for what is not there, and for changes (DX).
    Data,
    /// By one WRITE with a notification, answered by a WRITE (Hybrid-1, HY).
    Hybrid,
    /// By ordinary calls.
    Call,
}

/// How a clerk is to work.
#[derive(Clone, Debug)]
pub struct ClerkConfig {
    /// The server's address, `host:port`.
    pub server: String,
    /// How it gets what it is asked for.
    pub way: Way,
    /// Whether to share memory with a server on the same host.
    pub shared_memory: bool,
    /// How long to try to reach a server that is not there.
    pub patience: Duration,
}

impl ClerkConfig {
    /// A clerk of the server at this address, by READs.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), way: Way::Data, shared_memory: true, patience: RECONNECT_TIMEOUT }
    }
}

/// How often the tables had what was wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// READs that found it.
    pub hits: u64,
    /// Operations for which control went to the server.
    pub asked: u64,
    /// Sessions that were begun: one, and one for each time that the server was lost.
    pub sessions: u64,
}

/// A clerk. Cheap to clone; clones share the connection.
///
/// Guarantee: what it gives was so at some moment between the call and its return, as far as clerks changed it: once a change by any clerk has returned, every
/// clerk sees it (more than close-to-open). Of what a file holds this goes for each block of 8 KiB: a read of several may mix two writes, and of a block that the
/// server is asked for while it is written, its file system decides what is read. What others change in the directory itself is seen a second later.
#[derive(Clone)]
pub struct Clerk {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClerkConfig,
    session: RwLock<Arc<Session>>,
    /// Held while reconnecting, so that only one task does it.
    renewing: tokio::sync::Mutex<()>,
    hits: AtomicU64,
    asked: AtomicU64,
    sessions: AtomicU64,
}

impl Clerk {
    /// Connects to the server.
    ///
    /// # Errors
    /// [`FileError::Unreachable`]
    pub async fn connect(config: ClerkConfig) -> Result<Self, FileError> {
        let session = RwLock::new(Arc::new(Session::open(&config).await?));
        let renewing = tokio::sync::Mutex::default();
        let (hits, asked, sessions) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(1));
        Ok(Self { inner: Arc::new(Inner { config, session, renewing, hits, asked, sessions }) })
    }

    /// How it gets what it is asked for.
    #[must_use]
    pub fn way(&self) -> Way {
        self.inner.config.way
    }

    /// How often the tables had what was wanted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Inner { hits, asked, sessions, .. } = &*self.inner;
        Counts {
            hits: hits.load(Ordering::Relaxed),
            asked: asked.load(Ordering::Relaxed),
            sessions: sessions.load(Ordering::Relaxed),
        }
    }

    /// Bytes that crossed its links in this session.
    #[must_use]
    pub fn traffic(&self) -> u64 {
        self.current().traffic()
    }

    /// Bytes of this session's requests and replies for which control went to the server, any data in them included; without those sent as ordinary calls.
    #[must_use]
    pub fn control_bytes(&self) -> u64 {
        self.current().control_bytes()
    }

    /// How READs currently reach the server's data.
    #[must_use]
    pub fn reads_by(&self) -> catena::Way {
        self.current().attributes.segment().way()
    }

    fn current(&self) -> Arc<Session> {
        Arc::clone(&self.inner.session.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A session whose server was alive a moment ago.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, FileError> {
        let session = self.current();
        if session.lease.is_good() { Ok(session) } else { self.renew(&session).await }
    }

    /// The number of its server's run.
    pub(crate) async fn server_run(&self) -> Result<u64, FileError> {
        Ok(self.session().await?.run)
    }

    /// Reconnects, unless somebody else has done so since `failed` was the session.
    async fn renew(&self, failed: &Arc<Session>) -> Result<Arc<Session>, FileError> {
        let _one = self.inner.renewing.lock().await;
        let session = self.current();
        if !Arc::ptr_eq(&session, failed) {
            return Ok(session);
        }
        let session = Arc::new(Session::open(&self.inner.config).await?);
        *self.inner.session.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&session);
        self.inner.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(session)
    }

    /// The result of READs, if this clerk reads: `None` is a miss, or a READ that failed. What was read counts only if the server was still alive afterwards.
    pub(crate) async fn find<T>(&self, read: impl AsyncFnOnce(&Session) -> Option<T>) -> Option<T> {
        if self.inner.config.way != Way::Data {
            return None;
        }
        let session = self.session().await.ok()?;
        let found = read(&session).await?;
        session.lease.is_good().then(|| {
            self.inner.hits.fetch_add(1, Ordering::Relaxed);
            found
        })
    }

    /// Has the server do something.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, FileError> {
        const TRIES: u32 = 3;
        self.inner.asked.fetch_add(1, Ordering::Relaxed);
        let mut tried = 0;
        loop {
            tried += 1;
            let session = self.session().await?;
            let why = match session.ask(self.inner.config.way, &request).await {
                Ok(reply @ Reply::Refused { .. }) => return Err(reply.unexpected()),
                Ok(reply) => return Ok(reply),
                Err(why) => why,
            };
            let what = format!("{request:.40?}");
            let server = self.inner.config.server.clone();
            // What may have been done is not repeated, unless repeating it does no harm.
            if why.unknown && !request.is_repeatable() {
                drop(self.renew(&session).await);
                return Err(FileError::OutcomeUnknown { what, server, cause: why.to_string() });
            }
            if tried == TRIES {
                return Err(FileError::Unreachable { what, server, cause: why.to_string() });
            }
            if why.name == "TooLong" {
                return Err(FileError::nfs(Status::Inval, why.message));
            }
            self.renew(&session).await?;
        }
    }
}
