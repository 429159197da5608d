//! One provider of libfabric, opened: where ports are made.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_int},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    ptr,
};

use crate::{
    ffi::{self, Fabric, Info},
    library::{API, Library},
};

/// Operations of one port for which its provider is asked to make room.
const PORT_OPERATIONS: usize = 128;
/// What an endpoint's name begins with, where addresses are strings.
const STRING_ADDRESS: &[u8] = b"fi_";
/// Such an address, in bytes.
const STRING_ADDRESS_BYTES_MAX: usize = 128;

/// What the provider requires of memory and keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Local buffers have to be registered, too.
    pub(crate) local: bool,
    /// Remote places are given as addresses, not as offsets into the registration.
    pub(crate) by_address: bool,
}

pub(crate) struct Provider {
    pub(crate) library: &'static Library,
    pub(crate) info: *mut Info,
    pub(crate) fabric: *mut Fabric,
    pub(crate) rules: Rules,
    pub(crate) atomics: bool,
}

// SAFETY: libfabric's fabrics may be used from any thread, and `info` is only read.
unsafe impl Send for Provider {}
// SAFETY: as above.
unsafe impl Sync for Provider {}

impl Provider {
    /// Opens a provider by its name; `source`: the address of this host at which others reach it, where addresses are Internet addresses.
    ///
    /// # Errors
    /// libfabric is not there, or has no such provider here.
    pub(crate) fn open(name: &str, source: Option<&str>) -> Result<Self, String> {
        let library = Library::get()?;
        // First without rules of the provider's own: with keys that this side draws and places counted from 0, a partner can do the least harm.
        let all_rules = ffi::MR_LOCAL | ffi::MR_VIRT_ADDR | ffi::MR_ALLOCATED | ffi::MR_PROV_KEY;
        let ways = [(ffi::RMA | ffi::ATOMIC, 0), (ffi::RMA | ffi::ATOMIC, all_rules), (ffi::RMA, all_rules)];
        let mut why = 0;
        for (caps, rules) in ways {
            match find(library, name, source, caps, rules) {
                Ok(info) => return Self::of(library, info, caps & ffi::ATOMIC != 0),
                Err(code) => why = code,
            }
        }
        Err(format!("it is not to be had here: {}; `fi_info -l` lists what is", library.explain(why)))
    }

    fn of(library: &'static Library, info: *mut Info, atomics: bool) -> Result<Self, String> {
        let mut fabric = ptr::null_mut();
        // SAFETY: `info` is libfabric's own, complete.
        let (code, mode) = unsafe {
            let code = (library.fabric)((*info).fabric_attr, &raw mut fabric, ptr::null_mut());
            (code, (*(*info).domain_attr).mr_mode)
        };
        let has = |rule: c_int| mode & rule != 0;
        let rules = Rules { local: has(ffi::MR_LOCAL), by_address: has(ffi::MR_VIRT_ADDR) };
        if code != 0 {
            // SAFETY: it is not used any more.
            unsafe { (library.freeinfo)(info) };
            return Err(library.explain(-code));
        }
        Ok(Self { library, info, fabric, rules, atomics })
    }

    /// Whether bytes sent by a partner are an address of this provider's kind: libfabric reads as many bytes as that kind has, however many there are.
    pub(crate) fn is_address(&self, bytes: &[u8]) -> bool {
        // SAFETY: `info` is complete, and its own address has as many bytes as it says.
        let (format, own) = unsafe {
            let info = &*self.info;
            let own: &[u8] = match info.src_addr.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen),
            };
            (info.addr_format, own)
        };
        match format {
            ffi::ADDRESS_STRING => {
                let text = bytes.split_last().filter(|(last, text)| **last == 0 && !text.contains(&0));
                bytes.len() <= STRING_ADDRESS_BYTES_MAX
                    && text.is_some_and(|(_, text)| text.starts_with(STRING_ADDRESS) && text.is_ascii())
                    // A shared-memory name with a dot could lead elsewhere.
                    && !bytes.contains(&b'.')
            }
            _ => bytes.len() == own.len() && bytes.get(..2) == own.get(..2),
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // SAFETY: ports hold the provider, so no object of the fabric is open any more.
        unsafe {
            ((*(*self.fabric).fid.ops).close)(self.fabric.cast());
            (self.library.freeinfo)(self.info);
        }
    }
}

/// What libfabric offers for this name and these capabilities; an error is libfabric's number.
fn find(library: &Library, name: &str, source: Option<&str>, caps: u64, rules: c_int) -> Result<*mut Info, c_int> {
    let (Ok(name), Ok(source)) = (CString::new(name), source.map(CString::new).transpose()) else {
        return Err(libc::EINVAL);
    };
    let mut found = ptr::null_mut();
    // SAFETY: `dupinfo` of nothing gives room that is zero but for its parts; those are filled in as `fi_getinfo(3)` says, and given back. The name is
    // copied by `strdup`, because `freeinfo` frees it.
    unsafe {
        let hints = (library.dupinfo)(ptr::null());
        if hints.is_null() {
            return Err(libc::ENOMEM);
        }
        (*hints).caps = caps;
        (*hints).mode = ffi::MODE_CONTEXTS;
        (*(*hints).ep_attr).kind = ffi::EP_RDM;
        (*(*hints).tx_attr).size = PORT_OPERATIONS;
        (*(*hints).rx_attr).size = PORT_OPERATIONS;
        (*(*hints).domain_attr).threading = ffi::THREAD_DOMAIN;
        (*(*hints).domain_attr).mr_mode = rules;
        (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        let (node, flags) = source.as_ref().map_or((ptr::null(), 0), |source| (source.as_ptr(), ffi::SOURCE));
        let code = (library.getinfo)(API, node, ptr::null(), flags, hints, &raw mut found);
        (library.freeinfo)(hints);
        if code != 0 {
            return Err(-code);
        }
        // libfabric may return another provider whose name merely contains this one.
        let given = (*(*found).fabric_attr).prov_name;
        if given.is_null() || CStr::from_ptr(given) != name.as_c_str() {
            (library.freeinfo)(found);
            return Err(libc::ENODATA);
        }
    }
    Ok(found)
}

/// An address in readable form.
pub(crate) fn shown(address: &[u8]) -> String {
    let port = || Some(u16::from_be_bytes([*address.get(2)?, *address.get(3)?]));
    let part = |from: usize, count: usize| address.get(from..from + count);
    let family = address.get(..2).map_or(0, |family| i32::from(u16::from_ne_bytes([family[0], family[1]])));
    let ip = match family {
        libc::AF_INET => part(4, 4).and_then(|ip| <[u8; 4]>::try_from(ip).ok()).map(|ip| Ipv4Addr::from(ip).into()),
        libc::AF_INET6 => part(8, 16).and_then(|ip| <[u8; 16]>::try_from(ip).ok()).map(|ip| Ipv6Addr::from(ip).into()),
        _ => None,
    };
    match (ip, port()) {
        (Some(ip), Some(port)) => SocketAddr::new(ip, port).to_string(),
        _ => String::from_utf8_lossy(address).trim_end_matches('\0').to_owned(),
    }
}
