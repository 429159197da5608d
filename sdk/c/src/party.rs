//! Nodes and clients.
#![allow(unsafe_code)]

use std::{ffi::c_char, time::Duration};

use catena::{Client, Node, Place};

use crate::{
    abi::{Done, Failure, guarded},
    handles::{Object, held, other, release, wait},
    raw::{give, put_text, set, text, text_or_none},
};

/// Shares no memory with others on this host, for tests and comparisons.
pub const CATENA_WITHOUT_SHARED_MEMORY: u32 = 1;

/// How long a node that is closed may take to send what is queued.
const GRACE: Duration = Duration::from_secs(1);

/// The client of a node or client.
pub(crate) fn client(number: u64) -> Done<Client> {
    match held(number)? {
        Object::Node(node) => Ok(node.client()),
        Object::Client(client) => Ok(client),
        object => Err(other(number, &object, "node or client")),
    }
}

fn check(flags: u32) -> Done {
    if flags & !CATENA_WITHOUT_SHARED_MEMORY == 0 {
        return Ok(());
    }
    Err(Failure::argument(format!("flags {flags:#x} have bits that mean nothing in this version")))
}

/// Starts a node. `name` is for people; `listen` is HOST:PORT, port 0 lets the system choose; `join` is another node's address, or null. `flags`: 0, or CATENA_WITHOUT_SHARED_MEMORY.
///
/// # Safety
/// Texts are null or end in a zero; `node` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_node_start(
    name: *const c_char,
    listen: *const c_char,
    join: *const c_char,
    flags: u32,
    node: *mut u64,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let (name, listen, join) =
            unsafe { (text(name, "name")?, text(listen, "listen")?, text_or_none(join, "join")?) };
        check(flags)?;
        let builder = Node::builder(name).listen(listen);
        let builder = join.map(Place::new).into_iter().fold(builder, catena::NodeBuilder::join);
        let builder = if flags == 0 { builder } else { builder.without_shared_memory() };
        let started = wait(builder.start())?;
        let started = started.map_err(|why| Failure::argument(why.to_string()))?;
        // SAFETY: as the caller says.
        unsafe { give(node, Object::Node(started), "node") }
    })
}

/// Connects a client to a node, by its address, and through it to all that it knows of. `flags` as of catena_node_start().
///
/// # Safety
/// Texts are null or end in a zero; `client` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_client_connect(
    name: *const c_char,
    address: *const c_char,
    flags: u32,
    client: *mut u64,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let (name, address) = unsafe { (text(name, "name")?, text(address, "address")?) };
        check(flags)?;
        let builder = Client::builder(name).join(Place::new(address));
        let builder = if flags == 0 { builder } else { builder.without_shared_memory() };
        let connected = wait(builder.connect())?;
        let connected =
            connected.map_err(|why| Failure::new(crate::CATENA_EXCEPTION, "NodeUnreachable", why.to_string()))?;
        // SAFETY: as the caller says.
        unsafe { give(client, Object::Client(connected), "client") }
    })
}

/// Where a node is reached. `length` (it may be null) is set to the text's length even where there is no room for it.
///
/// # Safety
/// `out` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_node_address(node: u64, out: *mut c_char, capacity: usize, length: *mut usize) -> i32 {
    guarded(|| match held(node)? {
        // SAFETY: as the caller says.
        Object::Node(node) => unsafe { put_text(node.address().unwrap_or_default(), out, capacity, length) },
        object => Err(other(node, &object, "node")),
    })
}

/// The number of this run of a node or client: what owners of segments give rights to.
///
/// # Safety
/// `id` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_id(party: u64, id: *mut u64) -> i32 {
    // SAFETY: as the caller says.
    guarded(|| unsafe { set(id, client(party)?.id().0, "id") })
}

/// Closes any handle: a node stops, a segment that nothing else holds is not exported any more, a map is unmapped, the sender of a message learns that it is read.
/// A second time is CATENA_BAD_HANDLE, and harmless.
#[unsafe(no_mangle)]
pub extern "C" fn catena_close(handle: u64) -> i32 {
    guarded(|| {
        let object = release(handle)?;
        // What is dropped may need the runtime.
        let _inside = crate::handles::runtime()?.enter();
        match object {
            Object::Node(node) => wait(node.close(GRACE))?,
            Object::Client(client) => wait(client.close(GRACE))?,
            object => drop(object),
        }
        Ok(())
    })
}
