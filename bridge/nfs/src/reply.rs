//! The answers that hold bytes, names or handles, decoded within bounds.
//!
//! For a length on the wire, the library's own types allocate as much memory as it announces before they check whether so much data is there, so a broken
//! answer could end this process. These types check the bound first. Answers of numbers alone are left to the library.

use std::io::Read;

use catena_files::limits::{NAME_BYTES_MAX, READ_BYTES_MAX};
use nfs3_client::nfs3_types::nfs3::{NFS3_FHSIZE, Nfs3Option, cookieverf3, fattr3, nfs_fh3, post_op_attr, wcc_data};
use nfs3_client::nfs3_types::xdr_codec::{Error, Opaque, Result, Unpack};

/// Authentication flavors that a mount answer may list.
const FLAVORS_MAX: u32 = 64;
/// Entries in one directory page, as many as fit in the bytes that are asked for.
const ENTRIES_MAX: usize = 4_096;

/// Bytes with a length before them, at most `MAX`.
#[derive(Debug)]
pub(crate) struct Bytes<const MAX: usize>(pub(crate) Vec<u8>);

impl<const MAX: usize> Unpack for Bytes<MAX> {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let (length, taken) = u32::unpack(input)?;
        let length = length as usize;
        if length > MAX {
            return Err(Error::InvalidLength(length));
        }
        let padded = length.next_multiple_of(4);
        let mut bytes = vec![0; padded];
        input.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok((Self(bytes), taken + padded))
    }
}

/// A handle.
#[derive(Debug)]
pub(crate) struct Fh(pub(crate) nfs_fh3);

impl Unpack for Fh {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let (bytes, taken) = Bytes::<NFS3_FHSIZE>::unpack(input)?;
        Ok((Self(nfs_fh3 { data: Opaque::owned(bytes.0) }), taken))
    }
}

/// A handle that may be left out.
#[derive(Debug)]
pub(crate) struct MaybeFh(pub(crate) Option<nfs_fh3>);

impl Unpack for MaybeFh {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        match bool::unpack(input)? {
            (false, taken) => Ok((Self(None), taken)),
            (true, taken) => {
                let (handle, more) = Fh::unpack(input)?;
                Ok((Self(Some(handle.0)), taken + more))
            }
        }
    }
}

/// Declares an answer: its fields in the order of the wire.
macro_rules! answer {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* }

        impl Unpack for $name {
            fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
                let mut taken = 0;
                $(let ($field, more) = <$type>::unpack(input)?; taken += more;)*
                Ok((Self { $($field),* }, taken))
            }
        }
    };
}

answer! {
    /// LOOKUP (RFC 1813, section 3.3.3).
    Found { object: Fh, attributes: post_op_attr, _dir: post_op_attr }
}
answer! {
    /// CREATE and MKDIR (sections 3.3.8 and 3.3.9).
    Made { object: MaybeFh, attributes: post_op_attr, _dir: wcc_data }
}
answer! {
    /// READ (section 3.3.6).
    Data { _attributes: post_op_attr, _count: u32, eof: bool, data: Bytes<{ READ_BYTES_MAX as usize }> }
}
answer! {
    /// One name of a READDIR.
    Name { _file_id: u64, name: Bytes<NAME_BYTES_MAX>, cookie: u64 }
}
answer! {
    /// READDIR (section 3.3.16).
    Page { _dir: post_op_attr, verifier: cookieverf3, names: Names, eof: bool }
}

/// A linked list on the wire: each item announces the next.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) Vec<Name>);

impl Unpack for Names {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let (mut names, mut taken) = (Vec::new(), 0);
        loop {
            let (more, bytes) = bool::unpack(input)?;
            taken += bytes;
            if !more {
                return Ok((Self(names), taken));
            }
            if names.len() >= ENTRIES_MAX {
                return Err(Error::InvalidLength(names.len() + 1));
            }
            let (name, bytes) = Name::unpack(input)?;
            taken += bytes;
            names.push(name);
        }
    }
}

/// MNT (RFC 1813, section 5.2.1): the root's handle, or the number of the refusal.
#[derive(Debug)]
pub(crate) struct Mounted(pub(crate) std::result::Result<nfs_fh3, u32>);

impl Unpack for Mounted {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let (status, mut taken) = u32::unpack(input)?;
        if status != 0 {
            return Ok((Self(Err(status)), taken));
        }
        let (root, bytes) = Fh::unpack(input)?;
        let (flavors, more) = u32::unpack(input)?;
        taken += bytes + more;
        if flavors > FLAVORS_MAX {
            return Err(Error::InvalidLength(flavors as usize));
        }
        for _ in 0..flavors {
            taken += u32::unpack(input)?.1;
        }
        Ok((Self(Ok(root.0)), taken))
    }
}

/// Attributes that may be left out, as an option.
pub(crate) fn given(attributes: post_op_attr) -> Option<fattr3> {
    match attributes {
        Nfs3Option::Some(attributes) => Some(attributes),
        Nfs3Option::None => None,
    }
}
