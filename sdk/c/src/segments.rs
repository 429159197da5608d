//! Segments: memory that others use without this process's code running.
#![allow(unsafe_code)]

use std::{
    ffi::{c_char, c_void},
    sync::Arc,
};

use catena::{Export, NodeId, Rights, Segment};

use crate::{
    abi::{Done, Failure, guarded},
    handles::{Object, held, other, wait},
    party::client,
    raw::{give, many, room, set, text},
};

/// Others may read.
pub const CATENA_READ: u32 = 1;
/// Others may write.
pub const CATENA_WRITE: u32 = 2;
/// Others may compare and swap words.
pub const CATENA_CAS: u32 = 4;

fn rights(bits: u32) -> Done<Rights> {
    let all = [(CATENA_READ, Rights::READ), (CATENA_WRITE, Rights::WRITE), (CATENA_CAS, Rights::CAS)];
    if bits & !7 != 0 {
        return Err(Failure::argument(format!("rights {bits:#x} have bits that mean nothing")));
    }
    Ok(all.into_iter().filter(|(bit, _)| bits & bit != 0).fold(Rights::NONE, |sum, (_, right)| sum.and(right)))
}

fn segment(number: u64) -> Done<Segment> {
    match held(number)? {
        Object::Segment(segment) => Ok(segment),
        object => Err(other(number, &object, "segment")),
    }
}

/// Exports so many bytes of zeros from a node by a name; `anyone`: what everybody may do, of CATENA_READ, CATENA_WRITE and CATENA_CAS.
///
/// # Safety
/// `name` is null or ends in a zero; `segment` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_export(
    node: u64,
    name: *const c_char,
    bytes: u64,
    anyone: u32,
    segment: *mut u64,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let name = unsafe { text(name, "name") }?;
        let how = Export { anyone: rights(anyone)?, ..Export::default() };
        let exported = match held(node)? {
            Object::Node(node) => node.export(name, bytes, how)?,
            object => return Err(other(node, &object, "node")),
        };
        // SAFETY: as the caller says.
        unsafe { give(segment, Object::Segment(exported), "segment") }
    })
}

/// Imports a segment by OWNER/NAME: the owner by its own name, by a service that it serves, or by its address.
///
/// # Safety
/// `name` is null or ends in a zero; `segment` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_import(party: u64, name: *const c_char, segment: *mut u64) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let name = unsafe { text(name, "name") }?;
        let imported = wait(client(party)?.import(name))??;
        // SAFETY: as the caller says.
        unsafe { give(segment, Object::Imported(imported), "segment") }
    })
}

/// The size of a segment, exported or imported, in bytes.
///
/// # Safety
/// `bytes` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_bytes(segment: u64, bytes: *mut u64) -> i32 {
    guarded(|| {
        let size = match held(segment)? {
            Object::Segment(segment) => segment.bytes(),
            Object::Imported(imported) => imported.bytes(),
            object => return Err(other(segment, &object, "segment")),
        };
        // SAFETY: as the caller says.
        unsafe { set(bytes, size, "bytes") }
    })
}

/// Who owns a segment, exported or imported: the catena_id() of that run of a node.
///
/// # Safety
/// `node` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_owner(segment: u64, node: *mut u64) -> i32 {
    guarded(|| {
        let owner = match held(segment)? {
            Object::Segment(segment) => segment.owner(),
            Object::Imported(imported) => imported.owner().id,
            object => return Err(other(segment, &object, "segment")),
        };
        // SAFETY: as the caller says.
        unsafe { set(node, owner.0, "node") }
    })
}

/// Copies `count` bytes from `offset` on into `out`. Aligned words of 8 bytes are read whole.
///
/// # Safety
/// `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_read(segment: u64, offset: u64, out: *mut c_void, count: usize) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let out = unsafe { room(out, count, "out") }?;
        match held(segment)? {
            Object::Segment(segment) => segment.read(offset, out)?,
            Object::Imported(imported) => wait(imported.read_into(offset, out))??,
            object => return Err(other(segment, &object, "segment")),
        }
        Ok(())
    })
}

