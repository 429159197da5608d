//! The error message of a copy that failed: along which hosts, what became of the target, what to do next.

use catena::{Client, Exception, Fault, exceptions};

use super::Copy;

/// After these exceptions, a call may or may not have taken effect, or the function had no influence on how it ended.
const UNCERTAIN: [&str; 9] = [
    exceptions::CHAIN_LOST,
    exceptions::NODE_LOST,
    exceptions::DEADLINE_EXCEEDED,
    exceptions::HOP_BUDGET_EXCEEDED,
    exceptions::LIMIT_EXCEEDED,
    exceptions::STALLED,
    exceptions::OVERLOADED,
    exceptions::CANCELLED,
    exceptions::BAD_CONTINUATION,
];

/// Whether an exception leaves it unknown what was done.
pub(super) fn is_uncertain(why: &Exception) -> bool {
    why.unknown || UNCERTAIN.contains(&why.name.as_str())
}

/// The hosts that take part in a copy, recorded before it begins: afterwards, hosts that are down are no longer known.
pub(super) struct Told<'a> {
    copy: &'a Copy,
    me: String,
    from: Option<String>,
    to: Option<String>,
    /// The chain has sent something from the target's node.
    pub(super) at_target: bool,
}

impl<'a> Told<'a> {
    pub(super) fn new(client: &Client, copy: &'a Copy) -> Self {
        let known = client.known_services();
        let host =
            |service: &str| known.iter().find(|entry| entry.service == service).map(|entry| entry.node.name.clone());
        Self { copy, me: client.name().to_owned(), from: host(&copy.from), to: host(&copy.to), at_target: false }
    }

    /// Describes a chain that ended by an exception. One that was lost could not report where it had been.
    pub(super) fn by_chain(&self, mut why: Exception) -> Exception {
        if why.name == exceptions::CHAIN_LOST || (why.name == exceptions::DEADLINE_EXCEEDED && why.path.len() < 2) {
            let beyond = if self.at_target { self.to.as_ref() } else { None };
            let hosts = [Some(&self.me), self.from.as_ref(), beyond];
            why.path = hosts.into_iter().flatten().cloned().collect();
        }
        let said = why.message.contains(&format!("{} at {} ", self.copy.target, self.copy.to));
        if is_uncertain(&why) && !said {
            why.message = may_be_left(&why.message, self.copy);
        }
        self.advised(why)
    }

    /// A service that is unknown now was lost if it was known when the copy began: the mesh forgets those that are down.
    pub(super) fn lost(&self, why: Exception) -> Exception {
        let Some(host) = self.host_called(&why).filter(|_| why.name == exceptions::UNKNOWN_SERVICE) else { return why };
        let message =
            format!("{host} was there when the copy began, and is gone; check that it is up, then copy again");
        Exception { name: exceptions::NODE_UNREACHABLE.into(), fault: Fault::Network, message, ..why }
    }

    /// Describes a plain call that failed: its path is from here to the node that was called.
    pub(super) fn by_calls(&self, mut why: Exception) -> Exception {
        if why.path.is_empty() {
            why.path.extend(self.host_called(&why).cloned());
        }
        if why.path.first() != Some(&self.me) {
            why.path.insert(0, self.me.clone());
        }
        self.advised(why)
    }

    fn host_called(&self, why: &Exception) -> Option<&String> {
        let (service, _) = why.target.as_deref()?.rsplit_once('/')?;
        if service == self.copy.from { self.from.as_ref() } else { self.to.as_ref() }
    }

    /// Adds advice: the mesh cannot tell a node that is down from one that never existed.
    fn advised(&self, mut why: Exception) -> Exception {
        if why.name == exceptions::UNKNOWN_SERVICE {
            why.message += "; if its name is right, its node is down or has not joined: start it, then copy again";
        }
        why
    }
}

/// Names a target that may be half-written.
pub(super) fn may_be_left(message: &str, copy: &Copy) -> String {
    format!("{message}; {} may be left half-written at {}: look there, and remove it", copy.target, copy.to)
}
