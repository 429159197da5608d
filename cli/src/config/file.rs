//! The file's own form.

use std::{fmt, path::PathBuf};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use toml::Spanned;

use super::{
    bounds::{LimitsTable, PolicyTable},
    names::NamesTable,
    rdma::RdmaTable,
    segments::SegmentTable,
    service::ServiceTable,
    steps::StepStoreTable,
};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    pub(super) site: Option<Spanned<String>>,
    pub(super) listen: Option<Spanned<String>>,
    pub(super) advertise: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) join: Vec<Join>,
    #[serde(default)]
    pub(super) repository: bool,
    pub(super) shaped: Option<Spanned<Shaped>>,
    pub(super) runs_guests: Option<Spanned<bool>>,
    pub(super) chaining_proxy: Option<Spanned<String>>,
    pub(super) hosts_chains_for_others: Option<Spanned<bool>>,
    pub(super) cache_dir: Option<Spanned<PathBuf>>,
    pub(super) memory_bytes_max: Option<Spanned<u64>>,
    pub(super) blob_bytes_max: Option<u64>,
    pub(super) blob_grace_ms: Option<u64>,
    pub(super) untold_dials_max: Option<usize>,
    pub(super) step_store: Option<StepStoreTable>,
    pub(super) function_store: Option<Spanned<PathBuf>>,
    pub(super) registry: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) names: NamesTable,
    #[serde(default)]
    pub(super) service: Vec<ServiceTable>,
    #[serde(default)]
    pub(super) segment: Vec<SegmentTable>,
    pub(super) rdma: Option<RdmaTable>,
    #[serde(default)]
    pub(super) limits: LimitsTable,
    #[serde(default)]
    pub(super) policy: PolicyTable,
}

/// How links are shaped.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shaped {
    /// As between the four sites of the RPC Chains paper.
    Paper,
}

/// `"host:port"`, or `{ address = "host:port", site = "mtv" }`.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) address: Spanned<String>,
    pub(super) site: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinTable {
    address: Spanned<String>,
    site: Option<String>,
}

/// By hand: an untagged enum would lose the line of a mistake.
impl<'de> Deserialize<'de> for Join {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Where it stands is told before what it is.
        let whole = Spanned::<Either>::deserialize(deserializer)?;
        let span = whole.span();
        Ok(match whole.into_inner() {
            Either::Address(address) => Self { address: Spanned::new(span, address), site: None },
            Either::Table(table) => Self { address: table.address, site: table.site },
        })
    }
}

enum Either {
    Address(String),
    Table(JoinTable),
}

impl<'de> Deserialize<'de> for Either {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherVisitor)
    }
}

struct EitherVisitor;

impl<'de> Visitor<'de> for EitherVisitor {
    type Value = Either;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"host:port\", or { address = \"host:port\", site = \"...\" }")
    }

    fn visit_str<E>(self, address: &str) -> Result<Either, E> {
        Ok(Either::Address(address.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Either, A::Error> {
        JoinTable::deserialize(MapAccessDeserializer::new(map)).map(Either::Table)
    }
}
