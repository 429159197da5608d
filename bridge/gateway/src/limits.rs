//! Every bound of a gateway, by name and unit.

use std::time::Duration;

/// The bounds. A refusal names the bound that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: usize,
    /// Of these, from one client address (for IPv6, one network of 64 bits).
    pub connections_per_address_max: usize,
    /// Calls and chains under way for one client address.
    pub streams_per_address_max: usize,
    /// Bytes of a request's head.
    pub head_bytes_max: usize,
    /// How long a request's head may take to arrive, also that of the next request on an idle connection.
    pub head_timeout_ms: u64,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// How long a request's body may take to arrive.
    pub body_timeout_ms: u64,
    /// Bytes of one reply, as JSON.
    pub reply_bytes_max: usize,
    /// Bytes of the replies of one stream together, as JSON.
    pub stream_bytes_max: u64,
    /// Replies of one stream.
    pub replies_max: u64,
    /// How long a call or chain may take; a browser may ask for less (`Catena-Timeout-Ms`).
    pub call_timeout_ms: u64,
    /// How long a browser may take next to nothing of the data waiting for it, before it counts as gone.
    pub write_timeout_ms: u64,
    /// How often a stream in which nothing happens sends a sign of life.
    pub heartbeat_ms: u64,
    /// Bytes of a file that is served.
    pub file_bytes_max: usize,
    /// Addresses of blobs that are valid at a time; the oldest make room.
    pub blobs_max: usize,
    /// Of these, for one client address.
    pub blobs_per_address_max: usize,
    /// How long such an address is valid.
    pub blob_ms: u64,
    /// Bytes of a blob that has such an address.
    pub blob_bytes_max: u64,
    /// Memory for incoming bodies and outgoing replies, in bytes: whoever needs more waits, or is refused.
    pub memory_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            connections_per_address_max: 64,
            streams_per_address_max: 32,
            head_bytes_max: 16 << 10,
            head_timeout_ms: 10_000,
            body_bytes_max: 1 << 20,
            body_timeout_ms: 10_000,
            reply_bytes_max: 8 << 20,
            stream_bytes_max: 1 << 30,
            replies_max: 10_000_000,
            call_timeout_ms: 60_000,
            write_timeout_ms: 30_000,
            heartbeat_ms: 15_000,
            file_bytes_max: 16 << 20,
            blobs_max: 4_096,
            blobs_per_address_max: 256,
            blob_ms: 60_000,
            blob_bytes_max: 1 << 30,
            memory_bytes_max: 256 << 20,
        }
    }
}

/// Why a limit cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is no limit of this name.
    #[error("there is no limit {0:?}; there are: {1}")]
    Unknown(String, String),
    /// It is not NAME=NUMBER.
    #[error("{0:?} is not of the form NAME=NUMBER, such as reply_bytes_max=1048576; a number is at least 1")]
    Form(String),
    /// One limit conflicts with another.
    #[error("{0}")]
    Together(String),
}

impl Limits {
    /// Sets one, written as `NAME=NUMBER`.
    ///
    /// # Errors
    /// [`LimitError`], with the names there are.
    pub fn set(&mut self, text: &str) -> Result<(), LimitError> {
        let form = || LimitError::Form(text.to_owned());
        let (name, number) = text.split_once('=').ok_or_else(form)?;
        let number = number.replace('_', "").parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(form)?;
        let Some((_, field)) = self.fields().into_iter().find(|(known, _)| *known == name) else {
            return Err(LimitError::Unknown(name.to_owned(), Self::names().join(", ")));
        };
        match field {
            Field::Size(field) => *field = number as usize,
            Field::Count(field) => *field = u64::from(number),
        }
        Ok(())
    }

    /// The names of all limits, in the order of the fields.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Self::default().fields().into_iter().map(|(name, _)| name).collect()
    }

    /// Whether the limits are consistent with each other.
    ///
    /// # Errors
    /// Which limits conflict.
    pub(crate) fn check(&self) -> Result<(), LimitError> {
        let largest = self.reply_bytes_max.max(self.file_bytes_max).max(self.body_cost(self.body_bytes_max));
        if largest > self.memory_bytes_max || self.memory_bytes_max > u32::MAX as usize {
            let message = format!(
                "memory_bytes_max is {}: it must be at least {largest} (the largest of reply_bytes_max, file_bytes_max and {BODY_COST} times body_bytes_max), and less than 4 GiB",
                self.memory_bytes_max
            );
            return Err(LimitError::Together(message));
        }
        Ok(())
    }

    /// The memory that a body of so many bytes may take while it is read.
    pub(crate) const fn body_cost(&self, bytes: usize) -> usize {
        bytes.saturating_mul(BODY_COST)
    }

    pub(crate) const fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms)
    }

    pub(crate) const fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) const fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub(crate) const fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    fn fields(&mut self) -> [(&'static str, Field<'_>); 19] {
        [
            ("connections_max", Field::Size(&mut self.connections_max)),
            ("connections_per_address_max", Field::Size(&mut self.connections_per_address_max)),
            ("streams_per_address_max", Field::Size(&mut self.streams_per_address_max)),
            ("head_bytes_max", Field::Size(&mut self.head_bytes_max)),
            ("head_timeout_ms", Field::Count(&mut self.head_timeout_ms)),
            ("body_bytes_max", Field::Size(&mut self.body_bytes_max)),
            ("body_timeout_ms", Field::Count(&mut self.body_timeout_ms)),
            ("reply_bytes_max", Field::Size(&mut self.reply_bytes_max)),
            ("stream_bytes_max", Field::Count(&mut self.stream_bytes_max)),
            ("replies_max", Field::Count(&mut self.replies_max)),
            ("call_timeout_ms", Field::Count(&mut self.call_timeout_ms)),
            ("write_timeout_ms", Field::Count(&mut self.write_timeout_ms)),
            ("heartbeat_ms", Field::Count(&mut self.heartbeat_ms)),
            ("file_bytes_max", Field::Size(&mut self.file_bytes_max)),
            ("blobs_max", Field::Size(&mut self.blobs_max)),
            ("blobs_per_address_max", Field::Size(&mut self.blobs_per_address_max)),
            ("blob_ms", Field::Count(&mut self.blob_ms)),
            ("blob_bytes_max", Field::Count(&mut self.blob_bytes_max)),
            ("memory_bytes_max", Field::Size(&mut self.memory_bytes_max)),
        ]
    }
}

/// Bytes of memory that a value read from JSON takes per byte of its text, at most.
const BODY_COST: usize = 16;

enum Field<'a> {
    Size(&'a mut usize),
    Count(&'a mut u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_set_by_its_name() {
        let mut limits = Limits::default();
        assert_eq!(limits.set("reply_bytes_max=1_000"), Ok(()));
        assert_eq!(limits.reply_bytes_max, 1_000);
        assert_eq!(limits.set("heartbeat_ms=7"), Ok(()));
        assert_eq!(limits.heartbeat_ms, 7);
        for wrong in ["reply_bytes_max", "reply_bytes_max=", "reply_bytes_max=0", "reply_bytes_max=-1", "x=1"] {
            assert!(limits.set(wrong).is_err(), "{wrong}");
        }
        assert_eq!(limits.check(), Ok(()));
        assert_eq!(limits.set("memory_bytes_max=1000"), Ok(()));
        assert!(limits.check().is_err());
    }
}
