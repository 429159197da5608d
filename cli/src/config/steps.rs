//! `[step_store]`: where the steps of durable functions are kept, and how many.

use std::path::PathBuf;

use catena::StepStoreLimits;
use serde::Deserialize;
use toml::Spanned;

use super::{bounds::put_bound, mistake::Text};
use crate::failure::Failure;

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepStoreTable {
    file: PathBuf,
    entries_max: Option<Spanned<u64>>,
    bytes_max: Option<Spanned<u64>>,
    age_max_ms: Option<Spanned<u64>>,
    result_bytes_max: Option<Spanned<usize>>,
}

/// A step store, checked but not opened.
pub(crate) struct StepStoreFile {
    /// Relative to the folder of the node's file.
    pub(crate) file: PathBuf,
    pub(crate) limits: StepStoreLimits,
}

impl StepStoreTable {
    pub(super) fn checked(self, text: &Text) -> Result<StepStoreFile, Failure> {
        let mut limits = StepStoreLimits::default();
        put_bound(&mut limits.entries_max, self.entries_max, "entries_max", text)?;
        put_bound(&mut limits.bytes_max, self.bytes_max, "bytes_max", text)?;
        put_bound(&mut limits.age_max_ms, self.age_max_ms, "age_max_ms", text)?;
        put_bound(&mut limits.result_bytes_max, self.result_bytes_max, "result_bytes_max", text)?;
        Ok(StepStoreFile { file: text.folder().join(self.file), limits })
    }
}
