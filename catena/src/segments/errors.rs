//! Errors of segments as exceptions: whose fault it is, and what to do.

use catena_core::segments::ExportError;
use catena_segment::MemoryError;
use catena_wire::{Exception, Fault, SegmentRefusal, names};

/// The exception that a refusal means for the caller of `what` (`READ of mail/inbox`).
pub(crate) fn of_refusal(what: &str, why: SegmentRefusal) -> Exception {
    use SegmentRefusal as R;
    let (name, fault, text): (_, _, String) = match why {
        R::UnknownName => (
            names::UNKNOWN_SEGMENT,
            Fault::Caller,
            "its owner exports no segment of this name to this node; see `catena segments ls`".into(),
        ),
        R::Revoked => {
            (names::SEGMENT_REVOKED, Fault::Node, "its owner has revoked it; import it again if it comes back".into())
        }
        R::Stale => (
            names::SEGMENT_STALE,
            Fault::Caller,
            "it is gone, or another segment has its place; import it again".into(),
        ),
        R::NeverExported => {
            (names::SEGMENT_STALE, Fault::Caller, "its owner never exported this generation; import it again".into())
        }
        R::OutOfBounds(bytes) => (
            names::OUT_OF_BOUNDS,
            Fault::Caller,
            format!("the range leaves the {bytes} bytes that there are; check offset and count"),
        ),
        R::NoRight(rights) => (
            names::NO_RIGHT,
            Fault::Caller,
            format!(
                "this node lacks the right to {}; its owner grants it by this node's number",
                super::show_rights(rights)
            ),
        ),
        R::WriteInhibited => {
            (names::WRITE_INHIBITED, Fault::Node, "its owner lets nobody write at this time; try again later".into())
        }
        R::Unaligned => (
            names::UNALIGNED,
            Fault::Caller,
            "words begin at multiples of their width: 4 or 8 bytes to swap, 2, 4 or 8 to turn".into(),
        ),
        R::TooLarge(most) => {
            (names::LIMIT_EXCEEDED, Fault::Caller, format!("that is more than the {most} bytes that there is room for"))
        }
        R::Overloaded => {
            (names::OVERLOADED, Fault::Node, "too much of it is under way; let some of it end first".into())
        }
        R::GrantVoid => (
            names::GRANT_VOID,
            Fault::Caller,
            "the grant is unknown, spent, over, or somebody else's; ask the owner for another".into(),
        ),
        R::NotShared => (names::NO_RIGHT, Fault::Node, "the two nodes share no memory".into()),
        R::NoAnswer => (names::OWNER_SILENT, Fault::Network, "its owner did not answer in time".into()),
        R::OwnerLost => (names::OWNER_LOST, Fault::Network, "the link to its owner was lost".into()),
        R::Pushed => (
            names::BYTES_PUSHED,
            Fault::Network,
            "they were sent before, beside a call, and did not come; read them again".into(),
        ),
        R::BadAnswer => (names::PROTOCOL, Fault::Node, "its owner answered something else".into()),
    };
    let exception = Exception::new(name, fault, format!("{what}: {text}"));
    // A READ that was lost had no effect; only operations that change something have an unknown outcome.
    match why {
        R::NoAnswer | R::OwnerLost if !what.starts_with("READ") => exception.outcome_unknown(),
        _ => exception,
    }
}

pub(super) fn of_memory(why: &MemoryError) -> Exception {
    let (name, fault) = match why {
        MemoryError::OutOfBounds { .. } => (names::OUT_OF_BOUNDS, Fault::Caller),
        MemoryError::Unaligned { .. } => (names::UNALIGNED, Fault::Caller),
        MemoryError::ReadOnly => (names::NO_RIGHT, Fault::Caller),
        MemoryError::Foreign(_) | MemoryError::System(_) => (names::OVERLOADED, Fault::Node),
    };
    Exception::new(name, fault, why.to_string())
}

pub(super) fn of_export(name: &str, why: &ExportError) -> Exception {
    let fault = if matches!(why, ExportError::Limit(_)) { Fault::Node } else { Fault::Caller };
    let kind = if matches!(why, ExportError::Limit(_)) { names::OVERLOADED } else { names::BAD_PARAMETERS };
    Exception::new(kind, fault, format!("export of {:?}: {why}", shown(name)))
}

/// Names may be long.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}
