//! The first bytes on a link, in each direction.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..6 | `catena` |
//! | 6..8 | version |
//! | 8..12 | length of what follows |
//! | 8 | node |
//! | 4, 8, 4, 8 | the sender's [`Limits`]: frame bytes, message bytes, fragmented messages, receive bytes |
//! | 1 | 1 if the peer's number is taken by another link, else 0 |
//! | 1 + n | site: 0 = none, else its length, then UTF-8 |
//! | rest | the layer above's own hello |
//!
//! The first eight bytes never change, so that any two versions can name each other. The dialler speaks first and may go on at once; the listener answers when
//! it has read the dialler's hello. If the listener has another live link to the node that the dialler claims to be, its hello says so, and it handles nothing
//! of the new link before the old one has ended; then it sends another hello, which no longer says so.

use bytes::{Buf, Bytes, BytesMut};

use crate::FrameError;
use crate::config::Limits;
use crate::message::Identity;

/// The version of the link protocol that this build speaks.
pub const VERSION: u16 = 2;

const MAGIC: [u8; 6] = *b"catena";
/// Magic and version: what every version can read.
pub(crate) const PREFIX_BYTES: usize = 8;
const FIXED_BYTES: usize = PREFIX_BYTES + 4;
const FIELDS_BYTES: usize = 8 + 4 + 8 + 4 + 8 + 1 + 1;
/// How much larger the length may be than the layer above's own bytes.
pub(crate) const OVERHEAD_BYTES_MAX: usize = FIELDS_BYTES + 255;

/// A peer's introduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who it says it is.
    pub identity: Identity,
    /// What it accepts.
    pub limits: Limits,
    /// The sender has another live link to the node that it greets: until that ends, it handles nothing that comes over this one.
    pub taken: bool,
}

/// Magic and version alone: enough for a peer of another version to name both.
pub(crate) fn encode_prefix() -> [u8; PREFIX_BYTES] {
    let [low, high] = VERSION.to_le_bytes();
    let [a, b, c, d, e, f] = MAGIC;
    [a, b, c, d, e, f, low, high]
}

/// The bytes of a hello. A site longer than 255 bytes is cut: [`crate::BoundEndpoint::start`] refuses it before.
pub fn encode_hello(hello: &Hello) -> Bytes {
    let site = hello.identity.site.as_deref().unwrap_or_default().as_bytes();
    let site = &site[..site.len().min(255)];
    let length = FIELDS_BYTES + site.len() + hello.identity.hello.len();
    let mut bytes = Vec::with_capacity(FIXED_BYTES + length);
    bytes.extend_from_slice(&encode_prefix());
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.extend_from_slice(&hello.identity.node.to_le_bytes());
    bytes.extend_from_slice(&hello.limits.frame_bytes_max.to_le_bytes());
    bytes.extend_from_slice(&hello.limits.message_bytes_max.to_le_bytes());
    bytes.extend_from_slice(&hello.limits.fragmented_messages_max.to_le_bytes());
    bytes.extend_from_slice(&hello.limits.receive_bytes_max.to_le_bytes());
    bytes.push(u8::from(hello.taken));
    bytes.push(site.len() as u8);
    bytes.extend_from_slice(site);
    bytes.extend_from_slice(&hello.identity.hello);
    bytes.into()
}

/// Takes a hello from the front of `bytes`; `None` if it has not come whole.
///
/// # Errors
/// As soon as the bytes cannot become a hello that this build accepts: wrong magic (even with fewer than six bytes, if they differ), another version, too long,
/// malformed.
pub fn decode_hello(bytes: &mut BytesMut, hello_bytes_max: u32) -> Result<Option<Hello>, FrameError> {
    check_prefix(bytes)?;
    let Some(&[.., a, b, c, d]) = bytes.first_chunk::<FIXED_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes([a, b, c, d]);
    if length > hello_bytes_max {
        let (came, max) = (length.into(), hello_bytes_max.into());
        return Err(FrameError::TooMuch { limit: "hello_bytes_max", came, max });
    }
    let Some(body) = bytes.get(FIXED_BYTES..FIXED_BYTES + length as usize) else { return Ok(None) };
    let hello = decode_body(body)?;
    bytes.advance(FIXED_BYTES + length as usize);
    Ok(Some(hello))
}

fn check_prefix(bytes: &[u8]) -> Result<(), FrameError> {
    let came = bytes.len().min(MAGIC.len());
    if bytes[..came] != MAGIC[..came] {
        let mut got = [0; 6];
        got[..came].copy_from_slice(&bytes[..came]);
        return Err(FrameError::Magic { got });
    }
    if let Some(&[.., low, high]) = bytes.first_chunk::<PREFIX_BYTES>() {
        let theirs = u16::from_le_bytes([low, high]);
        if theirs != VERSION {
            return Err(FrameError::Version { ours: VERSION, theirs });
        }
    }
    Ok(())
}

fn decode_body(mut body: &[u8]) -> Result<Hello, FrameError> {
    let short = |_| FrameError::Hello { what: "shorter than its fields" };
    let node = body.try_get_u64_le().map_err(short)?;
    let limits = Limits {
        frame_bytes_max: body.try_get_u32_le().map_err(short)?,
        message_bytes_max: body.try_get_u64_le().map_err(short)?,
        fragmented_messages_max: body.try_get_u32_le().map_err(short)?,
        receive_bytes_max: body.try_get_u64_le().map_err(short)?,
    };
    limits.check().map_err(|what| FrameError::Hello { what })?;
    let taken = match body.try_get_u8().map_err(short)? {
        0 => false,
        1 => true,
        _ => return Err(FrameError::Hello { what: "neither taken nor not" }),
    };
    let site_bytes = usize::from(body.try_get_u8().map_err(short)?);
    let (site, hello) = body.split_at_checked(site_bytes).ok_or(FrameError::Hello { what: "site cut short" })?;
    let site = std::str::from_utf8(site).map_err(|_| FrameError::Hello { what: "site is not UTF-8" })?;
    let site = (!site.is_empty()).then(|| site.to_owned());
    Ok(Hello { identity: Identity { node, site, hello: Bytes::copy_from_slice(hello) }, limits, taken })
}
