//! `[names]`: how the node finds services, besides asking its mesh.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use catena::{Names, Resolver};
use catena_etcd::{EtcdConfig, EtcdResolver, WELL_KNOWN};
use catena_multicast::{MulticastConfig, MulticastResolver};
use catena_names_file::FileResolver;
use serde::Deserialize;
use toml::Spanned;

use super::mistake::Text;
use crate::failure::Failure;

/// How often to ask the network where etcd is, while nobody says.
const FIND_EVERY: Duration = Duration::from_secs(1);

/// One way to find services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Mesh,
    File,
    Etcd,
    Multicast,
}

impl Way {
    const ALL: [Self; 4] = [Self::Mesh, Self::File, Self::Etcd, Self::Multicast];

    const fn name(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::File => "file",
            Self::Etcd => "etcd",
            Self::Multicast => "multicast",
        }
    }
}

/// The table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NamesTable {
    order: Option<Spanned<Vec<Spanned<Way>>>>,
    file: Option<Spanned<PathBuf>>,
    etcd: Option<Spanned<Vec<String>>>,
    multicast: Option<Spanned<bool>>,
    multicast_interface: Option<Spanned<Ipv4Addr>>,
    multicast_port: Option<Spanned<u16>>,
    multicast_any_address: Option<Spanned<bool>>,
}

/// How the node finds services: checked, and nothing opened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamesFile {
    pub(crate) order: Vec<Way>,
    pub(crate) file: Option<PathBuf>,
    /// Its endpoints; none: they are found by multicast.
    etcd: Option<Vec<String>>,
    multicast: Option<MulticastConfig>,
}

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
        let etcd = self.etcd.as_ref();
        if let (false, Some(found)) = (on, etcd.filter(|endpoints| endpoints.get_ref().is_empty())) {
            let message = "where etcd is can only be found by multicast";
            return Err(text.mistake(
                found.span(),
                message,
                "name an endpoint, such as http://10.0.0.5:2379, or add multicast = true",
            ));
        }
        let mut multicast = MulticastConfig::default();
        if let Some(interface) = &self.multicast_interface {
            multicast.interface = *interface.get_ref();
        }
        if let Some(port) = &self.multicast_port {
            multicast.port = *port.get_ref();
        }
        multicast.any_address = self.multicast_any_address.is_some_and(|any| *any.get_ref());
        let mut names = NamesFile {
            order: Vec::new(),
            file: self.file.map(|file| text.folder().join(file.into_inner())),
            etcd: self.etcd.map(Spanned::into_inner),
            multicast: on.then_some(multicast),
        };
        names.order = match self.order {
            None => Way::ALL.into_iter().filter(|way| names.has(*way)).collect(),
            Some(order) => checked_order(&names, order, text)?,
        };
        Ok(names)
    }
}

fn checked_order(names: &NamesFile, order: Spanned<Vec<Spanned<Way>>>, text: &Text) -> Result<Vec<Way>, Failure> {
    let at = order.span();
    let mut ways: Vec<Way> = Vec::new();
    for way in order.into_inner() {
        let (span, way) = (way.span(), way.into_inner());
        if ways.contains(&way) {
            return Err(text.mistake(span, format!("{} is there twice", way.name()), "take one of them out"));
        }
        if !names.has(way) {
            let message = format!("{} is to be asked, and is not there", way.name());
            return Err(text.mistake(span, message, format!("add `{}` under [names]", way.name())));
        }
        ways.push(way);
    }
    match Way::ALL.into_iter().find(|way| *way != Way::Mesh && names.has(*way) && !ways.contains(way)) {
        Some(left_out) => {
            let message = format!("{} is there, and would never be asked", left_out.name());
            Err(text.mistake(at, message, format!("add \"{}\" to `order`", left_out.name())))
        }
        None => Ok(ways),
    }
}

impl NamesFile {
    fn has(&self, way: Way) -> bool {
        match way {
            Way::Mesh => true,
            Way::File => self.file.is_some(),
            Way::Etcd => self.etcd.is_some(),
            Way::Multicast => self.multicast.is_some(),
        }
    }

    /// With the names of this file, asked after the mesh if the node's own file names none.
    pub(crate) fn with_file(mut self, file: PathBuf) -> Self {
        self.file = Some(file);
        if !self.order.contains(&Way::File) {
            let after_mesh = self.order.iter().position(|way| *way == Way::Mesh).map_or(0, |mesh| mesh + 1);
            self.order.insert(after_mesh, Way::File);
        }
        self
    }

    /// In words, for people.
    pub(crate) fn meaning(&self) -> String {
        let one = |way: &Way| match way {
            Way::Mesh => "its mesh".to_owned(),
            Way::File => format!("the file {}", self.file.clone().unwrap_or_default().display()),
            Way::Etcd => match self.etcd.as_deref() {
                Some([]) | None => "etcd, which is found by multicast".to_owned(),
                Some(endpoints) => format!("etcd at {}", endpoints.join(", ")),
            },
            Way::Multicast => "whoever answers on its network".to_owned(),
        };
        format!("services are found by {}", self.order.iter().map(one).collect::<Vec<_>>().join(", then "))
    }

    /// Opens what there is to open. Needs a tokio runtime.
    pub(crate) fn open(&self) -> Result<Vec<Names>, Failure> {
        let failed =
            |why: catena::directory::ResolveError| Failure::cannot_start(why.0, "see [names] in the node's file");
        let multicast = self.multicast.as_ref().map(MulticastResolver::open).transpose().map_err(failed)?.map(Arc::new);
        let mut names = Vec::with_capacity(self.order.len());
        for way in &self.order {
            let resolver: Arc<dyn Resolver> = match (way, &multicast) {
                (Way::Mesh, _) => {
                    names.push(Names::Mesh);
                    continue;
                }
                (Way::File, _) => Arc::new(FileResolver::open(self.file.clone().unwrap_or_default()).map_err(failed)?),
                (Way::Multicast, Some(multicast)) => Arc::clone(multicast) as Arc<dyn Resolver>,
                (Way::Multicast, None) => continue,
                (Way::Etcd, multicast) => match (self.etcd.as_deref().unwrap_or_default(), multicast) {
                    ([], Some(multicast)) => Arc::new(EtcdResolver::find(find_etcd(Arc::clone(multicast)))),
                    (endpoints, multicast) => {
                        if let Some(multicast) = multicast {
                            tell_of_etcd(multicast, endpoints);
                        }
                        Arc::new(EtcdResolver::open(EtcdConfig::new(endpoints.to_vec())).map_err(failed)?)
                    }
                },
            };
            names.push(Names::By(resolver));
        }
        Ok(names)
    }
}

/// For those on its network who have no configuration.
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
