//! `[rdma]`: how segments of nodes on other hosts are reached without messages.

use std::sync::Arc;

use catena::RemoteMemory;
use serde::Deserialize;
use toml::Spanned;

use super::mistake::Text;
use crate::failure::Failure;

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RdmaTable {
    provider: Spanned<String>,
    address: Option<String>,
}

/// A provider of libfabric, not opened.
pub(crate) struct RdmaFile {
    pub(crate) provider: String,
    /// This host's own address, by which partners reach it; else the host that the node listens on, or libfabric's choice.
    pub(crate) address: Option<String>,
}

impl RdmaTable {
    pub(super) fn checked(self, listen: Option<&str>, text: &Text) -> Result<RdmaFile, Failure> {
        if !cfg!(feature = "rdma") {
            let message = "this catena was built without RDMA";
            let help = "build it with `--features rdma`, or take [rdma] out: segments go by the links then";
            return Err(text.mistake(self.provider.span(), message, help));
        }
        if self.provider.get_ref().is_empty() {
            let help = "such as provider = \"tcp;ofi_rxm\"; `fi_info -l` lists what is there";
            return Err(text.mistake(self.provider.span(), "[rdma] names no provider", help));
        }
        let host = listen.and_then(|listen| Some(listen.rsplit_once(':')?.0));
        // Partners cannot reach a wildcard address.
        let host =
            host.map(|host| host.trim_matches(['[', ']'])).filter(|host| !matches!(*host, "0.0.0.0" | "::" | ""));
        let address = self.address.or_else(|| host.map(str::to_owned));
        Ok(RdmaFile { provider: self.provider.into_inner(), address })
    }
}

impl RdmaFile {
    #[cfg(feature = "rdma")]
    pub(crate) fn open(&self) -> Result<Arc<dyn RemoteMemory>, Failure> {
        // The address is an IP address, and the provider `shm` takes none.
        let address = self.address.as_deref().filter(|_| self.provider != "shm");
        let opened = catena_fabric::Fabric::open(&self.provider, address, catena_fabric::Terms::default());
        let opened = opened.map_err(|why| {
            Failure::cannot_start(why.to_string(), "see [rdma] in the file; `fi_info -l` lists what is there")
        })?;
        Ok(Arc::new(opened))
    }

    #[cfg(not(feature = "rdma"))]
    pub(crate) fn open(&self) -> Result<Arc<dyn RemoteMemory>, Failure> {
        let Self { provider, address } = self;
        let message =
            format!("this catena was built without RDMA: {provider} {}", address.as_deref().unwrap_or_default());
        Err(Failure::cannot_start(message, "build it with `--features rdma`"))
    }
}