/// Copies `count` bytes to `offset`. Into an imported segment they are taken when this returns; catena_segment_flush() says that they are there.
///
/// # Safety
/// `bytes` points to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_write(segment: u64, offset: u64, bytes: *const c_void, count: usize) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let bytes = unsafe { many(bytes.cast::<u8>(), count, "bytes") }?;
        match held(segment)? {
            Object::Segment(segment) => segment.write(offset, bytes)?,
            Object::Imported(imported) => wait(imported.write(offset, bytes.to_vec()))??,
            object => return Err(other(segment, &object, "segment")),
        }
        Ok(())
    })
}

/// Waits until everything that was written to an imported segment has been done.
#[unsafe(no_mangle)]
pub extern "C" fn catena_segment_flush(segment: u64) -> i32 {
    guarded(|| match held(segment)? {
        Object::Imported(imported) => Ok(wait(imported.flush())??),
        object => Err(other(segment, &object, "import")),
    })
}

/// Puts `desired` in the place of the aligned word of 8 bytes at `offset` if that is `expected`; `was` is set to what was there: `expected` if it was done.
///
/// # Safety
/// `was` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_cas(
    segment: u64,
    offset: u64,
    expected: u64,
    desired: u64,
    was: *mut u64,
) -> i32 {
    guarded(|| {
        let found = match held(segment)? {
            Object::Segment(segment) => segment.cas(offset, expected, desired)?,
            Object::Imported(imported) => wait(imported.cas(offset, expected, desired))??,
            object => return Err(other(segment, &object, "segment")),
        };
        // SAFETY: as the caller says.
        unsafe { set(was, found, "was") }
    })
}

/// Gives one importer, by its catena_id(), rights of its own, in the place of what everybody may do.
#[unsafe(no_mangle)]
pub extern "C" fn catena_segment_allow(exported: u64, importer: u64, bits: u32) -> i32 {
    guarded(|| Ok(wait(segment(exported)?.allow(NodeId(importer), rights(bits)?))??))
}

/// Takes a segment back: when this returns no byte of it is read or changed by others any more.
#[unsafe(no_mangle)]
pub extern "C" fn catena_segment_revoke(exported: u64) -> i32 {
    guarded(|| Ok(wait(segment(exported)?.revoke())??))
}

/// Says where a segment's bytes lie, to be read and, if `write` is not 0, written in place, without a copy: of one's own always, of an imported one where its memory is shared with this process
/// (`NoRight` else). The address is good until `map` is closed, whatever becomes of the segment. Others may change the bytes at any time. A write to what was not mapped for writing faults.
///
/// # Safety
/// `address`, `bytes` and `map` point to what they are set to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_segment_map(
    segment: u64,
    write: i32,
    address: *mut *mut c_void,
    bytes: *mut u64,
    map: *mut u64,
) -> i32 {
    guarded(|| {
        let mapped = match held(segment)? {
            Object::Segment(segment) => segment.map()?,
            Object::Imported(imported) => wait(imported.map(write != 0))??,
            object => return Err(other(segment, &object, "segment")),
        };
        let (first, count) = (mapped.address().as_ptr().cast(), mapped.bytes());
        // SAFETY: as the caller says.
        unsafe {
            set(address, first, "address")?;
            set(bytes, count, "bytes")?;
            give(map, Object::Mapped(Arc::new(mapped)), "map")
        }
    })
}

/// Whether a map still shows the segment's own pages: `current` is set to 1 or 0. A segment that was revoked, or whose rights changed, has left them: map it anew.
///
/// # Safety
/// `current` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_map_is_current(map: u64, current: *mut i32) -> i32 {
    guarded(|| match held(map)? {
        // SAFETY: as the caller says.
        Object::Mapped(mapped) => unsafe { set(current, i32::from(mapped.is_current()), "current") },
        object => Err(other(map, &object, "map")),
    })
}
