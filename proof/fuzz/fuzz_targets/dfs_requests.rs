//! What a clerk puts into its lanes, as the server of the file service decodes it: any bytes are a request or refused, a request says itself again, and no handle in one
//! leads out of what is served.
#![no_main]
#![allow(dead_code, reason = "of the crates' own modules a part is used; the crates themselves bring the sandbox")]

// The modules name what they take from `catena`, all of which lies below it.
extern crate self as catena;

#[path = "../../../apps/dfs/src/protocol.rs"]
mod protocol;
#[path = "../../../catena/src/value.rs"]
mod value;

use arbitrary::Arbitrary;
use catena_files::{
    Change, CommitParams, CreateHow, CreateParams, Directory, Handle, LookupParams, MkdirParams, ReadParams,
    RemoveParams, RenameParams, Stable, WriteParams,
};
use libfuzzer_sys::fuzz_target;
use protocol::{Reply, Request, decode, encode};
use serde_bytes::ByteBuf;

pub use catena_wire::{Exception, Fault, NodeId, Value};
pub use value::{from_value, to_value};

/// What begins every handle, and the bytes of it that are no path: most inputs would fail there.
const HANDLE_LAYOUT: u8 = 0xC1;
const IDENTITY: [u8; 24] = [7; 24];

#[derive(Arbitrary, Debug)]
enum Lane<'a> {
    Bytes(&'a [u8]),
    Request(Asked<'a>),
    /// A request, and then other bytes where some of its own were.
    Spoilt(Asked<'a>, u16, &'a [u8]),
}

#[derive(Arbitrary, Debug)]
struct Asked<'a> {
    kind: u8,
    dir: Option<Named<'a>>,
    handle: Named<'a>,
    name: Option<&'a str>,
    path: Option<&'a str>,
    number: u64,
    option: Option<u32>,
    data: &'a [u8],
}

#[derive(Arbitrary, Debug)]
enum Named<'a> {
    Bytes(&'a [u8]),
    Path(&'a [u8]),
}

impl Named<'_> {
    fn handle(&self) -> Handle {
        Handle(match self {
            Self::Bytes(bytes) => ByteBuf::from(*bytes),
            Self::Path(path) => ByteBuf::from([&[HANDLE_LAYOUT], &IDENTITY[..], path].concat()),
        })
    }
}

impl Asked<'_> {
    fn request(&self) -> Request {
        let (handle, dir) = (self.handle.handle(), self.dir.as_ref().map(Named::handle));
        let (name, path) = (self.name.map(str::to_owned), self.path.map(str::to_owned));
        let (number, mode) = (self.number, self.option);
        let text = name.clone().unwrap_or_default();
        match self.kind % 17 {
            0 => Request::Null,
            1 => Request::Root,
            2 => Request::Getattr(handle),
            3 => Request::Lookup(LookupParams { dir, name, path }),
            4 => Request::Read(ReadParams { handle, offset: number, count: mode.unwrap_or(0) }),
            5 => Request::Readlink(handle),
            6 => Request::List { dir: handle, from: number },
            7 => Request::Statfs,
            8 => {
                let (data, stable) = (ByteBuf::from(self.data), Stable::DataSync);
                Request::Write(WriteParams { handle, offset: number, data, stable })
            }
            9 => Request::Create(CreateParams { dir, name, path, how: CreateHow::Guarded, mode, size: Some(number) }),
            10 => Request::Remove(RemoveParams { dir, name, path }),
            11 => {
                let to_dir = Some(handle);
                Request::Rename(RenameParams {
                    from_dir: dir,
                    from_name: text,
                    to_dir,
                    to_name: path.unwrap_or_default(),
                })
            }
            12 => Request::Mkdir(MkdirParams { dir, name, path, mode }),
            13 => Request::Rmdir { dir, name: text },
            14 => {
                let times = (mode.map(u64::from), Some(number));
                let change = Change { mode, size: Some(number), accessed_at_ns: times.0, modified_at_ns: times.1 };
                Request::Setattr { handle, change }
            }
            15 => Request::Commit(CommitParams { handle, offset: number, count: mode.unwrap_or(0) }),
            _ => Request::Find(ByteBuf::from(self.data)),
        }
    }
}

fn spoilt(mut bytes: Vec<u8>, at: u16, by: &[u8]) -> Vec<u8> {
    let at = usize::from(at) % bytes.len().max(1);
    let end = bytes.len().min(at + by.len());
    bytes.splice(at.min(end)..end, by.iter().copied());
    bytes
}

fn check_inside(handle: &Handle) {
    let path = Directory::path_of(handle);
    assert_eq!(path.is_some(), Directory::identity(handle).is_some(), "{handle:?}");
    let Some(path) = path.filter(|path| !path.is_empty()) else { return };
    let inside = |part: &str| !["", ".", ".."].contains(&part) && part.len() <= 255 && !part.contains('\0');
    assert!(path.split('/').all(inside), "{path:?}");
}

fn check(bytes: &[u8]) {
    if let Ok(mut request) = decode::<Request>(bytes.to_vec()) {
        assert_eq!(decode::<Request>(encode(&request)).as_ref(), Ok(&request), "it says itself again otherwise");
        request.handles().into_iter().flatten().for_each(|handle| check_inside(handle));
    }
    // A clerk decodes what its server answers by the same way.
    if let Ok(reply) = decode::<Reply>(bytes.to_vec()) {
        assert_eq!(decode::<Reply>(encode(&reply)).as_ref(), Ok(&reply), "it says itself again otherwise");
    }
}

fuzz_target!(|lane: Lane<'_>| {
    match lane {
        Lane::Bytes(bytes) => check(bytes),
        Lane::Request(asked) => {
            let request = asked.request();
            assert_eq!(decode::<Request>(encode(&request)).as_ref(), Ok(&request), "what was said is understood");
            check(&encode(&request));
        }
        Lane::Spoilt(asked, at, by) => check(&spoilt(encode(&asked.request()), at, by)),
    }
});
