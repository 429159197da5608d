//! `[[service]]`: which services the node offers, each of a kind with keys of its own.

mod nfs;

use std::{ops::Range, path::PathBuf, sync::Arc};

use catena::Service;
use catena_bridge::{Identity, service_of};
use catena_bridge_nfs::{NfsBridge, NfsConfig, NfsService};
use catena_files::{Directory, FUNCTIONS, LIST};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{
    checked_name,
    mistake::{Text, word},
};
use crate::{failure::Failure, nearest::did_you_mean};

/// A kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A directory of this machine.
    Files,
    /// An export of an NFSv3 server.
    Nfs,
    /// A file service that makes each change at two others.
    Replicated,
    /// For experiments.
    Probe,
    /// The demonstration's mail.
    Mail,
    /// The demonstration's advertisements.
    Ads,
}

impl Kind {
    /// The functions of a service of this kind.
    fn functions(self) -> Vec<String> {
        let of = |service: Service| service.functions().map(str::to_owned).collect();
        match self {
            Self::Files | Self::Nfs => {
                FUNCTIONS.iter().map(|function| function.name).chain([LIST]).map(str::to_owned).collect()
            }
            Self::Replicated => of(catena_apps::replicated::replicated("", "", "")),
            Self::Probe => of(catena_apps::probe::service("")),
            Self::Mail => of(catena_apps::mail::storage_service("")),
            Self::Ads => of(catena_apps::mail::ads_service("")),
        }
    }
}

/// The table as it is written. One for all kinds, since serde's tagged enums would lose the lines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceTable {
    kind: Spanned<Kind>,
    name: Spanned<String>,
    durable: Option<Spanned<Vec<Spanned<String>>>>,
    root: Option<Spanned<PathBuf>>,
    primary: Option<Spanned<String>>,
    backup: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    export: Option<Spanned<String>>,
    identity: Option<Spanned<Identity>>,
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
    /// Every key besides `kind`, `name` and `durable`: the kind that takes it, and its span if the table has it.
    fn keys(&self) -> Vec<(Kind, &'static str, Option<Range<usize>>)> {
        macro_rules! keys {
            ($($kind:ident: $($key:ident)*;)*) => {
                vec![$($((Kind::$kind, stringify!($key), self.$key.as_ref().map(Spanned::span)),)*)*]
            };
        }
        keys! {
            Files: root;
            Replicated: primary backup;
            Nfs: host export identity nfs_port mount_port portmapper_port uid gid gids machine privileged_port
                connect_timeout_ms call_timeout_ms connections_max retries_max;
        }
    }
}

/// A service of the file, checked but not opened.
pub(crate) struct ServiceFile {
    name: String,
    at: Range<usize>,
    text: Text,
    durable: Vec<String>,
    durable_at: Option<Range<usize>>,
    what: What,
}

enum What {
    Files {
        root: PathBuf,
    },
    Nfs(Box<NfsConfig>, Identity),
    Replicated {
        primary: String,
        primary_at: Range<usize>,
        backup: String,
    },
    /// Built into this program, so there is nothing to open; with a description.
    Own(Service, &'static str),
}

impl ServiceFile {
    /// Checks that all keys that the kind needs are there, and no others.
    pub(super) fn checked(table: ServiceTable, text: &Text) -> Result<Self, Failure> {
        let kind = *table.kind.get_ref();
        let (own, others): (Vec<_>, Vec<_>) = table.keys().into_iter().partition(|(takes, ..)| *takes == kind);
        if let Some((key, span)) = others.into_iter().find_map(|(_, key, span)| Some((key, span?))) {
            let own: Vec<_> = own.into_iter().map(|(_, key, _)| key).collect();
            let takes = match own.is_empty() {
                true => "it takes `kind`, `name` and `durable` only".to_owned(),
                false => did_you_mean(key, own.iter().copied(), &format!("it takes {}", own.join(", "))),
            };
            return Err(text.mistake(span, format!("a service of kind {} takes no `{key}`", word(kind)), takes));
        }
        let (name, at) = (checked_name(&table.name, text)?, table.name.span());
        let durable_at = table.durable.as_ref().map(Spanned::span);
        let durable = durable(kind, &table, text)?;
        Ok(Self { name, at, durable, durable_at, what: what(kind, table, text)?, text: text.clone() })
    }

