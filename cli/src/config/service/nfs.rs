//! `kind = "nfs"`: which server, and as whom the bridge acts there.

use catena_bridge::{Identity, NOBODY, Who};
use catena_bridge_nfs::{Credentials, NfsConfig};
use toml::Spanned;

use super::{super::put, ServiceTable, Text};
use crate::failure::Failure;

/// As whom the bridge acts. It never acts as root, or as anybody else, whom the file does not name.
pub(super) fn identity(
    table: &ServiceTable,
    text: &Text,
    missing: impl Fn(&str, &str) -> Failure,
) -> Result<Identity, Failure> {
    let identity = table.identity.as_ref().map(|given| given.get_ref().clone()).unwrap_or_default();
    if let Some(given) = &table.identity {
        if identity.act_as == Who::Node && identity != Identity::node() {
            let message = "a service that acts as its node does not look at its callers: `root`, `uid_min` and `uid_max` have no meaning";
            let help = "take them out, or make act_as \"caller\" or \"caller_or_node\"";
            return Err(text.mistake(given.span(), message, help));
        }
        if let (Some(least), Some(most)) = (identity.uid_min, identity.uid_max)
            && least > most
        {
            let message = format!("uid_min is {least} and uid_max {most}: nobody is let through");
            return Err(text.mistake(given.span(), message, "make uid_max at least uid_min, or leave it out"));
        }
    }
    let (uid, gid, gids) = (&table.uid, &table.gid, &table.gids);
    if identity.act_as != Who::Caller {
        return match (uid, gid) {
            (None, _) => Err(missing("uid", "1000: as that user it acts at the server")),
            (_, None) => Err(missing("gid", "1000: as that group it acts at the server")),
            _ => Ok(identity),
        };
    }
    let unused = [
        ("uid", uid.as_ref().map(Spanned::span)),
        ("gid", gid.as_ref().map(Spanned::span)),
        ("gids", gids.as_ref().map(Spanned::span)),
    ];
    match unused.into_iter().find_map(|(key, span)| Some((key, span?))) {
        None => Ok(identity),
        Some((key, span)) => {
            let message = format!("this service acts as its callers, so `{key}` is never used");
            let help = "take it out; or add identity = { act_as = \"node\" }, which lets everybody act as that user";
            Err(text.mistake(span, message, help))
        }
    }
}

/// The bridge's defaults, overridden by what the table says.
pub(super) fn config(mut config: NfsConfig, table: ServiceTable, identity: &Identity) -> NfsConfig {
    config.nfs_port = table.nfs_port.map(Spanned::into_inner);
    config.mount_port = table.mount_port.map(Spanned::into_inner);
    put(&mut config.portmapper_port, table.portmapper_port);
    put(&mut config.privileged_port, table.privileged_port);
    put(&mut config.connect_timeout_ms, table.connect_timeout_ms);
    put(&mut config.call_timeout_ms, table.call_timeout_ms);
    put(&mut config.connections_max, table.connections_max);
    put(&mut config.retries_max, table.retries_max);
    // The bridge's own requests (what to mount, how much the server takes) have no caller.
    let nobody = Credentials { uid: NOBODY, gid: NOBODY, ..Credentials::default() };
    let mut as_whom = if identity.act_as == Who::Caller { nobody } else { Credentials::default() };
    put(&mut as_whom.uid, table.uid);
    put(&mut as_whom.gid, table.gid);
    put(&mut as_whom.gids, table.gids);
    put(&mut as_whom.machine, table.machine);
    config.credentials = as_whom;
    config
}

/// In words, for people.
pub(super) fn meaning(config: &NfsConfig, identity: &Identity) -> String {
    let Credentials { uid, gid, gids, .. } = &config.credentials;
    let whole = format!("{} of {}: {identity}", config.export, config.host);
    match identity.act_as {
        Who::Caller => whole,
        _ if gids.is_empty() => format!("{whole}; the node is uid {uid}, gid {gid}"),
        _ => format!("{whole}; the node is uid {uid}, gid {gid}, groups {gids:?}"),
    }
}
