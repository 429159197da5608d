//! An endpoint of its own for each partner and segment, in a domain of its own: a partner that has the address reaches what is registered in that domain, and
//! nothing else. Closing the endpoint ends everything that the partner began, before the call returns.
#![allow(unsafe_code)]

use std::{
    collections::{HashMap, VecDeque},
    ffi::{c_int, c_void},
    os::fd::{BorrowedFd, OwnedFd},
    ptr,
    sync::Arc,
    time::Instant,
};

use catena_segment::{Allow, Memory, RemoteError, Width};

use crate::{
    ffi::{self, Av, Cq, Domain, Ep, Fid, Mr},
    library::Signals,
    operation::{Operation, What},
    provider::{Provider, shown},
};

/// Accesses of one port under way or waiting for room.
pub(crate) const OPERATIONS_MAX: usize = 64;
/// An endpoint's address, in bytes.
const ADDRESS_BYTES_MAX: usize = 256;
/// Completions taken at one time.
const COMPLETIONS: usize = 16;

/// Where a partner's memory lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far {
    address: ffi::Address,
    base: u64,
    key: u64,
}

/// An endpoint and the objects that it is built on. All calls go through `&mut`: libfabric is told that only one thread at a time uses a domain.
pub(crate) struct Port {
    provider: Arc<Provider>,
    name: Arc<str>,
    domain: *mut Domain,
    av: *mut Av,
    cq: *mut Cq,
    ep: *mut Ep,
    /// What a partner may reach here: registered, and kept as long as the endpoint may touch it.
    offered: Option<(*mut Mr, Arc<Memory>)>,
    far: Option<Far>,
    peer: Box<str>,
    /// By the addresses of their contexts.
    under_way: HashMap<usize, Box<Operation>>,
    /// Not yet handed over: the provider had no room for these, or is still connecting.
    waiting: VecDeque<Box<Operation>>,
    /// Why it is shut.
    shut: Option<Box<str>>,
}

// SAFETY: what it points to belongs to it alone, and libfabric's objects may be used from any thread, one at a time.
unsafe impl Send for Port {}

impl Port {
    /// Opens one, with a descriptor that becomes readable when there is something to do, where the provider has one.
    pub(crate) fn open(provider: &Arc<Provider>, name: &Arc<str>) -> Result<(Self, Option<OwnedFd>), String> {
        let mut port = Self {
            provider: Arc::clone(provider),
            name: Arc::clone(name),
            domain: ptr::null_mut(),
            av: ptr::null_mut(),
            cq: ptr::null_mut(),
            ep: ptr::null_mut(),
            offered: None,
            far: None,
            peer: "".into(),
            under_way: HashMap::new(),
            waiting: VecDeque::new(),
            shut: None,
        };
        // Some providers (shm) install signal handlers only with their first endpoint.
        let _signals = Signals::keep();
        // If this fails, dropping the port closes what was opened.
        let descriptor = port.set_up().map_err(|code| provider.library.explain(-code))?;
        Ok((port, descriptor))
    }

