//! The bytes that an untouched instance holds: those of the module, and what loading a function changed of them.

use crate::{
    continuation::next_run,
    difference::{Expected, Page},
    leb,
    pages::PAGE_BYTES,
};

static ZEROS: Page = [0; PAGE_BYTES];
/// In an index: a page that is not kept.
const ABSENT: u32 = u32::MAX;

/// Pages by number, kept only where they say something.
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

/// What a module's memory holds right after instantiation. Pages of zeros are not kept.
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

/// The pages of a base that an image's runs change, with the runs laid over them. Derived from the runs, and kept only while
/// an instance of the image lives, so that comparing with it is as quick as comparing with the base.
#[derive(Default)]
pub(crate) struct Patched(Sparse);

impl Patched {
    /// Lays `runs`, which were taken from a memory, over a copy of the pages of `base` that they touch.
    pub(crate) fn new(base: &Base, runs: &[u8]) -> Self {
        let mut sparse = Sparse::default();
        let (mut rest, mut at) = (runs, 0);
        let count = leb::take_u32(&mut rest).unwrap_or(0);
        for _ in 0..count {
            let Some((range, bytes)) = next_run(&mut rest, &mut at) else {
                break;
            };
            // No run crosses the end of a page: they were made page by page.
            let Ok(page) = u32::try_from(range.start / PAGE_BYTES) else {
                break;
            };
            if sparse.get(page).is_none() {
                sparse.insert(page, *base.page(page));
            }
            let offset = range.start % PAGE_BYTES;
            let held = sparse.pages.last_mut();
            if let Some(target) = held.and_then(|held| held.get_mut(offset..offset + bytes.len())) {
                target.copy_from_slice(bytes);
            }
        }
        Self(sparse)
    }
}

/// What an instance of an image must hold when it is reset.
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
