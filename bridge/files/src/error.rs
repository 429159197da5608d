//! What a file service answers when it cannot do what it was asked.

use crate::Status;

/// Why a call of the file service failed. [`FileError::name`] is for programs, the message for people: what was asked,
/// what is wrong with it, what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The service refused, with one of NFSv3's words.
    #[error("{}: {what}: {}; {}", status.name(), status.meaning(), status.advice())]
    Nfs {
        /// The word.
        status: Status,
        /// The function and the path or handle it was about, and any detail the service gave.
        what: String,
    },
    /// The caller asked for more than one call may carry.
    #[error("FILES_LIMIT: {what}: {asked} is over {limit} = {max}; ask for less, in several calls")]
    Limit {
        /// The function and the path or handle it was about.
        what: String,
        /// The limit's name, with its unit.
        limit: &'static str,
        /// The limit.
        max: u64,
        /// What was asked for.
        asked: u64,
    },
    /// Too many calls wait already; this one was not begun.
    #[error("FILES_BUSY: {what}: {waiting_max} calls wait already, so this one was not begun; try again in a while")]
    Busy {
        /// The function.
        what: String,
        /// How many may wait.
        waiting_max: usize,
    },
    /// The server behind the service could not be reached; the call had no effect there.
    #[error(
        "FILES_UNREACHABLE: {what}: {server}: {cause}; the call had no effect: see that the server runs and try again"
    )]
    Unreachable {
        /// The function and the path or handle it was about.
        what: String,
        /// The server, as host and port.
        server: String,
        /// What happened.
        cause: String,
    },
    /// The call was sent, but the connection to the server was lost before its answer came.
    #[error(
        "FILES_OUTCOME_UNKNOWN: {what}: {server}: {cause}; the server may or may not have done it: look before doing it again"
    )]
    OutcomeUnknown {
        /// The function and the path or handle it was about.
        what: String,
        /// The server, as host and port.
        server: String,
        /// What happened.
        cause: String,
    },
}

impl FileError {
    /// An error with one of NFSv3's words; `what` says the function and the path or handle.
    pub fn nfs(status: Status, what: impl Into<String>) -> Self {
        Self::Nfs { status, what: what.into() }
    }

    /// The name that programs compare: the exact NFS name (`NFS3ERR_NOENT`), or one that begins with `FILES_` for what
    /// NFS has no word for (`FILES_LIMIT`, `FILES_BUSY`, `FILES_UNREACHABLE`, `FILES_OUTCOME_UNKNOWN`).
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nfs { status, .. } => status.name(),
            Self::Limit { .. } => "FILES_LIMIT",
            Self::Busy { .. } => "FILES_BUSY",
            Self::Unreachable { .. } => "FILES_UNREACHABLE",
            Self::OutcomeUnknown { .. } => "FILES_OUTCOME_UNKNOWN",
        }
    }

    /// The message without the name, for use where the name comes before it.
    #[must_use]
    pub fn message(&self) -> String {
        let whole = self.to_string();
        whole.strip_prefix(self.name()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&whole).to_owned()
    }

    /// The NFS word, if the service refused with one.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Nfs { status, .. } => Some(*status),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_and_its_number_and_name_belong_together() {
        for status in Status::ALL {
            assert_eq!(Status::from_number(status.number()), Some(*status));
            assert!(status.name().starts_with("NFS3ERR_"), "{status:?}");
        }
        assert_eq!(Status::from_number(0), None);
        assert_eq!(Status::from_number(10001).map(Status::name), Some("NFS3ERR_BADHANDLE"));
    }

    #[test]
    fn a_message_says_the_name_the_path_and_what_to_do() {
        let error = FileError::nfs(Status::NoEnt, "lookup of \"a/b\"");
        assert_eq!(error.name(), "NFS3ERR_NOENT");
        assert_eq!(
            error.to_string(),
            "NFS3ERR_NOENT: lookup of \"a/b\": no such file or directory; check the name, or make it with create or mkdir"
        );
        assert_eq!(
            error.message(),
            "lookup of \"a/b\": no such file or directory; check the name, or make it with create or mkdir"
        );
        let busy = FileError::Busy { what: "read".to_owned(), waiting_max: 7 };
        assert!(busy.message().starts_with("read: 7 calls wait already"), "{}", busy.message());
    }
}
