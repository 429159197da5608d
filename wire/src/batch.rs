//! What a function is told about one of its calls that is answered many times (`guest/ABI.md`, "Many answers").

use alloc::vec::Vec;
use minicbor::Encoder;

use crate::{Exception, Value, ValueError};

/// Whose replies are missing: `service/function`, its node where that is known, and why.
pub type MissingOf<'a> = (&'a str, Option<&'a str>, Exception);

/// How such a call ended.
pub struct OverOf<'a> {
    /// Whose replies are missing.
    pub missing: Vec<MissingOf<'a>>,
    /// Why not everything arrived, if something did not.
    pub why: Option<&'a Exception>,
    /// It ended as a *failure*, not as an *exception* (Quatrain, section 3.3).
    pub failed: bool,
}

/// `[replies, over]`, where `over` is null as long as more may come, else `[[[target, node, exception], ...], exception, failed]`.
///
/// # Errors
/// `TooDeep`: a value is nested too deep to be put inside another.
pub fn batch(replies: &[Value], over: Option<OverOf<'_>>) -> Result<Value, ValueError> {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let _ = put(&mut Encoder::new(&mut bytes), replies, over);
    Value::from_cbor(bytes.into())
}

type Written = Result<(), minicbor::encode::Error<core::convert::Infallible>>;

fn put(e: &mut Encoder<&mut Vec<u8>>, replies: &[Value], over: Option<OverOf<'_>>) -> Written {
    e.array(2)?.array(replies.len() as u64)?;
    for reply in replies {
        // Unchanged: only within a message is a value a byte string.
        e.writer_mut().extend_from_slice(reply.as_bytes());
    }
    let Some(OverOf { missing, why, failed }) = over else { return e.null()?.ok() };
    e.array(3)?.array(missing.len() as u64)?;
    for (target, node, why) in missing {
        e.array(3)?.str(target)?;
        match node {
            Some(node) => e.str(node)?,
            None => e.null()?,
        };
        e.encode(why)?;
    }
    match why {
        Some(why) => e.encode(why)?,
        None => e.null()?,
    };
    e.bool(failed)?.ok()
}
