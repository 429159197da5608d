//! What a node's file means, in words: for its owner to read before the node runs.

use catena::Registry;

use super::{NodeFile, RdmaFile};

impl NodeFile {
    /// Each thing that the file decides, also by leaving it out, and what that means.
    pub(crate) fn meaning(&self) -> Vec<(String, String)> {
        let mut told: Vec<(String, String)> = Vec::new();
        let mut tell = |key: &str, what: String| told.push((key.to_owned(), what));
        let site = self.site.as_ref().map(|site| format!(", at site {site}")).unwrap_or_default();
        tell("name", self.name.clone() + &site);
        tell("listen", self.listen.clone().unwrap_or_else(|| "nowhere: it only dials".to_owned()));
        if let Some(advertise) = &self.advertise {
            tell("advertise", format!("others dial {advertise}"));
        }
        let joins: Vec<_> = self.join.iter().map(|place| place.address.as_str()).collect();
        tell("join", if joins.is_empty() { "no other node".to_owned() } else { joins.join(", ") });
        if self.repository {
            tell("repository", "keeps functions for the nodes that join it".to_owned());
        }
        tell("names", self.names.meaning());
        if let Some(folder) = &self.function_store {
            tell("function_store", format!("functions are kept in {} for the next start", folder.display()));
        }
        if let Some(registry) = &self.registry {
            tell("registry", format!("functions that no node has are asked for at {}", registry.name()));
        }
        if self.shaped {
            tell("shaped", "links are slowed down: for development only".to_owned());
        }
        tell("foreign code", self.guests.to_string());
        tell("step_store", self.steps());
        if let Some(dir) = &self.cache_dir {
            tell("cache_dir", format!("compiled modules are kept in {}", dir.display()));
        }
        for service in &self.services {
            tell(&format!("service {}", service.name()), service.meaning());
        }
        for segment in &self.segments {
            tell(&format!("segment {}", segment.name), segment.meaning());
        }
        if let Some(RdmaFile { provider, .. }) = &self.rdma {
            tell("rdma", format!("segments of other hosts are reached by libfabric's provider {provider}"));
        }
        told
    }

    fn steps(&self) -> String {
        let Some((file, limits)) = &self.step_store else {
            return "none: what was done for a step is forgotten when the node ends".to_owned();
        };
        format!(
            "the steps of durable functions are kept in {}: {} ms, at most {} steps and {} bytes",
            file.display(),
            limits.age_max_ms,
            limits.entries_max,
            limits.bytes_max
        )
    }
}