    fn set_up(&mut self) -> Result<Option<OwnedFd>, c_int> {
        let (info, fabric) = (self.provider.info, self.provider.fabric);
        let mut av_attr = ffi::AvAttr {
            kind: ffi::AV_TABLE,
            rx_ctx_bits: 0,
            count: 1,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        let mut cq_attr = ffi::CqAttr {
            size: OPERATIONS_MAX * 2,
            flags: 0,
            format: ffi::CQ_CONTEXT,
            wait_obj: ffi::WAIT_FD,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        // SAFETY: each object is made by the one before it, which lives; the attributes are complete, and are not kept.
        unsafe {
            ok(((*(*fabric).ops).domain)(fabric, info, &raw mut self.domain, ptr::null_mut()))?;
            let ops = &*(*self.domain).ops;
            ok((ops.av_open)(self.domain, &raw mut av_attr, &raw mut self.av, ptr::null_mut()))?;
            if (ops.cq_open)(self.domain, &raw mut cq_attr, &raw mut self.cq, ptr::null_mut()) != 0 {
                cq_attr.wait_obj = ffi::WAIT_NONE;
                ok((ops.cq_open)(self.domain, &raw mut cq_attr, &raw mut self.cq, ptr::null_mut()))?;
            }
            ok((ops.endpoint)(self.domain, info, &raw mut self.ep, ptr::null_mut()))?;
            let fid: *mut Fid = self.ep.cast();
            let ops = &*(*fid).ops;
            ok((ops.bind)(fid, self.av.cast(), 0))?;
            ok((ops.bind)(fid, self.cq.cast(), ffi::TRANSMIT | ffi::RECV))?;
            ok((ops.control)(fid, ffi::ENABLE, ptr::null_mut()))?;
        }
        Ok(if cq_attr.wait_obj == ffi::WAIT_FD { self.descriptor() } else { None })
    }

    /// A duplicate of the descriptor by which the provider waits, so that it stays valid when the port is closed.
    fn descriptor(&self) -> Option<OwnedFd> {
        let mut number: c_int = -1;
        // SAFETY: the queue was made with a descriptor, whose number is put there; it is open while the queue is.
        unsafe {
            let fid: *mut Fid = self.cq.cast();
            if ((*(*fid).ops).control)(fid, ffi::GET_WAIT, (&raw mut number).cast()) != 0 || number < 0 {
                return None;
            }
            BorrowedFd::borrow_raw(number).try_clone_to_owned().ok()
        }
    }

    /// The address at which it is reached.
    pub(crate) fn address(&self) -> Result<Vec<u8>, String> {
        let mut address = vec![0; ADDRESS_BYTES_MAX];
        let mut bytes = address.len();
        // SAFETY: the endpoint is enabled; there is as much room as it is told.
        let code = unsafe {
            let fid: *mut Fid = self.ep.cast();
            ((*(*self.ep).cm).getname)(fid, address.as_mut_ptr().cast(), &raw mut bytes)
        };
        ok(code).map_err(|code| self.provider.library.explain(-code))?;
        address.truncate(bytes);
        Ok(address)
    }

    /// Registers memory for any partner that has the address and the key. Returns the key, and the base from which places are counted.
    pub(crate) fn offer(&mut self, memory: Arc<Memory>, allow: Allow, key: u64) -> Result<(u64, u64), String> {
        let access = match allow {
            Allow::Read => ffi::REMOTE_READ,
            Allow::All => ffi::REMOTE_READ | ffi::REMOTE_WRITE,
        };
        let place = memory.place().ok_or("bytes that never change are sent, and not registered")?.cast::<c_void>();
        let mr = self.register(place, memory.bytes() as usize, access, key);
        let mr = mr.map_err(|code| self.provider.library.explain(-code))?;
        self.offered = Some((mr, memory));
        // SAFETY: just made.
        let key = unsafe { (*mr).key };
        Ok((key, if self.provider.rules.by_address { place as u64 } else { 0 }))
    }

    fn register(&self, place: *const c_void, bytes: usize, access: u64, key: u64) -> Result<*mut Mr, c_int> {
        let mut mr = ptr::null_mut();
        // SAFETY: the bytes live as long as the registration: an offer keeps its memory, and an operation its buffer. That a partner accesses them while this
        // process does is the same as with memory mapped by two processes: here, only atomic words and copies touch it.
        let code = unsafe {
            let fid: *mut Fid = self.domain.cast();
            ((*(*self.domain).mr).reg)(fid, place, bytes, access, 0, key, 0, &raw mut mr, ptr::null_mut())
        };
        ok(code).map(|()| mr)
    }

    /// Sets the partner whose memory this port accesses.
    pub(crate) fn reach(&mut self, address: &[u8], base: u64, key: u64) -> Result<(), String> {
        let mut far = ffi::ADDRESS_NONE;
        // SAFETY: the address is of the provider's kind and as long as that (`Provider::is_address`); it is copied.
        let added = unsafe {
            ((*(*self.av).ops).insert)(self.av, address.as_ptr().cast(), 1, &raw mut far, 0, ptr::null_mut())
        };
        if added != 1 || far == ffi::ADDRESS_NONE {
            return Err(if added < 0 {
                self.provider.library.explain(-added)
            } else {
                "it takes no such address".into()
            });
        }
        self.peer = shown(address).into();
        self.far = Some(Far { address: far, base, key });
        Ok(())
    }

    /// Whether this port can do a CAS on words of this width.
    pub(crate) fn swaps(&self, width: Width) -> bool {
        let mut count = 0;
        // SAFETY: the endpoint was made for atomic operations; it only says whether it has this one.
        self.provider.atomics
            && self.shut.is_none()
            && unsafe { ((*(*self.ep).atomic).compwritevalid)(self.ep, word(width), ffi::CSWAP, &raw mut count) } == 0
            && count >= 1
    }

    /// Begins an access. Returns whether the port has to be looked after soon.
    pub(crate) fn begin(&mut self, mut operation: Box<Operation>) -> bool {
        if let Some(why) = self.shut.clone() {
            self.end(&mut operation, &why);
            return false;
        }
        if self.under_way.len() + self.waiting.len() >= OPERATIONS_MAX {
            self.end(&mut operation, "too many accesses are under way");
            return false;
        }
        self.waiting.push_back(operation);
        self.post();
        !self.waiting.is_empty()
    }

    /// Hands waiting accesses over, as far as the provider has room.
    fn post(&mut self) {
        while let Some(mut operation) = self.waiting.pop_front() {
            match self.hand_over(&mut operation) {
                0 => {
                    self.under_way.insert((&raw const operation.context) as usize, operation);
                }
                code if code == -ffi::EAGAIN => return self.waiting.push_front(operation),
                code => {
                    let why = self.provider.library.explain(-code as c_int);
                    self.end(&mut operation, &why);
                    return self.shut(&why);
                }
            }
        }
    }

    fn hand_over(&self, operation: &mut Box<Operation>) -> isize {
        let Some(far) = self.far else { return -(libc::ENOTCONN as isize) };
        let (bytes, room) = (operation.buffer.len(), operation.buffer.as_mut_ptr());
        if self.provider.rules.local && operation.local.is_none() {
            match self.register(room.cast(), bytes, ffi::READ | ffi::WRITE, room as u64) {
                Ok(mr) => operation.local = Some(mr),
                Err(code) => return code as isize,
            }
        }
        // SAFETY: its own registration, which lives.
        let descriptor = operation.local.map_or(ptr::null_mut(), |mr| unsafe { (*mr).descriptor });
        let place = far.base.wrapping_add(operation.offset);
        let context: *mut c_void = (&raw mut operation.context).cast();
        let (ep, peer, key) = (self.ep, far.address, far.key);
        // SAFETY: buffer and context lie on the heap, belong to the operation, and stay until it has ended or the endpoint is closed.
        unsafe {
            match operation.what {
                What::Read => ((*(*ep).rma).read)(ep, room.cast(), bytes, descriptor, peer, place, key, context),
                What::Write => {
                    let own = ffi::Iovec { base: room.cast(), bytes };
                    let there = ffi::RmaIov { addr: place, len: bytes, key };
                    let mut descriptors = [descriptor];
                    let message = ffi::MsgRma {
                        msg_iov: &raw const own,
                        desc: descriptors.as_mut_ptr(),
                        iov_count: 1,
                        addr: peer,
                        rma_iov: &raw const there,
                        rma_iov_count: 1,
                        context,
                        data: 0,
                    };
                    // Complete when it has arrived, not when it has been sent.
                    ((*(*ep).rma).writemsg)(ep, &raw const message, ffi::DELIVERY_COMPLETE)
                }
                What::Swap(width) => {
                    let (new, old, was) = (room, room.add(8), room.add(16));
                    let swap = (*(*ep).atomic).compwrite;
                    let (new, old, was) = (new.cast(), old.cast(), was.cast());
                    swap(
                        ep,
                        new,
                        1,
                        descriptor,
                        old,
                        descriptor,
                        was,
                        descriptor,
                        peer,
                        place,
                        key,
                        word(width),
                        ffi::CSWAP,
                        context,
                    )
                }
            }
        }
    }

    /// Lets the provider make progress, and takes completed accesses. Returns whether accesses are under way.
    pub(crate) fn progress(&mut self, now: Instant) -> bool {
        while self.shut.is_none() && self.take_completions() {}
        if self.shut.is_none() {
            self.post();
        }
        let late = |operation: &Operation| operation.deadline <= now;
        if self.under_way.values().chain(&self.waiting).any(|operation| late(operation)) {
            self.shut("no answer in time");
        }
        !(self.under_way.is_empty() && self.waiting.is_empty())
    }

    /// Whether the provider allows waiting for the descriptor.
    pub(crate) fn may_wait(&self) -> bool {
        if self.shut.is_some() {
            return true;
        }
        let mut queue: *mut Fid = self.cq.cast();
        let fabric = self.provider.fabric;
        // SAFETY: both are open; the list is of one.
        unsafe { ((*(*fabric).ops).trywait)(fabric, &raw mut queue, 1) == 0 }
    }

    /// Takes some completions. Returns whether there may be more.
    fn take_completions(&mut self) -> bool {
        let mut contexts = [0_usize; COMPLETIONS];
        // SAFETY: the format is one pointer for each, and there is room for so many.
        let count = unsafe { ((*(*self.cq).ops).read)(self.cq, contexts.as_mut_ptr().cast(), COMPLETIONS) };
        match count {
            1.. => {
                for context in &contexts[..count as usize] {
                    if let Some(operation) = self.under_way.remove(context) {
                        self.done(operation);
                    }
                }
                true
            }
            code if code == -ffi::EAVAIL => self.take_error(),
            _ => false,
        }
    }

    fn take_error(&mut self) -> bool {
        // SAFETY: all of it may be zero, as `fi_cq_readerr(3)` wants it.
        let mut error: ffi::CqErrEntry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open, and this is room for one.
        if unsafe { ((*(*self.cq).ops).readerr)(self.cq, &raw mut error, 0) } <= 0 {
            return false;
        }
        // An error without an access of ours comes from a stranger's connection: nobody here waits for it.
        if let Some(mut operation) = self.under_way.remove(&(error.op_context as usize)) {
            let why = self.provider.library.explain(error.err.abs());
            self.end(&mut operation, &why);
            self.shut(&why);
        }
        self.shut.is_none()
    }

    fn done(&self, mut operation: Box<Operation>) {
        self.forget_local(&mut operation);
        operation.outcome.tell(Ok(std::mem::take(&mut operation.buffer)));
    }

    fn end(&self, operation: &mut Operation, why: &str) {
        self.forget_local(operation);
        let error = RemoteError {
            provider: (*self.name).into(),
            peer: self.peer.clone(),
            what: operation.to_string().into(),
            why: why.into(),
            next: "it goes by the link from now on; if it has to be RDMA, see whether the owner lives and still allows it, and import it anew",
        };
        operation.outcome.tell(Err(error));
    }

    fn forget_local(&self, operation: &mut Operation) {
        if let Some(mr) = operation.local.take() {
            // SAFETY: made for this operation, which has ended.
            unsafe { close(mr.cast()) };
        }
    }

    /// Whether it can still be used.
    pub(crate) const fn is_open(&self) -> bool {
        self.shut.is_none()
    }

    /// Ends everything. Once this has returned, nothing that a partner does touches this process.
    pub(crate) fn shut(&mut self, why: &str) {
        if self.shut.is_some() {
            return;
        }
        self.shut = Some(why.into());
        // The endpoint first: closing it ends transfers that are half received.
        let (ep, av, cq, domain) = (self.ep, self.av, self.cq, self.domain);
        // SAFETY: each is closed once and before what it stands on, and none is used afterwards: `shut` is set.
        let ended = unsafe { close(ep.cast()) };
        let mr = self.offered.as_ref().map_or(ptr::null_mut(), |(mr, _)| *mr);
        // SAFETY: as above.
        let ended = unsafe { close(mr.cast()) } && ended;
        let all: Vec<_> =
            self.under_way.drain().map(|(_, operation)| operation).chain(self.waiting.drain(..)).collect();
        if !ended {
            // Memory that may still be touched is leaked for ever: that is better than bytes written into memory that has a new owner.
            std::mem::forget(self.offered.take());
        }
        for mut operation in all {
            self.end(&mut operation, why);
            if !ended {
                std::mem::forget(operation);
            }
        }
        for fid in [av.cast(), cq.cast(), domain.cast()] {
            // SAFETY: as above.
            unsafe { close(fid) };
        }
        self.offered = None;
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shut("the port is closed");
    }
}

/// Closes an object, if there is one; returns whether it is closed.
///
/// # Safety
/// It is open, and is not used afterwards.
unsafe fn close(fid: *mut Fid) -> bool {
    // SAFETY: as the caller says; what is not null is an object with its table.
    fid.is_null() || unsafe { ((*(*fid).ops).close)(fid) } == 0
}

const fn word(width: Width) -> c_int {
    match width {
        Width::Four => ffi::UINT32,
        Width::Eight => ffi::UINT64,
    }
}

const fn ok(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}
