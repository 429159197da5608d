//! `[names]`: how the node finds services, besides asking its mesh.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use catena::{Names, Resolver, directory::ResolveError};
use catena_etcd::{EtcdConfig, EtcdResolver, WELL_KNOWN, is_endpoint};
use catena_multicast::{MulticastConfig, MulticastResolver};
use catena_names_file::FileResolver;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{
    mistake::{Text, word},
    put,
};
use crate::failure::Failure;

/// How often to ask by multicast where etcd is, until somebody answers.
const FIND_EVERY: Duration = Duration::from_secs(1);

/// The word for a [`Way`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Mesh,
    File,
    Etcd,
    Multicast,
}

/// The table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NamesTable {
    order: Option<Spanned<Vec<Spanned<Word>>>>,
    file: Option<Spanned<PathBuf>>,
    etcd: Option<Spanned<Vec<String>>>,
    multicast: Option<Spanned<bool>>,
    multicast_interface: Option<Spanned<Ipv4Addr>>,
    multicast_port: Option<Spanned<u16>>,
    multicast_any_address: Option<Spanned<bool>>,
}

/// One way to find services.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Mesh,
    File(PathBuf),
    /// By its endpoints; if there are none, they are found by multicast.
    Etcd(Vec<String>),
    Multicast(MulticastConfig),
}

/// The ways by which the node finds services, in the order in which they are tried; checked, but nothing is opened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamesFile(Vec<Way>);

impl NamesTable {
    pub(super) fn checked(self, text: &Text) -> Result<NamesFile, Failure> {
        let on = self.multicast.as_ref().is_some_and(|on| *on.get_ref());
        let spans = [
            self.multicast_interface.as_ref().map(|key| key.span()),
            self.multicast_port.as_ref().map(|key| key.span()),
            self.multicast_any_address.as_ref().map(|key| key.span()),
        ];
        if let (false, Some(span)) = (on, spans.into_iter().flatten().next()) {
            return Err(text.mistake(span, "it has no meaning without multicast", "add multicast = true"));
        }
        if let (false, Some(found)) = (on, self.etcd.as_ref().filter(|endpoints| endpoints.get_ref().is_empty())) {
            let message = "where etcd is can only be found by multicast";
            let help = "name an endpoint, such as http://10.0.0.5:2379, or add multicast = true";
            return Err(text.mistake(found.span(), message, help));
        }
        if let Some(found) = self.etcd.as_ref()
            && let Some(wrong) = found.get_ref().iter().find(|endpoint| !is_endpoint(endpoint))
        {
            let message = format!("{wrong:?} is no endpoint of etcd");
            return Err(text.mistake(found.span(), message, "write it as http://10.0.0.5:2379"));
        }
        let mut multicast = MulticastConfig::default();
        put(&mut multicast.interface, self.multicast_interface);
        put(&mut multicast.port, self.multicast_port);
        put(&mut multicast.any_address, self.multicast_any_address);
        let there = [
            Some((Word::Mesh, Way::Mesh)),
            self.file.map(|file| (Word::File, Way::File(text.folder().join(file.into_inner())))),
            self.etcd.map(|endpoints| (Word::Etcd, Way::Etcd(endpoints.into_inner()))),
            on.then_some((Word::Multicast, Way::Multicast(multicast))),
        ];
        let there: Vec<_> = there.into_iter().flatten().collect();
        match self.order {
            None => Ok(NamesFile(there.into_iter().map(|(_, way)| way).collect())),
            Some(order) => in_order(there, order, text),
        }
    }
}

