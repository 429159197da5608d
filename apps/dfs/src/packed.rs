//! The encoding of values in the tables: fixed offsets, little-endian. Any bytes decode to a value or to nothing.

use catena_files::{Attributes, Entry, FileSystemState, Handle, Kind, Listed};
use serde_bytes::ByteBuf;

/// Bytes of attributes.
pub(crate) const ATTRIBUTES_BYTES: usize = 72;
/// Bytes before a block's data: its length, and whether the file ends with it.
pub(crate) const BLOCK_HEAD_BYTES: usize = 8;
/// Bytes of most name entries: a longer one takes a second READ.
pub(crate) const ENTRY_BYTES_EXPECTED: usize = 192;
/// Bytes of any page of a directory: one READ fetches it, since over a link a round trip costs more than a few KiB.
pub(crate) const PAGE_BYTES_EXPECTED: usize = 4_096;

pub(crate) fn attributes(of: &Attributes) -> Vec<u8> {
    let kind = match of.kind {
        Kind::File => 1_u64,
        Kind::Directory => 2,
        Kind::Symlink => 3,
        Kind::Other => 4,
    };
    let words = [
        kind | u64::from(of.mode) << 32,
        of.size,
        of.used_bytes,
        u64::from(of.links),
        u64::from(of.uid) | u64::from(of.gid) << 32,
        of.accessed_at_ms,
        of.modified_at_ms,
        of.changed_at_ms,
        0,
    ];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn to_attributes(bytes: &[u8]) -> Option<Attributes> {
    let mut words = bytes.get(..ATTRIBUTES_BYTES)?.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut next = || words.next();
    let first = next()?;
    let kind = match first as u32 {
        1 => Kind::File,
        2 => Kind::Directory,
        3 => Kind::Symlink,
        4 => Kind::Other,
        _ => return None,
    };
    let (size, used_bytes, links, owner) = (next()?, next()?, next()? as u32, next()?);
    let mode = (first >> 32) as u32;
    let (uid, gid) = (owner as u32, (owner >> 32) as u32);
    let (accessed_at_ms, modified_at_ms, changed_at_ms) = (next()?, next()?, next()?);
    Some(Attributes { kind, size, used_bytes, mode, links, uid, gid, accessed_at_ms, modified_at_ms, changed_at_ms })
}

pub(crate) fn entry(of: &Entry) -> Vec<u8> {
    let mut bytes = attributes(&of.attributes);
    bytes.extend_from_slice(&of.handle.0);
    bytes
}

pub(crate) fn to_entry(bytes: &[u8]) -> Option<Entry> {
    let (fixed, handle) = bytes.split_at_checked(ATTRIBUTES_BYTES)?;
    Some(Entry { attributes: to_attributes(fixed)?, handle: Handle(ByteBuf::from(handle)) })
}

pub(crate) fn block(data: &[u8], end: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK_HEAD_BYTES + data.len());
    bytes.extend_from_slice(&((data.len() as u64) << 1 | u64::from(end)).to_le_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// The length of the block, whether the file ends with it, and those of its bytes that were fetched.
pub(crate) fn to_block(bytes: &[u8]) -> Option<(usize, bool, &[u8])> {
    let (head, data) = bytes.split_at_checked(BLOCK_HEAD_BYTES)?;
    let head = u64::from_le_bytes(*head.first_chunk()?);
    let length = usize::try_from(head >> 1).ok()?;
    (data.len() <= length).then_some((length, head & 1 == 1, data))
}

pub(crate) fn state(of: &FileSystemState) -> Vec<u8> {
    let words = [of.total_bytes, of.free_bytes, of.available_bytes, of.total_files, of.free_files];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn to_state(bytes: &[u8]) -> Option<FileSystemState> {
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut next = || words.next();
    Some(FileSystemState {
        total_bytes: next()?,
        free_bytes: next()?,
        available_bytes: next()?,
        total_files: next()?,
        free_files: next()?,
    })
}

pub(crate) fn page(names: &[Listed], end: bool) -> Vec<u8> {
    let mut bytes = vec![u8::from(end)];
    for one in names {
        bytes.extend_from_slice(&one.number.to_le_bytes());
        bytes.extend_from_slice(&one.next.to_le_bytes());
        bytes.extend_from_slice(&(one.name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&one.name);
    }
    bytes
}

pub(crate) fn to_page(bytes: &[u8]) -> Option<(Vec<Listed>, bool)> {
    let (end, mut rest) = bytes.split_first()?;
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (number, after) = rest.split_first_chunk()?;
        let (next, after) = after.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let (name, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
        names.push(Listed {
            name: name.to_vec(),
            number: u64::from_le_bytes(*number),
            next: u64::from_le_bytes(*next),
        });
        rest = after;
    }
    Some((names, *end == 1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_come_back_and_cut_ones_do_not() {
        let of = Attributes {
            kind: Kind::Symlink,
            size: 1 << 40,
            used_bytes: 7,
            mode: 0o751,
            links: 3,
            uid: 4,
            gid: 5,
            accessed_at_ms: 6,
            modified_at_ms: 7,
            changed_at_ms: 8,
        };
        let whole = Entry { handle: Handle(ByteBuf::from(vec![9; 300])), attributes: of.clone() };
        assert_eq!(to_entry(&entry(&whole)).unwrap(), whole);
        assert_eq!(to_attributes(&attributes(&of)[..71]), None);
        assert_eq!(to_attributes(&[0xff; 72]), None, "no such kind");
        assert_eq!(to_block(&block(b"abc", true)).unwrap(), (3, true, &b"abc"[..]));
        assert_eq!(to_block(&[0; 7]), None);
        assert_eq!(to_block(&[2, 0, 0, 0, 0, 0, 0, 0, 1, 1]), None, "more bytes than it says");
        let names = vec![
            Listed { name: vec![0xff; 255], number: 1, next: u64::MAX },
            Listed { name: b"a".to_vec(), number: 2, next: 3 },
        ];
        let laid = page(&names, true);
        assert_eq!(to_page(&laid).unwrap(), (names, true));
        assert_eq!(to_page(&laid[..laid.len() - 1]), None);
        let there =
            FileSystemState { total_bytes: 1, free_bytes: 2, available_bytes: 3, total_files: 4, free_files: 5 };
        assert_eq!(to_state(&state(&there)).unwrap(), there);
    }
}
