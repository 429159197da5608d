//! The way in: the ports of the server's services, and the root handle of the export.

use std::time::Duration;

use nfs3_client::PortmapperClient;
use nfs3_client::nfs3_types::mount::{MOUNT_PROGRAM, PROGRAM, VERSION, dirpath, mountstat3};
use nfs3_client::nfs3_types::nfs3::{self as nfs, nfs_fh3};
use nfs3_client::nfs3_types::portmap;
use nfs3_client::nfs3_types::rpc::opaque_auth;
use nfs3_client::nfs3_types::xdr_codec::{Opaque, Unpack};
use nfs3_client::rpc::RpcClient;

use crate::config::{ConnectError, NfsConfig};
use crate::pool::Dialer;
use crate::reply::Mounted;

/// The export's root handle, and the port of the NFS service.
pub(crate) async fn mount(dialer: &Dialer, config: &NfsConfig) -> Result<(nfs_fh3, u16), ConnectError> {
    let mount_port = resolve(dialer, config, config.mount_port, PROGRAM, VERSION, "mount").await?;
    let nfs_port = resolve(dialer, config, config.nfs_port, nfs::PROGRAM, nfs::VERSION, "NFS").await?;
    Ok((root_of(dialer, config, mount_port).await?, nfs_port))
}

/// A port from the configuration, else from the server's portmapper.
async fn resolve(
    dialer: &Dialer,
    config: &NfsConfig,
    port: Option<u16>,
    program: u32,
    version: u32,
    service: &'static str,
) -> Result<u16, ConnectError> {
    if let Some(port) = port {
        return Ok(port);
    }
    let server = dialer.server(config.portmapper_port);
    let unreachable = |cause: String| ConnectError::Unreachable { service: "portmapper", server, cause };
    let stream = dialer.connect(config.portmapper_port).await;
    let mut client = match stream {
        Ok(stream) => PortmapperClient::new(stream),
        Err(error) => return Err(unreachable(error.to_string())),
    };
    let timeout = Duration::from_millis(config.call_timeout_ms);
    match tokio::time::timeout(timeout, client.getport(program, version, portmap::IPPROTO_TCP)).await {
        Ok(Ok(port)) => Ok(port),
        Ok(Err(error)) => Err(unreachable(format!("asked for the port of the {service} service: {error}"))),
        Err(_) => Err(unreachable(format!("no answer within {} ms", config.call_timeout_ms))),
    }
}

/// Asks the mount service for the export's root handle.
async fn root_of(dialer: &Dialer, config: &NfsConfig, port: u16) -> Result<nfs_fh3, ConnectError> {
    let server = dialer.server(port);
    let unreachable = |cause: String| ConnectError::Unreachable { service: "mount", server: server.clone(), cause };
    let stream = dialer.connect(port).await.map_err(|error| unreachable(error.to_string()))?;
    let mut client = RpcClient::new_with_auth(stream, config.credentials.to_wire(), opaque_auth::default());
    let path = dirpath(Opaque::borrowed(config.export.as_bytes()));
    let answer = client.call::<_, Mounted>(PROGRAM, VERSION, MOUNT_PROGRAM::MOUNTPROC3_MNT as u32, &path);
    match tokio::time::timeout(Duration::from_millis(config.call_timeout_ms), answer).await {
        Ok(Ok(Mounted(Ok(root)))) => Ok(root),
        Ok(Ok(Mounted(Err(status)))) => {
            Err(ConnectError::Denied { server, export: config.export.clone(), status: name_of(status) })
        }
        Ok(Err(error)) => Err(unreachable(error.to_string())),
        Err(_) => Err(unreachable(format!("no answer within {} ms", config.call_timeout_ms))),
    }
}

/// The mount service's word for a refusal (RFC 1813, section 5.1.5).
fn name_of(status: u32) -> String {
    match mountstat3::unpack(&mut status.to_be_bytes().as_slice()) {
        Ok((known, _)) => known.to_string(),
        Err(_) => format!("mount status {status}"),
    }
}
