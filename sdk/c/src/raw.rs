//! What C gives, read and written. Nothing else in this crate follows a pointer.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_void},
    slice,
};

use bytes::Bytes;

use crate::{
    abi::{CATENA_TOO_SMALL, Done, Failure},
    handles::{Object, hold},
};

/// Some bytes of the caller's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CatenaBytes {
    /// The first.
    pub bytes: *const c_void,
    /// How many.
    pub count: usize,
}

/// A part of a segment of this process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CatenaPart {
    /// A segment's handle.
    pub segment: u64,
    /// From this byte on.
    pub offset: u64,
    /// So many bytes.
    pub count: u64,
}

/// Text that ends in a zero.
///
/// # Safety
/// `text` is null, or such text that stays as it is during the call.
pub(crate) unsafe fn text<'t>(text: *const c_char, what: &str) -> Done<&'t str> {
    if text.is_null() {
        return Err(Failure::argument(format!("{what} is null")));
    }
    // SAFETY: as the caller of this says.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Text that may be absent.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn text_or_none<'t>(given: *const c_char, what: &str) -> Done<Option<&'t str>> {
    // SAFETY: as the caller of this says.
    if given.is_null() { Ok(None) } else { unsafe { text(given, what) }.map(Some) }
}

/// So many of something.
///
/// # Safety
/// `first` is null, or points to so many that stay as they are during the call.
pub(crate) unsafe fn many<'m, T>(first: *const T, count: usize, what: &str) -> Done<&'m [T]> {
    checked(first, count, what)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: as the caller of this says; it is not null, is aligned, and not longer than memory can be.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Memory of the caller's to be written.
///
/// # Safety
/// `first` is null, or points to so many bytes that nobody else uses during the call.
pub(crate) unsafe fn room<'m>(first: *mut c_void, count: usize, what: &str) -> Done<&'m mut [u8]> {
    checked(first.cast::<u8>(), count, what)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as the caller of this says. Bytes that nobody has set yet are only written.
    Ok(unsafe { slice::from_raw_parts_mut(first.cast(), count) })
}

fn checked<T>(first: *const T, count: usize, what: &str) -> Done {
    if first.is_null() && count > 0 {
        return Err(Failure::argument(format!("{what} is null, and {count} were said to be there")));
    }
    if !first.is_aligned() || count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Failure::argument(format!("{what}: {count} of them cannot be there")));
    }
    Ok(())
}

/// Copies of items.
///
/// # Safety
/// As [`many`], for the items and for each one's bytes.
pub(crate) unsafe fn items(first: *const CatenaBytes, count: usize) -> Done<Vec<Bytes>> {
    // SAFETY: as the caller of this says.
    let items = unsafe { many(first, count, "items") }?;
    let copied = items.iter().map(|item| {
        // SAFETY: as the caller of this says.
        let bytes = unsafe { many(item.bytes.cast::<u8>(), item.count, "an item") };
        bytes.map(Bytes::copy_from_slice)
    });
    copied.collect()
}

/// Sets what a pointer points to.
///
/// # Safety
/// `to` is null, or points to memory of this type that nobody else uses during the call.
pub(crate) unsafe fn set<T>(to: *mut T, value: T, what: &str) -> Done {
    if to.is_null() || !to.is_aligned() {
        return Err(Failure::argument(format!("{what} is null or not aligned")));
    }
    // SAFETY: as the caller of this says; what was there needs no dropping, being C's.
    unsafe { to.write(value) };
    Ok(())
}

/// Gives C a handle of something, if there is a place for it.
///
/// # Safety
/// As [`set`].
pub(crate) unsafe fn give(to: *mut u64, object: Object, what: &str) -> Done {
    if to.is_null() || !to.is_aligned() {
        return Err(Failure::argument(format!("{what} is null or not aligned")));
    }
    // SAFETY: as the caller of this says.
    unsafe { set(to, hold(object)?, what) }
}

/// Sets it if it is wanted.
///
/// # Safety
/// As [`set`].
pub(crate) unsafe fn set_if_wanted<T>(to: *mut T, value: T) -> Done {
    // SAFETY: as the caller of this says.
    if to.is_null() { Ok(()) } else { unsafe { set(to, value, "a result") } }
}

/// Copies text out, with a zero at its end, and says how long it is without.
///
/// # Safety
/// As [`room`] and [`set_if_wanted`].
pub(crate) unsafe fn put_text(text: &str, out: *mut c_char, capacity: usize, length: *mut usize) -> Done {
    // SAFETY: as the caller of this says.
    unsafe { set_if_wanted(length, text.len()) }?;
    // SAFETY: as the caller of this says.
    let room = unsafe { room(out.cast(), capacity, "the memory for text") }?;
    let Some(room) = room.get_mut(..=text.len()) else {
        let why = format!("text of {} bytes and a zero does not fit into {capacity}", text.len());
        return Err(Failure::new(CATENA_TOO_SMALL, "TooSmall", why));
    };
    let (words, end) = room.split_at_mut(text.len());
    words.copy_from_slice(text.as_bytes());
    end.fill(0);
    Ok(())
}
