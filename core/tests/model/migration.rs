//! A service that leaves one host for another while chains call it.

use std::sync::Arc;

use catena_wire::{NodeRef, ServiceEntry};

use crate::{guest::service_name, setup::Setup, world::World};

/// A service that goes from the first of its hosts to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    pub(crate) service: usize,
    pub(crate) to: usize,
    /// Whether the host that it leaves says where to. If not, it is to be found.
    pub(crate) told: bool,
}

/// How far that has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Before,
    /// It is nowhere.
    Between,
    After,
}

impl World {
    /// Whether the service has still to go, or to arrive.
    pub(crate) fn may_migrate(&self, setup: &Setup) -> bool {
        setup.migration.is_some() && self.stage != Stage::After
    }

    pub(crate) fn migrate(&mut self, setup: &Setup) {
        let Some(migration) = setup.migration else { return };
        let (from, to, now) = (setup.services[migration.service].by[0], migration.to, self.now);
        let name = service_name(u8::try_from(migration.service).unwrap());
        if self.stage == Stage::Before {
            self.hosts[from].node.leave_service(now, &name, migration.told.then_some(1_000_000));
        }
        self.stage = if self.stage == Stage::Before && migration.told { Stage::Between } else { Stage::After };
        if self.stage == Stage::After {
            let kinds = setup.kinds(migration.service);
            self.hosts[to].node.serve(&name, ["f"], kinds.clone());
            let node = (*self.hosts[to].me).clone();
            let entry = ServiceEntry { service: name.clone(), functions: vec!["f".into()], node, kinds, proxy: None };
            let others = self.hosts.iter().enumerate().filter(|(host, _)| *host != from);
            let others: Vec<Arc<NodeRef>> = others.map(|(_, host)| host.me.clone()).collect();
            if migration.told {
                self.hosts[from].node.service_moved(now, &name, Some(entry), &others);
            }
        }
        self.drain(setup, from, true);
        self.drain(setup, to, true);
    }

    /// The hosts that serve it now.
    pub(crate) fn owners(&self, setup: &Setup, service: usize) -> Vec<usize> {
        match (setup.migration, self.stage) {
            (Some(migration), Stage::Between) if migration.service == service => Vec::new(),
            (Some(migration), Stage::After) if migration.service == service => vec![migration.to],
            _ => setup.services[service].by.clone(),
        }
    }

    /// The hosts that are said to serve it: where it was at first, however long ago it left, and then where it is.
    pub(crate) fn rumoured(&self, setup: &Setup, service: usize) -> Vec<usize> {
        let mut hosts = setup.services[service].by.clone();
        hosts.extend(self.owners(setup, service).into_iter().filter(|host| !setup.services[service].by.contains(host)));
        hosts
    }
}
