//! libfabric's own tables, as its headers have them (`rdma/fabric.h` and its neighbours, ABI of 1.x).
//!
//! Most of libfabric's interface is not exported: `fi_read` and its like are inline functions of C over tables of functions that each object carries.
//! Here are those tables, as far as they are used, in the same order. What is appended in later versions does no harm: objects and tables are
//! libfabric's, and are only reached by pointer. `tests/fabric.rs` compares sizes and places with the installed headers.

use std::ffi::{c_char, c_int, c_void};

pub type Address = u64;
pub const ADDRESS_NONE: Address = u64::MAX;

// Capabilities and access (fabric.h).
pub const RMA: u64 = 1 << 2;
pub const ATOMIC: u64 = 1 << 4;
pub const READ: u64 = 1 << 8;
pub const WRITE: u64 = 1 << 9;
pub const REMOTE_READ: u64 = 1 << 12;
pub const REMOTE_WRITE: u64 = 1 << 13;
pub const TRANSMIT: u64 = 1 << 11;
pub const RECV: u64 = 1 << 10;
pub const DELIVERY_COMPLETE: u64 = 1 << 28;
/// For `getinfo`: the address is where this side listens.
pub const SOURCE: u64 = 1 << 57;

// What a provider may ask of memory (fabric.h, `FI_MR_*`).
pub const MR_LOCAL: c_int = 1 << 2;
pub const MR_VIRT_ADDR: c_int = 1 << 4;
pub const MR_ALLOCATED: c_int = 1 << 5;
pub const MR_PROV_KEY: c_int = 1 << 6;

/// Operations carry room for the provider (`FI_CONTEXT`, `FI_CONTEXT2`).
pub const MODE_CONTEXTS: u64 = 1 << 59 | 1 << 52;

/// Addresses are texts (`FI_ADDR_STR`).
pub const ADDRESS_STRING: u32 = 9;
pub const EP_RDM: c_int = 3;
pub const THREAD_DOMAIN: c_int = 3;
pub const AV_TABLE: c_int = 2;
pub const WAIT_NONE: c_int = 0;
pub const WAIT_FD: c_int = 3;
pub const CQ_CONTEXT: c_int = 1;
pub const GET_WAIT: c_int = 5;
pub const ENABLE: c_int = 6;
pub const UINT32: c_int = 5;
pub const UINT64: c_int = 7;
pub const CSWAP: c_int = 12;
pub const EAGAIN: isize = libc::EAGAIN as isize;
/// The next entry is an error.
pub const EAVAIL: isize = 259;

/// A function that is not used here: only its slot in the table matters.
type Unused = *const c_void;

#[repr(C)]
pub struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct RxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
pub struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
}

#[repr(C)]
pub struct DomainAttr {
    pub domain: *mut Domain,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
}

#[repr(C)]
pub struct FabricAttr {
    pub fabric: *mut Fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct Info {
    pub next: *mut Self,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut Fid,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut RxAttr,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
    pub nic: *mut c_void,
}

#[repr(C)]
pub struct Ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

/// What every object begins with.
#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *mut Ops,
}

#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain: unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    pub passive_ep: Unused,
    pub eq_open: Unused,
    pub wait_open: Unused,
    pub trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub struct Fabric {
    pub fid: Fid,
    pub ops: *mut FabricOps,
    pub api_version: u32,
}

#[repr(C)]
pub struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct AvOps {
    pub size: usize,
    pub insert: unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut Address, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct Av {
    pub fid: Fid,
    pub ops: *mut AvOps,
}

#[repr(C)]
pub struct Mr {
    pub fid: Fid,
    pub descriptor: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open: unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub cq_open: unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub endpoint: unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
}

/// Parameters: memory, its length, access, offset, the requested key, flags, where the object goes, and a context.
pub type Register =
    unsafe extern "C" fn(*mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut Mr, *mut c_void) -> c_int;

#[repr(C)]
pub struct MrOps {
    pub size: usize,
    pub reg: Register,
}

#[repr(C)]
pub struct Domain {
    pub fid: Fid,
    pub ops: *mut DomainOps,
    pub mr: *mut MrOps,
}

#[repr(C)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct CqErrEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct CqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize,
    pub readfrom: Unused,
    pub readerr: unsafe extern "C" fn(*mut Cq, *mut CqErrEntry, u64) -> isize,
}

#[repr(C)]
pub struct Cq {
    pub fid: Fid,
    pub ops: *mut CqOps,
}

#[repr(C)]
pub struct CmOps {
    pub size: usize,
    pub setname: Unused,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub struct Iovec {
    pub base: *mut c_void,
    pub bytes: usize,
}

#[repr(C)]
pub struct RmaIov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

#[repr(C)]
pub struct MsgRma {
    pub msg_iov: *const Iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: Address,
    pub rma_iov: *const RmaIov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// Parameters: the buffer, its length and descriptor; the peer, place and key; the context.
pub type Read = unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, Address, u64, u64, *mut c_void) -> isize;

#[repr(C)]
pub struct RmaOps {
    pub size: usize,
    pub read: Read,
    pub readv: Unused,
    pub readmsg: Unused,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: unsafe extern "C" fn(*mut Ep, *const MsgRma, u64) -> isize,
}

/// Parameters: the operand, a count and its descriptor; the comparand and its descriptor; where the result goes, and its descriptor; the peer, place and key;
/// the type of the word, and the operation; the context.
pub type CompareWrite = unsafe extern "C" fn(
    *mut Ep,
    *const c_void,
    usize,
    *mut c_void,
    *const c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    Address,
    u64,
    u64,
    c_int,
    c_int,
    *mut c_void,
) -> isize;

#[repr(C)]
pub struct AtomicOps {
    pub size: usize,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: Unused,
    pub inject: Unused,
    pub readwrite: Unused,
    pub readwritev: Unused,
    pub readwritemsg: Unused,
    pub compwrite: CompareWrite,
    pub compwritev: Unused,
    pub compwritemsg: Unused,
    pub writevalid: Unused,
    pub readwritevalid: Unused,
    pub compwritevalid: unsafe extern "C" fn(*mut Ep, c_int, c_int, *mut usize) -> c_int,
}

#[repr(C)]
pub struct Ep {
    pub fid: Fid,
    pub ops: Unused,
    pub cm: *mut CmOps,
    pub msg: Unused,
    pub rma: *mut RmaOps,
    pub tagged: Unused,
    pub atomic: *mut AtomicOps,
}
