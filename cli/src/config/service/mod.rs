//! `[[service]]`: which services the node offers, each of a kind with keys of its own.

use std::{ops::Range, path::PathBuf, sync::Arc};

use catena::Service;
use catena_bridge_nfs::{Credentials, NfsBridge, NfsConfig};
use catena_files::Directory;
use serde::Deserialize;
use toml::Spanned;

use super::{checked_name, mistake::Text};
use crate::{failure::Failure, nearest::did_you_mean};

/// A kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A directory of this machine.
    Files,
    /// An export of an NFSv3 server.
    Nfs,
    /// For experiments.
    Probe,
    /// The demonstration's mail.
    Mail,
    /// The demonstration's advertisements.
    Ads,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Nfs => "nfs",
            Self::Probe => "probe",
            Self::Mail => "mail",
            Self::Ads => "ads",
        }
    }

    /// The keys that it takes besides `kind` and `name`.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Files => &["root"],
            Self::Nfs => &[
                "host",
                "export",
                "nfs_port",
                "mount_port",
                "portmapper_port",
                "uid",
                "gid",
                "gids",
                "machine",
                "privileged_port",
                "connect_timeout_ms",
                "call_timeout_ms",
                "connections_max",
                "retries_max",
            ],
            Self::Probe | Self::Mail | Self::Ads => &[],
        }
    }
}

/// The table as it is written. One for all kinds, since serde's tagged enums would lose the lines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceTable {
    kind: Spanned<Kind>,
    name: Spanned<String>,
    root: Option<Spanned<PathBuf>>,
    host: Option<Spanned<String>>,
    export: Option<Spanned<String>>,
    nfs_port: Option<Spanned<u16>>,
    mount_port: Option<Spanned<u16>>,
    portmapper_port: Option<Spanned<u16>>,
    uid: Option<Spanned<u32>>,
    gid: Option<Spanned<u32>>,
    gids: Option<Spanned<Vec<u32>>>,
    machine: Option<Spanned<String>>,
    privileged_port: Option<Spanned<bool>>,
    connect_timeout_ms: Option<Spanned<u64>>,
    call_timeout_ms: Option<Spanned<u64>>,
    connections_max: Option<Spanned<usize>>,
    retries_max: Option<Spanned<u32>>,
}

impl ServiceTable {
    /// The keys that are there, with their places.
    fn given(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> {
        macro_rules! spans {
            ($($key:ident)*) => { [$((stringify!($key), self.$key.as_ref().map(Spanned::span)),)*] };
        }
        let spans = spans!(root host export nfs_port mount_port portmapper_port uid gid gids machine privileged_port
            connect_timeout_ms call_timeout_ms connections_max retries_max);
        spans.into_iter().filter_map(|(key, span)| Some((key, span?)))
    }
}

/// A service of the file, checked but not opened.
pub(crate) struct ServiceFile {
    name: String,
    at: Range<usize>,
    text: Text,
    what: What,
}

enum What {
    Files { root: PathBuf },
    Nfs(Box<NfsConfig>),
    Probe,
    Mail,
    Ads,
}

impl ServiceFile {
    /// Checks that the kind's keys are there and no others.
    pub(super) fn checked(table: ServiceTable, text: &Text) -> Result<Self, Failure> {
        let kind = *table.kind.get_ref();
        for (key, span) in table.given() {
            if !kind.keys().contains(&key) {
                let takes = match kind.keys() {
                    [] => "it takes `kind` and `name` only".to_owned(),
                    keys => did_you_mean(key, keys.iter().copied(), &format!("it takes {}", keys.join(", "))),
                };
                let message = format!("a service of kind {} takes no `{key}`", kind.name());
                return Err(text.mistake(span, message, takes));
            }
        }
        let (name, at) = (checked_name(&table.name, text)?, table.name.span());
        Ok(Self { name, at, what: what(kind, table, text)?, text: text.clone() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// This one has the name of one before it.
    pub(super) fn twice(&self) -> Failure {
        let message = format!("two services are called {}", self.name);
        self.text.mistake(self.at.clone(), message, "give each a name of its own")
    }

    /// Opens it.
    pub(crate) async fn open(self) -> Result<Service, Failure> {
        let (text, at) = (self.text, self.at);
        let cannot = |why: String| text.mistake(at.clone(), why, "correct this service, or take it out of the file");
        Ok(match self.what {
            What::Probe => catena_apps::probe::service(&self.name),
            What::Mail => catena_apps::mail::storage_service(&self.name),
            What::Ads => catena_apps::mail::ads_service(&self.name),
            What::Files { root } => {
                let files = Directory::open(root).map_err(|why| cannot(why.to_string()))?;
                catena_apps::files::service(&self.name, Arc::new(files))
            }
            What::Nfs(config) => {
                let bridge = NfsBridge::connect(*config).await.map_err(|why| cannot(why.to_string()))?;
                catena_apps::files::service(&self.name, Arc::new(bridge))
            }
        })
    }
}

fn what(kind: Kind, table: ServiceTable, text: &Text) -> Result<What, Failure> {
    let missing = |key: &str, example: &str| {
        let message = format!("a service of kind {} needs `{key}`", kind.name());
        text.mistake(table.kind.span(), message, format!("add {key} = {example}"))
    };
    Ok(match kind {
        Kind::Probe => What::Probe,
        Kind::Mail => What::Mail,
        Kind::Ads => What::Ads,
        Kind::Files => {
            let root = table.root.as_ref().ok_or_else(|| missing("root", "\"./data\""))?;
            What::Files { root: text.folder().join(root.get_ref()) }
        }
        Kind::Nfs => {
            let host = table.host.as_ref().ok_or_else(|| missing("host", "\"nas.example.org\""))?;
            let export = table.export.as_ref().ok_or_else(|| missing("export", "\"/srv/files\""))?;
            What::Nfs(Box::new(nfs(NfsConfig::new(host.get_ref(), export.get_ref()), table)))
        }
    })
}

/// What the table says, over the bridge's defaults.
fn nfs(mut config: NfsConfig, table: ServiceTable) -> NfsConfig {
    fn put<T>(place: &mut T, given: Option<Spanned<T>>) {
        if let Some(given) = given {
            *place = given.into_inner();
        }
    }
    config.nfs_port = table.nfs_port.map(Spanned::into_inner);
    config.mount_port = table.mount_port.map(Spanned::into_inner);
    put(&mut config.portmapper_port, table.portmapper_port);
    put(&mut config.privileged_port, table.privileged_port);
    put(&mut config.connect_timeout_ms, table.connect_timeout_ms);
    put(&mut config.call_timeout_ms, table.call_timeout_ms);
    put(&mut config.connections_max, table.connections_max);
    put(&mut config.retries_max, table.retries_max);
    let mut as_whom = Credentials::default();
    put(&mut as_whom.uid, table.uid);
    put(&mut as_whom.gid, table.gid);
    put(&mut as_whom.gids, table.gids);
    put(&mut as_whom.machine, table.machine);
    config.credentials = as_whom;
    config
}
