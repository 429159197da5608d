//! Lists a whole directory, however large: its names are delivered in parts, so that no single answer has to hold all of them.

use crate::{DirEntry, FileError, FileService, ReaddirParams};

/// The function that services offer for a [`Listing`]: beside [`FUNCTIONS`](crate::FUNCTIONS), since it replies many times.
pub const LIST: &str = "list";

/// A directory, part after part.
pub struct Listing<'a> {
    files: &'a dyn FileService,
    /// The next request; `None` after the last part.
    next: Option<ReaddirParams>,
}

impl<'a> Listing<'a> {
    /// Begins where `params` says; its `count` is the number of names in one part.
    #[must_use]
    pub fn new(files: &'a dyn FileService, params: ReaddirParams) -> Self {
        Self { files, next: Some(params) }
    }

    /// The next names, in the server's order: one answer of READDIR (RFC 1813, section 3.3.16). None at the end.
    ///
    /// # Errors
    /// Those of [`FileService::readdir`].
    pub async fn next(&mut self) -> Result<Option<Vec<DirEntry>>, FileError> {
        let Some(asked) = self.next.take() else { return Ok(None) };
        let page = self.files.readdir(asked.clone()).await?;
        let cookie = page.next.filter(|_| !page.eof);
        self.next = cookie.map(|cookie| ReaddirParams { cookie: Some(cookie), ..asked });
        Ok(Some(page.entries))
    }
}
