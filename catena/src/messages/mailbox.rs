//! A service's messages.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use catena_wire::{Exception, Fault, names};
use tokio::sync::Notify;

use super::{Answer, Long, Question, Received, Sent, question::ask, sending::Letter};
use crate::{Service, shell::Shell};

/// Where the messages of one service ID arrive, in a bounded queue, and from where it sends its own. Whoever sends finds it wherever it is, as a service is found.
///
/// Dropped, it takes no more; what was not taken is dropped.
pub struct Mailbox {
    shell: Arc<Shell>,
    service: Box<str>,
    bell: Arc<Notify>,
    /// The service is there for its messages alone.
    offered: bool,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Mailbox {
    pub(crate) fn open(shell: &Arc<Shell>, service: &str) -> Result<Self, Exception> {
        let bell = Arc::new(Notify::new());
        let opened = shell.post.machine().open(service, Arc::clone(&bell));
        opened.map_err(|why| {
            let shown: String = service.chars().take(64).collect();
            Exception::new(names::BAD_PARAMETERS, Fault::Caller, format!("mailbox of {shown:?}: {why}"))
        })?;
        let mut mailbox = Self { shell: Arc::clone(shell), service: service.into(), bell, offered: false };
        if shell.service(service).is_none() {
            shell.offer_service(Service::new(service))?;
            mailbox.offered = true;
        }
        Ok(mailbox)
    }

    /// Whose messages these are.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Waits for the next message. Cancel-safe.
    pub async fn receive(&self) -> Received {
        loop {
            if let Some(message) = self.try_receive() {
                return message;
            }
            self.bell.notified().await;
        }
    }

    /// The next message, if there is one now.
    #[must_use]
    pub fn try_receive(&self) -> Option<Received> {
        let (from, datagram) = self.shell.post.machine().take(&self.service)?;
        Some(Received::new(&self.shell, from, datagram))
    }

    /// Sends a short message, which may be lost: see [`crate::Client::send_short`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(&self, to: &str, items: impl IntoIterator<Item = impl Into<Bytes>>) -> Result<(), Exception> {
        send_short(&self.shell, &self.service, to, items.into_iter().map(Into::into).collect()).await
    }

    /// Sends a message of nothing: that it comes is all it says. It may be lost.
    ///
    /// # Errors
    /// As [`crate::Client::send_short`].
    pub async fn signal(&self, to: &str) -> Result<(), Exception> {
        send_short(&self.shell, &self.service, to, Vec::new()).await
    }

    /// Sends a long message: its receiver reads the bytes from here, when it likes and as long as they are held. Returns as soon as it is told so.
    ///
    /// # Errors
    /// As [`crate::Client::send_short`]; `Overloaded`: too much is held for this partner already.
    pub async fn send_long(&self, to: &str, long: Long) -> Result<Sent, Exception> {
        let target = self.shell.target(to).await?;
        self.shell.send_long(&Letter { from: &self.service, target: &target, about: None }, long)
    }

    /// Asks a service, and waits for its answer.
    ///
    /// # Errors
    /// As [`crate::Client::ask`].
    pub async fn ask(&self, to: &str, question: Question) -> Result<Answer, Exception> {
        ask(&self.shell, &self.service, to, question).await
    }
}

/// Sends one short message.
pub(crate) async fn send_short(shell: &Arc<Shell>, from: &str, to: &str, items: Vec<Bytes>) -> Result<(), Exception> {
    // Before the service is looked for: what cannot be sent needs no way.
    let items = super::sending::checked(items)?;
    let target = shell.target(to).await?;
    shell.send_short(&Letter { from, target: &target, about: None }, items)
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let left = self.shell.post.machine().close(&self.service);
        // Their senders are told that nobody reads them.
        left.into_iter().for_each(|(from, datagram)| drop(Received::new(&self.shell, from, datagram)));
        if self.offered {
            let (shell, service) = (Arc::clone(&self.shell), self.service.clone());
            self.shell.runtime().spawn(async move {
                // It has no function that could still run. If it was withdrawn meanwhile, so much the better.
                let _ = shell.withdraw_service(&service, Duration::ZERO).await;
            });
        }
    }
}
