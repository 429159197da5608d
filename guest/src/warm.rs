//! Instances kept ready in their image's base state.

use std::{collections::HashMap, sync::Arc};

use crate::{Image, ready::Ready};

/// Instances by image; the least recently used of all go first.
pub(crate) struct Warm {
    by_image: HashMap<u64, Vec<(u64, Box<Ready>)>>,
    count: usize,
    max: usize,
    /// Counts instances put here: a smaller number is a longer time unused.
    uses: u64,
}

impl Warm {
    pub(crate) fn new(max: usize) -> Self {
        Self { by_image: HashMap::new(), count: 0, max, uses: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// The most recently used instance of an image: its pages are the most likely to be in the processor's cache.
    pub(crate) fn take(&mut self, image: u64) -> Option<Box<Ready>> {
        let ready = self.by_image.get_mut(&image)?.pop()?.1;
        self.count -= 1;
        Some(ready)
    }

    /// Keeps an instance. Returns one to be dropped, if there are too many.
    #[must_use]
    pub(crate) fn put(&mut self, ready: Box<Ready>) -> Option<Box<Ready>> {
        self.uses += 1;
        self.count += 1;
        if self.by_image.len() > 2 * self.max {
            // Removes images whose instances are all in use or gone.
            self.by_image.retain(|_, kept| !kept.is_empty());
        }
        self.by_image.entry(ready.image.id).or_default().push((self.uses, ready));
        (self.count > self.max).then(|| self.evict()).flatten()
    }

    /// Takes out the least recently used instance.
    pub(crate) fn evict(&mut self) -> Option<Box<Ready>> {
        self.take_oldest(|_| true)
    }

    /// If no more may be kept: the least recently used instance that can be converted to `image`.
    pub(crate) fn take_other(&mut self, image: &Image) -> Option<Box<Ready>> {
        if self.count < self.max {
            return None;
        }
        self.take_oldest(|other| {
            Arc::ptr_eq(&other.prototype, &image.prototype) && other.memory_pages == image.memory_pages
        })
    }

    fn take_oldest(&mut self, fits: impl Fn(&Image) -> bool) -> Option<Box<Ready>> {
        // The first of each image is its oldest.
        let oldest = self.by_image.iter().filter_map(|(image, kept)| {
            let (used, ready) = kept.first()?;
            fits(&ready.image).then_some((*image, *used))
        });
        let (image, _) = oldest.min_by_key(|(_, used)| *used)?;
        let kept = self.by_image.get_mut(&image)?;
        let (_, ready) = kept.remove(0);
        if kept.is_empty() {
            self.by_image.remove(&image);
        }
        self.count -= 1;
        Some(ready)
    }

    /// Takes out all instances of an image.
    #[must_use]
    pub(crate) fn forget(&mut self, image: u64) -> Vec<(u64, Box<Ready>)> {
        let kept = self.by_image.remove(&image).unwrap_or_default();
        self.count -= kept.len();
        kept
    }
}
