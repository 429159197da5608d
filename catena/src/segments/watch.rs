//! Failure detection by reading (section 3.7): the owner keeps increasing a word, and the importer checks that by READs with a timeout.

use std::{io::ErrorKind, time::Duration};

use catena_net::awake;
use catena_wire::{Exception, Fault, names};
use tokio::{net::TcpStream, time::Instant};

use super::Imported;

/// How long a probe of the owner's address may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

impl Imported {
    /// Reads the word of 8 bytes at `offset` every `every`, and returns when something is wrong, with a diagnosis as far as one is possible from here. A read
    /// that takes longer than `within` is wrong, and so is a word that has not risen for that long.
    ///
    /// `SegmentRevoked` and `SegmentStale`: the owner says so. `OwnerStalled`: it answers, but the word does not rise. `OwnerRestarted`: another run of it is
    /// there. `OwnerDead`: its host answers, but no process listens. `NetworkCut`: its host does not answer. `OwnerSilent`: it listens, but does not answer.
    pub async fn watch(&self, offset: u64, every: Duration, within: Duration) -> Exception {
        let mut last: Option<(u64, Instant)> = None;
        loop {
            let asked = Instant::now();
            let word = match self.word(offset, within).await {
                Ok(word) => word,
                Err(why) => return why,
            };
            match last {
                // Only the time that is certain counts: from the first answer with this word until a later read was sent.
                Some((before, since)) if word == before => {
                    if asked.saturating_duration_since(since) >= within {
                        return self.stalled(offset, within).await;
                    }
                }
                _ => last = Some((word, Instant::now())),
            }
            awake::sleep(every).await;
        }
    }

    /// Why the word at `offset` has stood still for `within`, as [`Imported::watch`] would say. Takes no longer than one read, for which it waits `within`, and
    /// what it takes to look at the owner's host.
    pub async fn why_still(&self, offset: u64, within: Duration) -> Exception {
        match self.word(offset, within).await {
            Ok(_) => self.stalled(offset, within).await,
            Err(why) => why,
        }
    }

    async fn word(&self, offset: u64, within: Duration) -> Result<u64, Exception> {
        match awake::timeout(within, self.read(offset, 8)).await {
            Ok(Ok(bytes)) => Ok(bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))),
            Ok(Err(why)) if !matches!(why.name.as_str(), names::OWNER_LOST | names::OWNER_SILENT) => Err(why),
            Ok(Err(_)) | Err(_) => Err(self.diagnose().await),
        }
    }

    /// In shared memory the word also stands still when its owner is gone; the diagnosis then says that instead.
    async fn stalled(&self, offset: u64, within: Duration) -> Exception {
        let diagnosis = self.diagnose().await;
        if diagnosis.name != names::OWNER_SILENT {
            return diagnosis;
        }
        let text = format!(
            "the word at {offset} of {} has not risen for {within:?}; its owner's process is there",
            self.inner.shown
        );
        Exception::new(names::OWNER_STALLED, Fault::Service, text)
    }

    /// Diagnoses an owner that does not answer.
    async fn diagnose(&self) -> Exception {
        let owner = &self.inner.owner;
        let told = |name, fault, text: &str| Exception::new(name, fault, format!("{}: {text}", self.inner.shown));
        let Some(address) = &owner.address else {
            return told(names::OWNER_LOST, Fault::Network, "the link to its owner was lost, and nobody can dial it");
        };
        match tokio::time::timeout(LOOK_TIMEOUT, TcpStream::connect(address.as_str())).await {
            Ok(Err(why)) if why.kind() == ErrorKind::ConnectionRefused => {
                return told(names::OWNER_DEAD, Fault::Node, "its owner's process is gone; start it, and import again");
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => {
                return told(
                    names::NETWORK_CUT,
                    Fault::Network,
                    "its owner's host cannot be reached; whether the owner lives is unknown",
                );
            }
        }
        let place = catena_net::Place { address: address.clone(), site: owner.site.clone() };
        let link = async { self.inner.shell.endpoint()?.link_introduced(&place).await.ok() };
        let found = tokio::time::timeout(LOOK_TIMEOUT, link).await.ok().flatten();
        match found.as_ref().and_then(|link| link.identity()) {
            Some(now) if now.node != owner.id.0 => {
                told(names::OWNER_RESTARTED, Fault::Node, "another run of its owner is there; import again")
            }
            _ => told(names::OWNER_SILENT, Fault::Node, "its owner's node is there, and did not answer in time"),
        }
    }
}
