//! Functions that are kept at this node, and in a registry that outlives every node.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use catena_net::LogLimit;
use catena_wire::{Exception, Hash, Message, NodeRef};
use tokio::sync::Semaphore;

use super::Shell;

/// How long the registry may take to return or store a function.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(4);
/// The largest function that is accepted from it.
const CODE_BYTES_MAX: usize = 32 << 20;

/// The most functions that are fetched from registries for other nodes at one time.
static FETCHES: Semaphore = Semaphore::const_new(8);
/// The most functions that are pushed to registries at one time.
static PUSHES: Semaphore = Semaphore::const_new(64);
/// Limits log lines about registry errors, since anyone who sends functions can cause them.
static LINES: LogLimit = LogLimit::new();

impl Shell {
    /// Keeps a function; if this node has a folder for functions, also for the next start.
    pub(crate) fn keep_code(&self, code: Hash, bytes: &Bytes) -> Result<(), Exception> {
        if let Some(filing) = self.store.put(code, bytes)? {
            self.runtime.spawn_blocking(move || filing.file());
        }
        Ok(())
    }

    pub(super) fn serve_code(self: &Arc<Self>, code: Hash, to: Arc<NodeRef>) {
        if let Some(bytes) = self.store.get(code) {
            return self.tell(to, Message::Code(code, bytes));
        }
        if self.settings.registry.is_none() || !self.settings.repository {
            return self.tell(to, Message::NoCode(code));
        }
        // Whoever gets no answer asks others, and this node again; `NoCode` would be its last word.
        let Ok(turn) = FETCHES.try_acquire() else { return };
        let shell = Arc::clone(self);
        self.runtime.spawn(async move {
            let _turn = turn;
            let found = shell.fetch_from_registry(code).await.filter(|bytes| shell.keep_code(code, bytes).is_ok());
            shell.tell(to, found.map_or(Message::NoCode(code), |bytes| Message::Code(code, bytes)));
        });
    }

    /// Asks the registry for a function that no node has.
    pub(super) fn fetch_code(self: &Arc<Self>, code: Hash) {
        let shell = Arc::clone(self);
        self.runtime.spawn(async move {
            let found = shell.fetch_from_registry(code).await;
            let now = shell.now();
            shell.core().on_code_fetched(now, code, found);
            shell.drive();
        });
    }

    async fn fetch_from_registry(&self, code: Hash) -> Option<Bytes> {
        let registry = self.settings.registry.as_ref()?;
        let found = tokio::time::timeout(REGISTRY_TIMEOUT, registry.get(code, CODE_BYTES_MAX)).await;
        let why = match found {
            Ok(Ok(found)) => return found,
            Ok(Err(why)) => why.to_string(),
            Err(_) => not_in_time(),
        };
        if let Some(left_out) = LINES.pass() {
            tracing::warn!(registry = registry.name(), why, left_out, "a function could not be fetched");
        }
        None
    }

    /// Pushes a function to the registry, if there is one. If that fails, it is pushed again when the function is next offered.
    pub(crate) fn push_code(self: &Arc<Self>, code: Hash, bytes: Bytes) {
        let Some(registry) = self.settings.registry.clone() else { return };
        let Ok(turn) = PUSHES.try_acquire() else {
            return not_kept(registry.name(), "others are on their way");
        };
        self.runtime.spawn(async move {
            let _turn = turn;
            let kept = tokio::time::timeout(REGISTRY_TIMEOUT, registry.put(code, bytes)).await;
            let why = match kept {
                Ok(Ok(())) => return,
                Ok(Err(why)) => why.to_string(),
                Err(_) => not_in_time(),
            };
            not_kept(registry.name(), &why);
        });
    }
}

fn not_in_time() -> String {
    format!("no answer within {} s", REGISTRY_TIMEOUT.as_secs())
}

fn not_kept(registry: &str, why: &str) {
    if let Some(left_out) = LINES.pass() {
        tracing::warn!(registry, why, left_out, "a function is not kept there: nodes have it as long as they run");
    }
}