fn in_order(
    mut there: Vec<(Word, Way)>,
    order: Spanned<Vec<Spanned<Word>>>,
    text: &Text,
) -> Result<NamesFile, Failure> {
    let (at, mut ways, mut asked) = (order.span(), Vec::new(), Vec::new());
    for given in order.into_inner() {
        let (span, name) = (given.span(), given.into_inner());
        if asked.contains(&name) {
            return Err(text.mistake(span, format!("{} is there twice", word(name)), "take one of them out"));
        }
        let Some(place) = there.iter().position(|(there, _)| *there == name) else {
            let message = format!("{} is to be asked, and is not there", word(name));
            return Err(text.mistake(span, message, format!("add `{}` under [names]", word(name))));
        };
        ways.push(there.remove(place).1);
        asked.push(name);
    }
    match there.into_iter().find(|(name, _)| *name != Word::Mesh) {
        Some((left_out, _)) => {
            let message = format!("{} is there, and would never be asked", word(left_out));
            Err(text.mistake(at, message, format!("add \"{}\" to `order`", word(left_out))))
        }
        None => Ok(NamesFile(ways)),
    }
}

impl NamesFile {
    /// Also finds services by this file: in place of the one that the node's file names, else right after the mesh.
    pub(crate) fn with_file(mut self, file: PathBuf) -> Self {
        if let Some(named) = self.0.iter_mut().find(|way| matches!(way, Way::File(_))) {
            *named = Way::File(file);
        } else {
            let after_mesh = self.0.iter().position(|way| *way == Way::Mesh).map_or(0, |mesh| mesh + 1);
            self.0.insert(after_mesh, Way::File(file));
        }
        self
    }

    /// In words, for people.
    pub(crate) fn meaning(&self) -> String {
        let one = |way: &Way| match way {
            Way::Mesh => "its mesh".to_owned(),
            Way::File(file) => format!("the file {}", file.display()),
            Way::Etcd(endpoints) if endpoints.is_empty() => "etcd, which is found by multicast".to_owned(),
            Way::Etcd(endpoints) => format!("etcd at {}", endpoints.join(", ")),
            Way::Multicast(_) => "whoever answers on its network".to_owned(),
        };
        format!("services are found by {}", self.0.iter().map(one).collect::<Vec<_>>().join(", then "))
    }

    /// Opens what there is to open. Needs a tokio runtime.
    pub(crate) fn open(&self) -> Result<Vec<Names>, Failure> {
        self.opened().map_err(|why| Failure::cannot_start(why.0, "see [names] in the node's file"))
    }

    fn opened(&self) -> Result<Vec<Names>, ResolveError> {
        let config = self.0.iter().find_map(|way| if let Way::Multicast(config) = way { Some(config) } else { None });
        let multicast = config.map(MulticastResolver::open).transpose()?.map(Arc::new);
        let open = |way: &Way| {
            let resolver: Arc<dyn Resolver> = match (way, &multicast) {
                (Way::Mesh, _) => return Ok(Some(Names::Mesh)),
                (Way::File(file), _) => Arc::new(FileResolver::open(file.clone())?),
                (Way::Multicast(_), _) => return Ok(multicast.clone().map(|multicast| Names::By(multicast))),
                (Way::Etcd(endpoints), Some(multicast)) if endpoints.is_empty() => {
                    Arc::new(EtcdResolver::find(find_etcd(Arc::clone(multicast))))
                }
                (Way::Etcd(endpoints), multicast) => {
                    if let Some(multicast) = multicast {
                        tell_of_etcd(multicast, endpoints);
                    }
                    Arc::new(EtcdResolver::open(EtcdConfig::new(endpoints.clone()))?)
                }
            };
            Ok(Some(Names::By(resolver)))
        };
        self.0.iter().map(open).filter_map(Result::transpose).collect()
    }
}

/// Lets nodes on this network that have no configuration find etcd.
fn tell_of_etcd(multicast: &MulticastResolver, endpoints: &[String]) {
    let addresses = endpoints.iter().filter_map(|endpoint| endpoint.strip_prefix("http://"));
    if let Some(address) = addresses.map(|address| address.trim_end_matches('/')).next() {
        multicast.tell_of(WELL_KNOWN, address);
    }
}

async fn find_etcd(multicast: Arc<MulticastResolver>) -> Vec<String> {
    loop {
        let found = multicast.addresses(WELL_KNOWN).await;
        if !found.is_empty() {
            return found.into_iter().map(|address| format!("http://{address}")).collect();
        }
        tokio::time::sleep(FIND_EVERY).await;
    }
}
