//! The file of a node: what it says, checked, and each mistake with its line.

mod bounds;
mod file;
mod guests;
mod meaning;
mod mistake;
mod names;
mod rdma;
mod segments;
mod service;

use std::path::{Path, PathBuf};

use catena::{Limits, Place, Policy, StepStoreLimits, Topology};
use catena_apps::sites::SITES;
use catena_oci::OciRegistry;

use crate::{
    failure::Failure,
    input::{self, CONFIG_BYTES_MAX},
    nearest::did_you_mean,
};
use file::Join;
pub(crate) use guests::Guests;
use mistake::Text;
pub(crate) use names::NamesFile;
pub(crate) use rdma::RdmaFile;
pub(crate) use segments::{SegmentFile, right_words};
pub(crate) use service::ServiceFile;

/// Longest name of a node or service, in bytes, on the wire.
const NAME_BYTES_MAX: usize = 256;

/// A node's settings, ready to be used.
pub(crate) struct NodeFile {
    pub(crate) name: String,
    pub(crate) site: Option<String>,
    pub(crate) listen: Option<String>,
    /// The address that other nodes are told to dial, if it is not the one listened on.
    pub(crate) advertise: Option<String>,
    pub(crate) join: Vec<Place>,
    pub(crate) repository: bool,
    /// Whether links are shaped as in the paper.
    pub(crate) shaped: bool,
    pub(crate) guests: Guests,
    /// Where compiled modules are kept; `None`: in the user's own cache.
    pub(crate) cache_dir: Option<PathBuf>,
    /// How many bytes the node may hold; `None`: the default.
    pub(crate) memory_bytes_max: Option<u64>,
    /// How many of those bytes its blobs may take, and how long blobs outlive their chain; `None`: the default.
    pub(crate) blob_bytes_max: Option<u64>,
    pub(crate) blob_grace_ms: Option<u64>,
    /// How many addresses it may dial in vain per minute because strangers named them; `None`: the default.
    pub(crate) untold_dials_max: Option<usize>,
    /// The file that keeps the steps of durable functions, and its bounds.
    pub(crate) step_store: Option<(PathBuf, StepStoreLimits)>,
    /// Where functions are kept for the next start.
    pub(crate) function_store: Option<PathBuf>,
    /// Where functions are kept beyond the life of every node.
    pub(crate) registry: Option<OciRegistry>,
    pub(crate) names: NamesFile,
    pub(crate) services: Vec<ServiceFile>,
    /// Memory that the node exports.
    pub(crate) segments: Vec<SegmentFile>,
    /// How segments of other hosts are reached, besides by links.
    pub(crate) rdma: Option<RdmaFile>,
    pub(crate) limits: Limits,
    pub(crate) policy: Policy,
}

impl NodeFile {
    /// Reads and checks the file; nothing that it names is opened yet.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = input::file(path, CONFIG_BYTES_MAX)?;
        let text = Text::new(path, bytes)?;
        let file: file::File = toml::from_str(text.as_str()).map_err(|why| text.toml(&why))?;
        Self::checked(file, &text)
    }

    fn checked(file: file::File, text: &Text) -> Result<Self, Failure> {
        if let Some(shaped) = &file.shaped {
            check_site(shaped, file.site.as_ref(), text)?;
        }
        let guests = Guests::checked(&file, text)?;
        let cache_dir = file.cache_dir.as_ref().map(|dir| checked_cache(dir, text)).transpose()?;
        let steps =
            |table: bounds::StepStoreTable| Ok::<_, Failure>((text.folder().join(&table.file), table.checked(text)?));
        let step_store = file.step_store.map(steps).transpose()?;
        let mut services: Vec<ServiceFile> = Vec::with_capacity(file.service.len());
        for table in file.service {
            let service = ServiceFile::checked(table, text)?;
            if services.iter().any(|before| before.name() == service.name()) {
                return Err(service.twice());
            }
            if step_store.is_none() {
                service.keeps_no_steps()?;
            }
            services.push(service);
        }
        services.iter().try_for_each(|service| service.stands_on(&services))?;
        let mut segments = Vec::with_capacity(file.segment.len());
        for table in file.segment {
            segments.push(table.checked(&segments, text)?);
        }
        let rdma = file.rdma.map(|table| table.checked(file.listen.as_deref(), text)).transpose()?;
        Ok(Self {
            name: checked_name(&file.name, text)?,
            site: file.site.map(toml::Spanned::into_inner),
            listen: file.listen,
            advertise: file.advertise,
            join: file.join.into_iter().map(|Join(place)| place).collect(),
            repository: file.repository,
            shaped: file.shaped.is_some(),
            guests,
            cache_dir,
            memory_bytes_max: file.memory_bytes_max,
            blob_bytes_max: file.blob_bytes_max,
            blob_grace_ms: file.blob_grace_ms,
            untold_dials_max: file.untold_dials_max,
            step_store,
            function_store: file.function_store.as_ref().map(|folder| checked_cache(folder, text)).transpose()?,
            registry: file.registry,
            names: file.names.checked(text)?,
            services,
            segments,
            rdma,
            limits: file.limits.checked(text)?,
            policy: file.policy.checked(text)?,
        })
    }
}

/// Checks that nobody else may write into the cache folder: the modules in it are run as native code.
fn checked_cache(dir: &toml::Spanned<PathBuf>, text: &Text) -> Result<PathBuf, Failure> {
    use std::os::unix::fs::PermissionsExt;
    /// Write permission for the group, and for others.
    const WRITABLE: u32 = 0o022;
    let path = text.folder().join(dir.get_ref());
    if std::fs::metadata(&path).is_ok_and(|found| found.permissions().mode() & WRITABLE != 0) {
        let message = format!("other users may write into {}, and what lies there is run", path.display());
        return Err(text.mistake(dir.span(), message, "name a folder of this user's own, or: chmod go-w"));
    }
    Ok(path)
}

/// Overrides the default in `place` if a value is given.
fn put<T>(place: &mut T, given: Option<toml::Spanned<T>>) {
    if let Some(given) = given {
        *place = given.into_inner();
    }
}

/// A name without a slash, since a slash separates a service from its function.
fn checked_name(name: &toml::Spanned<String>, text: &Text) -> Result<String, Failure> {
    if (1..=NAME_BYTES_MAX).contains(&name.get_ref().len()) && !name.get_ref().contains('/') {
        return Ok(name.get_ref().clone());
    }
    let message = format!("{:?} is no name: names have 1 to {NAME_BYTES_MAX} bytes and no slash", name.get_ref());
    Err(text.mistake(name.span(), message, "choose another, such as mtv for a node or files.mtv for a service"))
}

/// Shaped links need a site that the paper knows.
fn check_site(
    shaped: &toml::Spanned<file::Shaped>,
    site: Option<&toml::Spanned<String>>,
    text: &Text,
) -> Result<(), Failure> {
    let sites = SITES.map(|site| site.id);
    let one_of = format!("one of {}", sites.join(", "));
    let Some(site) = site else {
        let message = "shaped links need to know where this node is";
        return Err(text.mistake(shaped.span(), message, format!("add `site`: {one_of}")));
    };
    if Topology::paper().between(site.get_ref(), sites[0]).is_some() {
        return Ok(());
    }
    let message = format!("the paper has no site {:?}", site.get_ref());
    Err(text.mistake(site.span(), message, did_you_mean(site.get_ref(), sites, &format!("name {one_of}"))))
}

#[cfg(test)]
mod tests;
