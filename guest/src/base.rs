//! The bytes of an untouched instance: those of the module, and what loading a function changed in them.

use crate::{
    difference::{Expected, Page},
    kept::Kept,
    pages::PAGE_BYTES,
};

static ZEROS: Page = [0; PAGE_BYTES];
/// In the index: a page that is not kept.
const ABSENT: u32 = u32::MAX;

/// Pages by number; only pages with content are kept.
#[derive(Default)]
struct Sparse {
    index: Vec<u32>,
    pages: Vec<Page>,
}

impl Sparse {
    fn get(&self, page: u32) -> Option<&Page> {
        let index = self.index.get(page as usize)?;
        self.pages.get(*index as usize)
    }

    fn insert(&mut self, page: u32, bytes: Page) {
        let at = page as usize;
        if self.index.len() <= at {
            self.index.resize(at + 1, ABSENT);
        }
        if let (Some(index), Ok(next)) = (self.index.get_mut(at), u32::try_from(self.pages.len())) {
            *index = next;
            self.pages.push(bytes);
        }
    }

    fn len_bytes(&self) -> usize {
        self.pages.len() * PAGE_BYTES + self.index.len() * size_of::<u32>()
    }
}

/// A module's memory right after instantiation. Pages of zeros are not kept.
pub(crate) struct Base(Sparse);

impl Base {
    /// Copies `memory`.
    pub(crate) fn new(memory: &[u8]) -> Self {
        let mut sparse = Sparse::default();
        for (page, bytes) in (0..).zip(memory.as_chunks::<PAGE_BYTES>().0) {
            if *bytes != ZEROS {
                sparse.insert(page, *bytes);
            }
        }
        Self(sparse)
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }
}

impl Expected for Base {
    fn page(&self, page: u32) -> &Page {
        self.0.get(page).unwrap_or(&ZEROS)
    }
}

/// The whole pages of a base that loading changed, as they were after loading. Derived from what is kept, and present only while an instance of the image
/// lives, so that comparing with them is as quick as comparing with the base.
#[derive(Default)]
pub(crate) struct Patched(Sparse);

impl Patched {
    pub(crate) fn new(base: &Base, kept: &Kept) -> Self {
        let mut sparse = Sparse::default();
        let mut last = None;
        let pages = kept.blocks().filter(|block| last.replace(block.page()) != Some(block.page())).count();
        sparse.pages.reserve_exact(pages);
        for block in kept.blocks() {
            if sparse.get(block.page()).is_none() {
                sparse.insert(block.page(), *base.page(block.page()));
            }
            // Blocks come in order of address, so the page that was added last is theirs.
            if let Some(page) = sparse.pages.last_mut() {
                block.lay_in_page(page);
            }
        }
        Self(sparse)
    }
}

/// The bytes that an instance of an image must hold after a reset.
pub(crate) struct Reset<'a> {
    pub(crate) base: &'a Base,
    pub(crate) patched: &'a Patched,
}

impl Expected for Reset<'_> {
    #[inline]
    fn page(&self, page: u32) -> &Page {
        match self.patched.0.get(page) {
            Some(bytes) => bytes,
            None => self.base.page(page),
        }
    }
}
