//! Which server, under which identity, and within which bounds.

use nfs3_client::nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use serde::{Deserialize, Serialize};

/// Supplementary groups that AUTH_UNIX has room for (RFC 5531, appendix A).
pub(crate) const GIDS_MAX: usize = 16;
/// Bytes that AUTH_UNIX has room for in the machine's name (RFC 5531, appendix A).
const MACHINE_BYTES_MAX: usize = 255;

/// Who acts at the server (AUTH_UNIX, RFC 5531, appendix A). The server believes these numbers without proof: let only those call the bridge who may act as
/// this user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credentials {
    /// The user's number at the server.
    pub uid: u32,
    /// The group's number at the server.
    pub gid: u32,
    /// Further groups, at most 16.
    pub gids: Vec<u32>,
    /// The name of this machine, for the server's log; at most 255 bytes.
    pub machine: String,
}

impl Credentials {
    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let why = if self.gids.len() > GIDS_MAX {
            format!("credentials with {} groups: AUTH_UNIX carries gids_max = {GIDS_MAX}", self.gids.len())
        } else if self.machine.len() > MACHINE_BYTES_MAX {
            format!("a machine name of {} bytes: the most is {MACHINE_BYTES_MAX}", self.machine.len())
        } else {
            return Ok(());
        };
        Err(ConnectError::Config { why })
    }

    /// The form that goes on the wire. Packing into memory cannot fail, which is all that the library would panic for.
    pub(crate) fn to_wire(&self) -> opaque_auth<'static> {
        opaque_auth::auth_unix(&auth_unix {
            stamp: 0,
            machinename: Opaque::owned(self.machine.clone().into_bytes()),
            uid: self.uid,
            gid: self.gid,
            gids: self.gids.clone(),
        })
    }
}

/// Which server to wrap, and the bounds within which it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NfsConfig {
    /// The server's name or address.
    pub host: String,
    /// The exported directory, as the server names it, such as `/srv/files`.
    pub export: String,
    /// The port of the NFS service; asked from the server's portmapper if absent.
    #[serde(default)]
    pub nfs_port: Option<u16>,
    /// The port of the mount service; asked from the server's portmapper if absent.
    #[serde(default)]
    pub mount_port: Option<u16>,
    /// The portmapper's port, used only if one of the others is absent.
    #[serde(default = "portmapper_port")]
    pub portmapper_port: u16,
    /// As whom to act.
    #[serde(default)]
    pub credentials: Credentials,
    /// Connect from a port below 1024, as many servers demand; this takes root.
    #[serde(default)]
    pub privileged_port: bool,
    /// How long one attempt to connect may take.
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// How long a call may take in all, with waiting for a connection and repeats. One that may be repeated is asked once more,
    /// on another connection, when a quarter of it has passed without an answer.
    #[serde(default = "call_timeout_ms")]
    pub call_timeout_ms: u64,
    /// Connections to the server: this many calls run side by side, since each connection carries one at a time.
    #[serde(default = "connections_max")]
    pub connections_max: usize,
    /// How often a call is tried again after its connection was lost, if repeating it cannot have its effect twice.
    #[serde(default = "retries_max")]
    pub retries_max: u32,
}

const fn portmapper_port() -> u16 {
    111
}
const fn connect_timeout_ms() -> u64 {
    5_000
}
const fn call_timeout_ms() -> u64 {
    30_000
}
const fn connections_max() -> usize {
    16
}
const fn retries_max() -> u32 {
    2
}

impl NfsConfig {
    /// The configuration for an export with the defaults: ports from the portmapper, user and group 0, 16 connections,
    /// 5 s to connect, 30 s for a call, 2 retries.
    pub fn new(host: impl Into<String>, export: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            export: export.into(),
            nfs_port: None,
            mount_port: None,
            portmapper_port: portmapper_port(),
            credentials: Credentials::default(),
            privileged_port: false,
            connect_timeout_ms: connect_timeout_ms(),
            call_timeout_ms: call_timeout_ms(),
            connections_max: connections_max(),
            retries_max: retries_max(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        self.credentials.check()?;
        let zero = [
            ("connections_max", self.connections_max as u64),
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("call_timeout_ms", self.call_timeout_ms),
        ];
        match zero.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(ConnectError::Config { why: format!("{name} is 0: it must be at least 1") }),
            None => Ok(()),
        }
    }
}

/// Why a bridge to an NFS server could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration cannot be used.
    #[error("the NFS configuration: {why}")]
    Config {
        /// What is wrong with it.
        why: String,
    },
    /// Nobody answers there, or not as this kind of service would.
    #[error("no {service} service at {server}: {cause}; see that the NFS server runs there and that the port is right")]
    Unreachable {
        /// `portmapper`, `mount` or `NFS`.
        service: &'static str,
        /// Host and port.
        server: String,
        /// What happened.
        cause: String,
    },
    /// The server does not let this client mount the export.
    #[error(
        "{server} refuses to mount {export:?}: {status}; see the server's list of exports, and whether it demands \
         privileged_port = true"
    )]
    Denied {
        /// Host and port.
        server: String,
        /// The export that was asked for.
        export: String,
        /// The server's word, such as `MNT3ERR_NOENT`.
        status: String,
    },
}
