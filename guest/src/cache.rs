//! Loaded functions, bounded by count and by bytes; the least recently used go first.

use std::{collections::HashMap, sync::Arc};

use catena_wire::Hash;

use crate::Image;

pub(crate) struct Images {
    by_code: HashMap<Hash, Entry>,
    bytes: u64,
    bytes_max: u64,
    count_max: usize,
    uses: u64,
}

struct Entry {
    image: Arc<Image>,
    bytes: u64,
    used: u64,
}

/// The size of an image's entry: a hash table may be half empty.
pub(crate) const ENTRY_BYTES: usize = 2 * size_of::<(Hash, Entry)>();

impl Images {
    pub(crate) fn new(count_max: usize, bytes_max: u64) -> Self {
        Self { by_code: HashMap::new(), bytes: 0, bytes_max, count_max: count_max.max(1), uses: 0 }
    }

    pub(crate) fn get(&mut self, code: Hash) -> Option<Arc<Image>> {
        self.uses += 1;
        let entry = self.by_code.get_mut(&code)?;
        entry.used = self.uses;
        Some(Arc::clone(&entry.image))
    }

    /// Keeps an image, and returns those that were evicted for it. The newest always stays.
    #[must_use]
    pub(crate) fn insert(&mut self, image: Arc<Image>) -> Vec<Arc<Image>> {
        self.uses += 1;
        let code = image.code();
        let bytes = image.len_bytes() as u64;
        let entry = Entry { image, bytes, used: self.uses };
        self.bytes += bytes;
        let mut gone = Vec::new();
        if let Some(before) = self.by_code.insert(code, entry) {
            self.bytes -= before.bytes;
            gone.push(before.image);
        }
        while self.by_code.len() > 1 && (self.by_code.len() > self.count_max || self.bytes > self.bytes_max) {
            match self.evict(code) {
                Some(image) => gone.push(image),
                None => break,
            }
        }
        gone
    }

    fn evict(&mut self, spared: Hash) -> Option<Arc<Image>> {
        let (code, _) = self.by_code.iter().filter(|(code, _)| **code != spared).min_by_key(|(_, entry)| entry.used)?;
        let code = *code;
        let entry = self.by_code.remove(&code)?;
        self.bytes -= entry.bytes;
        Some(entry.image)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_code.len()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
