//! A service's messages.

use std::sync::Arc;

use bytes::Bytes;
use catena_wire::{Exception, Fault, names};
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::{Answer, Long, Question, Received, Sent, question::ask, sending::Letter};
use crate::{Service, shell::Shell};

/// The bounded queue in which messages for one service ID arrive, and a handle to send its own. Senders find it as they find a service, wherever it is.
///
/// Once it is dropped, no more messages are accepted; those that were not taken are dropped.
pub struct Mailbox {
    shell: Arc<Shell>,
    service: Box<str>,
    bell: Arc<Notify>,
    /// The service, if it exists for its messages alone.
    offered: Option<Arc<Service>>,
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
        let mut mailbox = Self { shell: Arc::clone(shell), service: service.into(), bell, offered: None };
        if shell.service(service).is_none() {
            shell.offer_service(Service::new(service))?;
            mailbox.offered = shell.service(service);
        }
        Ok(mailbox)
    }

    /// The service ID whose messages arrive here.
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

    /// The next message, if one has arrived.
    #[must_use]
    pub fn try_receive(&self) -> Option<Received> {
        let (from, datagram) = self.shell.post.machine().take(&self.service)?;
        Some(Received::new(&self.shell, from, datagram))
    }

    /// Sends a short message, which may be lost: see [`crate::Client::send_short`].
    ///
    /// # Errors
    /// As [`crate::Client::send_short`].
    pub async fn send(&self, to: &str, items: impl IntoIterator<Item = impl Into<Bytes>>) -> Result<(), Exception> {
        send_short(&self.shell, &self.service, to, items.into_iter().map(Into::into).collect()).await
    }

    /// Sends an empty message: its arrival is all that it says. It may be lost.
    ///
    /// # Errors
    /// As [`crate::Client::send_short`].
    pub async fn signal(&self, to: &str) -> Result<(), Exception> {
        send_short(&self.shell, &self.service, to, Vec::new()).await
    }

    /// Sends a long message: the receiver reads its bytes from here when it likes, while they are held. Returns as soon as the announcement is with the link.
    ///
    /// # Errors
    /// As [`crate::Client::send_short`]; `Overloaded`: too much is held for this partner already.
    pub async fn send_long(&self, to: &str, long: Long) -> Result<Sent, Exception> {
        let target = self.shell.target(to).await?;
        self.shell.send_long(&Letter { from: &self.service, target: &target, about: None }, long)
    }

    /// Asks a service, and waits for its answer: see [`crate::Client::ask`].
    ///
    /// # Errors
    /// As [`crate::Client::ask`].
    pub async fn ask(&self, to: &str, question: Question) -> Result<Answer, Exception> {
        ask(&self.shell, &self.service, to, question).await
    }
}

/// Sends one short message.
pub(crate) fn send_short<'a>(
    shell: &'a Arc<Shell>,
    from: &'a str,
    to: &'a str,
    items: Vec<Bytes>,
) -> BoxFuture<'a, Result<(), Exception>> {
    Box::pin(async move {
        // Checked before the service is looked for: a message that cannot be sent needs no route.
        let items = super::sending::checked(items)?;
        let target = shell.target(to).await?;
        shell.send_short(&Letter { from, target: &target, about: None }, items)
    })
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // Before it is closed: whoever opens it anew then offers it anew.
        if let Some(service) = &self.offered {
            self.shell.withdraw_at_once(service);
        }
        let left = self.shell.post.machine().close(&self.service);
        // Tells the senders that nobody will read these.
        left.into_iter().for_each(|(from, datagram)| drop(Received::new(&self.shell, from, datagram)));
    }
}