    /// Checks this service for a node that has no step store.
    ///
    /// # Errors
    /// Some functions of this service need one.
    pub(super) fn keeps_no_steps(&self) -> Result<(), Failure> {
        let Some(at) = self.durable_at.clone().filter(|_| !self.durable.is_empty()) else { return Ok(()) };
        let message = "what durable functions have done is kept in the node's step store, and it has none";
        Err(self.text.mistake(at, message, "add [step_store] with file = \"./steps\""))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Checks that the primary of a replicated service, which is changed in place, is another service of the same node.
    ///
    /// # Errors
    /// Its primary is not.
    pub(super) fn stands_on(&self, services: &[Self]) -> Result<(), Failure> {
        let What::Replicated { primary, primary_at, .. } = &self.what else { return Ok(()) };
        let others: Vec<_> = services.iter().map(Self::name).filter(|name| *name != self.name).collect();
        if others.contains(&primary.as_str()) {
            return Ok(());
        }
        let message = format!("the primary {primary:?} is no other service of this node");
        let help = match others.is_empty() {
            false => did_you_mean(primary, others.iter().copied(), &format!("name one of {}", others.join(", "))),
            true => "add one of kind files or nfs".to_owned(),
        };
        Err(self.text.mistake(primary_at.clone(), message, help))
    }

    /// The failure to report when this service has the name of an earlier one.
    pub(super) fn twice(&self) -> Failure {
        let message = format!("two services are called {}", self.name);
        self.text.mistake(self.at.clone(), message, "give each a name of its own")
    }

    /// Opens it.
    pub(crate) async fn open(self) -> Result<Service, Failure> {
        let (text, at) = (self.text, self.at);
        let cannot = |why: String| text.mistake(at.clone(), why, "correct this service, or take it out of the file");
        let service = match self.what {
            What::Own(service, _) => service,
            What::Files { root } => {
                let files = Directory::open(root).map_err(|why| cannot(why.to_string()))?;
                catena_apps::files::service(&self.name, Arc::new(files))
            }
            What::Replicated { primary, backup, .. } => {
                catena_apps::replicated::replicated(&self.name, &primary, &backup)
            }
            What::Nfs(config, identity) => {
                let bridge = NfsBridge::connect(*config).await.map_err(|why| cannot(why.to_string()))?;
                service_of(NfsService::new(&self.name, bridge, identity))
            }
        };
        Ok(self.durable.iter().fold(service, |service, function| service.durable(function)))
    }

    /// In words, for people.
    pub(super) fn meaning(&self) -> String {
        let what = match &self.what {
            What::Own(_, what) => (*what).to_owned(),
            What::Files { root } => format!("the folder {}, as this process's user, whoever calls", root.display()),
            What::Nfs(config, identity) => nfs::meaning(config, identity),
            What::Replicated { primary, backup, .. } => {
                format!("each change at {primary}, then at {backup}, by a chain")
            }
        };
        if self.durable.is_empty() { what } else { format!("{what}; durable: {}", self.durable.join(", ")) }
    }
}

/// The functions whose steps are kept.
fn durable(kind: Kind, table: &ServiceTable, text: &Text) -> Result<Vec<String>, Failure> {
    let (named, known) = (table.durable.as_ref().map(Spanned::get_ref), kind.functions());
    let checked = named.into_iter().flatten().map(|name| {
        if known.contains(name.get_ref()) {
            return Ok(name.get_ref().clone());
        }
        let message = format!("a service of kind {} has no function {:?}", word(kind), name.get_ref());
        let otherwise = format!("it has {}", known.join(", "));
        let help = did_you_mean(name.get_ref(), known.iter().map(String::as_str), &otherwise);
        Err(text.mistake(name.span(), message, help))
    });
    checked.collect()
}

fn what(kind: Kind, table: ServiceTable, text: &Text) -> Result<What, Failure> {
    let name = table.name.get_ref();
    let missing = |key: &str, example: &str| {
        let message = format!("a service of kind {} needs `{key}`", word(kind));
        text.mistake(table.kind.span(), message, format!("add {key} = {example}"))
    };
    Ok(match kind {
        Kind::Probe => What::Own(catena_apps::probe::service(name), "for experiments: echo, where, sleep, fail, count"),
        Kind::Mail => What::Own(catena_apps::mail::storage_service(name), "the demonstration's mail"),
        Kind::Ads => What::Own(catena_apps::mail::ads_service(name), "the demonstration's advertisements"),
        Kind::Files => {
            let root = table.root.as_ref().ok_or_else(|| missing("root", "\"./data\""))?;
            What::Files { root: text.folder().join(root.get_ref()) }
        }
        Kind::Replicated => {
            let primary = table.primary.as_ref().ok_or_else(|| missing("primary", "\"files.here\""))?;
            let backup = table.backup.as_ref().ok_or_else(|| missing("backup", "\"files.there\""))?;
            let primary_at = primary.span();
            What::Replicated { primary: primary.get_ref().clone(), primary_at, backup: backup.get_ref().clone() }
        }
        Kind::Nfs => {
            let host = table.host.as_ref().ok_or_else(|| missing("host", "\"nas.example.org\""))?;
            let export = table.export.as_ref().ok_or_else(|| missing("export", "\"/srv/files\""))?;
            let identity = nfs::identity(&table, text, missing)?;
            let config = NfsConfig::new(host.get_ref(), export.get_ref());
            What::Nfs(Box::new(nfs::config(config, table, &identity)), identity)
        }
    })
}
