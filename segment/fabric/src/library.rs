//! libfabric itself, loaded when it is first asked for: a program runs without it.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    mem::MaybeUninit,
    ptr,
    sync::OnceLock,
};

use crate::ffi::{Fabric, FabricAttr, Info};

/// The interface that is asked for: 1.17, as Debian 12 has it.
pub(crate) const API: u32 = 1 << 16 | 17;
const FILE: &CStr = c"libfabric.so.1";

type Getinfo = unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
type Freeinfo = unsafe extern "C" fn(*mut Info);
type Dupinfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int;
type Strerror = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions that are exported, as far as they are used.
pub(crate) struct Library {
    pub(crate) getinfo: Getinfo,
    pub(crate) freeinfo: Freeinfo,
    pub(crate) dupinfo: Dupinfo,
    pub(crate) fabric: OpenFabric,
    strerror: Strerror,
}

impl Library {
    /// Loads it, once for the process; it stays.
    ///
    /// # Errors
    /// It is not there, or another version; what to do about it.
    pub(crate) fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// What one of libfabric's error numbers means; `code` is positive.
    pub(crate) fn explain(&self, code: c_int) -> String {
        // SAFETY: it takes any number, and gives a text that is never freed.
        let text = unsafe { (self.strerror)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: a text of C, as above.
        let text = unsafe { CStr::from_ptr(text) };
        format!("{} ({code})", text.to_string_lossy())
    }
}

fn load() -> Result<Library, String> {
    let _signals = Signals::keep();
    // SAFETY: a library of the system, whose initialisers run here. Whatever they do to this process's signal handlers is undone by `_signals`.
    let handle = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(format!("{} is not installed (Debian: apt-get install libfabric1)", FILE.to_string_lossy()));
    }
    let symbol = |name: &CStr| {
        // SAFETY: the handle is that of the library, which is never unloaded.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if found.is_null() { Err(format!("the libfabric here has no {}", name.to_string_lossy())) } else { Ok(found) }
    };
    // SAFETY: the types are those of `rdma/fabric.h` for the names beside them.
    let (version, library) = unsafe {
        let version: unsafe extern "C" fn() -> u32 = std::mem::transmute(symbol(c"fi_version")?);
        let library = Library {
            getinfo: std::mem::transmute::<*mut c_void, Getinfo>(symbol(c"fi_getinfo")?),
            freeinfo: std::mem::transmute::<*mut c_void, Freeinfo>(symbol(c"fi_freeinfo")?),
            dupinfo: std::mem::transmute::<*mut c_void, Dupinfo>(symbol(c"fi_dupinfo")?),
            fabric: std::mem::transmute::<*mut c_void, OpenFabric>(symbol(c"fi_fabric")?),
            strerror: std::mem::transmute::<*mut c_void, Strerror>(symbol(c"fi_strerror")?),
        };
        (version(), library)
    };
    if version >> 16 != API >> 16 || version < API {
        let (major, minor) = (version >> 16, version & 0xffff);
        return Err(format!("libfabric {major}.{minor} is installed; 1.17 or a later 1.x is needed"));
    }
    // The first query initialises the providers, which must happen while the signal handlers are being preserved.
    let mut info = ptr::null_mut();
    // SAFETY: no hints; what comes is given back at once.
    unsafe {
        if (library.getinfo)(API, ptr::null(), ptr::null(), 0, ptr::null(), &raw mut info) == 0 {
            (library.freeinfo)(info);
        }
    }
    Ok(library)
}

/// This process's signal handlers, put back on drop.
///
/// Providers install handlers for SIGSEGV, SIGBUS, SIGTERM and others as soon as they are loaded, even unrequested (psm, psm2 and shm in 1.17). A sandbox that
/// turns faults of its guests into traps would be killed by the first fault.
pub(crate) struct Signals(Vec<(c_int, libc::sigaction)>);

impl Signals {
    pub(crate) fn keep() -> Self {
        let now = |signal| {
            let mut action = MaybeUninit::uninit();
            // SAFETY: it only reads, into room for one action, and fills that if it returns 0.
            let filled = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } == 0;
            // SAFETY: it is filled then.
            filled.then(|| (signal, unsafe { action.assume_init() }))
        };
        Self((1..32).filter(|signal| !matches!(*signal, libc::SIGKILL | libc::SIGSTOP)).filter_map(now).collect())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, action) in &self.0 {
            // SAFETY: an action that this process had a moment ago.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
    }
}
