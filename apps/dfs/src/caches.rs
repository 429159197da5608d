//! The server's four caches (section 5.1), and what invalidates their entries.

use catena::{Exception, Node};
use catena_clerk::{Changes, Changing, Key, Look, Table};
use catena_files::{Attributes, Directory, Entry, FileSystemState, Handle, IDENTITY_BYTES, Listed};

use crate::{
    limits::{BLOCK_BYTES, Measures},
    packed,
    protocol::TABLES,
};

/// Identifies a file among all others.
pub(crate) type Identity = [u8; IDENTITY_BYTES];

/// The keys of cache entries: server and clerks compute the same.
pub(crate) mod keys {
    use super::{Identity, Key};

    /// The group of everything that depends on a file.
    pub(crate) fn file(identity: &Identity) -> Key {
        Key::of(&[b"file", identity])
    }
    pub(crate) fn block(identity: &Identity, block: u64) -> Key {
        Key::of(&[b"block", identity, &block.to_le_bytes()])
    }
    pub(crate) fn name(dir: &Identity, name: &str) -> Key {
        Key::of(&[b"name", dir, name.as_bytes()])
    }
    pub(crate) fn attributes(identity: &Identity) -> Key {
        Key::of(&[b"attributes", identity])
    }
    pub(crate) fn link(identity: &Identity) -> Key {
        Key::of(&[b"link", identity])
    }
    pub(crate) fn page(dir: &Identity, from: u64) -> Key {
        Key::of(&[b"page", dir, &from.to_le_bytes()])
    }
    pub(crate) fn state() -> Key {
        Key::of(&[b"state"])
    }
}

#[derive(Debug)]
pub(crate) struct Caches {
    changes: Changes,
    data: Table,
    names: Table,
    attributes: Table,
    entries: Table,
}

impl Caches {
    pub(crate) fn export(node: &Node, measures: &Measures) -> Result<Self, Exception> {
        let changes = Changes::default();
        let [data, names, attributes, entries] = TABLES;
        Ok(Self {
            data: Table::export(node, data, measures.data, &changes)?,
            names: Table::export(node, names, measures.names, &changes)?,
            attributes: Table::export(node, attributes, measures.attributes, &changes)?,
            entries: Table::export(node, entries, measures.entries, &changes)?,
            changes,
        })
    }

    /// Entries in each: data, names, attributes, entries.
    pub(crate) fn lens(&self) -> [usize; 4] {
        [self.data.len(), self.names.len(), self.attributes.len(), self.entries.len()]
    }

    pub(crate) fn beat(&self) {
        self.attributes.beat();
    }

    pub(crate) fn look(&self) -> Look {
        self.changes.look()
    }

    pub(crate) fn put_attributes(&self, look: Look, handle: &Handle, of: &Attributes) {
        if let Some(identity) = Directory::identity(handle) {
            let groups = [Some(keys::file(&identity)), None];
            self.attributes.put(look, keys::attributes(&identity), groups, &packed::attributes(of));
        }
    }

    pub(crate) fn put_name(&self, look: Look, dir: &Handle, name: &str, found: &Entry) {
        if let (Some(dir), Some(target)) = (Directory::identity(dir), Directory::identity(&found.handle)) {
            let key = keys::name(&dir, name);
            self.names.put(look, key, [Some(keys::file(&target)), Some(key)], &packed::entry(found));
        }
    }

    /// Enters the blocks of data that begins at an aligned offset; `end`: the file ends with the data.
    pub(crate) fn put_blocks(&self, look: Look, handle: &Handle, offset: u64, data: &[u8], end: bool) {
        let Some(identity) = Directory::identity(handle) else { return };
        let group = keys::file(&identity);
        let first = offset / BLOCK_BYTES;
        let blocks: Vec<&[u8]> = if data.is_empty() { vec![data] } else { data.chunks(BLOCK_BYTES as usize).collect() };
        for (number, block) in (first..).zip(&blocks) {
            let last = number - first + 1 == blocks.len() as u64;
            // A short block that is not the file's last was truncated by somebody in between.
            if block.len() as u64 == BLOCK_BYTES || (last && end) {
                let value = packed::block(block, last && end);
                self.data.put(look, keys::block(&identity, number), [Some(group), None], &value);
            }
        }
    }

    pub(crate) fn put_link(&self, look: Look, handle: &Handle, to: &[u8]) {
        if let Some(identity) = Directory::identity(handle) {
            self.entries.put(look, keys::link(&identity), [Some(keys::file(&identity)), None], to);
        }
    }

    pub(crate) fn put_page(&self, look: Look, dir: &Handle, from: u64, names: &[Listed], end: bool) {
        if let Some(identity) = Directory::identity(dir) {
            let group = Some(keys::file(&identity));
            self.entries.put(look, keys::page(&identity, from), [group, None], &packed::page(names, end));
        }
    }

    pub(crate) fn put_state(&self, look: Look, of: &FileSystemState) {
        self.attributes.put(look, keys::state(), [None; 2], &packed::state(of));
    }

    pub(crate) fn forget_state(&self) {
        self.attributes.remove(keys::state());
    }

    /// Begins a change of files and names: whatever depends on them is invalid when this returns, and nothing read before the end of the change is entered.
    pub(crate) fn changing(&self, files: &[Identity], names: &[Key]) -> Changing {
        let groups: Vec<Key> = files.iter().map(keys::file).chain(names.iter().copied()).collect();
        let changing = self.changes.begin(groups.iter().copied());
        for group in groups {
            for table in [&self.data, &self.names, &self.attributes, &self.entries] {
                table.remove_group(group);
            }
        }
        changing
    }

    /// Begins a write that does not change the file's size: only the blocks that it touches are invalidated.
    pub(crate) fn writing(&self, file: &Identity, offset: u64, bytes: u64) -> Changing {
        let group = keys::file(file);
        let changing = self.changes.begin([group]);
        for table in [&self.names, &self.attributes, &self.entries] {
            table.remove_group(group);
        }
        for block in offset / BLOCK_BYTES..=offset.saturating_add(bytes.saturating_sub(1)) / BLOCK_BYTES {
            self.data.remove(keys::block(file, block));
        }
        changing
    }

    /// Drops all blocks of a file, because its size changes.
    pub(crate) fn drop_data(&self, file: &Identity) {
        self.data.remove_group(keys::file(file));
    }

    /// Begins the move of a directory: handles contain paths, so every name below it becomes invalid.
    pub(crate) fn moving(&self) -> Changing {
        let changing = self.changes.begin([self.names.all()]);
        self.names.clear();
        changing
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use catena::Client;
    use catena_clerk::FarTable;

    use super::*;

    const BLOCK: usize = BLOCK_BYTES as usize;

    /// How many bytes, and whether the file ends there.
    type Piece = (usize, bool);

    /// A read that brought part of a block, and not the file's end, is of a file that somebody changed meanwhile: who found that part in the table would take it for the block.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_block_that_is_short_is_entered_only_if_the_file_ends_with_it() {
        let node = Node::builder("server").listen("127.0.0.1:0").start().await.unwrap();
        let caches = Caches::export(&node, &Measures::default()).unwrap();
        let client = Client::connect(node.address().unwrap()).await.unwrap();
        let far = FarTable::open(client.import(&format!("server/{}", TABLES[0])).await.unwrap()).await.unwrap();
        // What was read from its second block on, and whether to the end: the lengths of what is entered, and whether the file ends there.
        let cases: [(Piece, &[Piece]); 9] = [
            ((0, false), &[]),
            ((0, true), &[(0, true)]),
            ((1, false), &[]),
            ((1, true), &[(1, true)]),
            ((BLOCK, false), &[(BLOCK, false)]),
            ((BLOCK, true), &[(BLOCK, true)]),
            ((2 * BLOCK - 1, false), &[(BLOCK, false)]),
            ((2 * BLOCK - 1, true), &[(BLOCK, false), (BLOCK - 1, true)]),
            ((2 * BLOCK + 1, false), &[(BLOCK, false), (BLOCK, false)]),
        ];
        for (number, ((bytes, end), entered)) in (0..).zip(cases) {
            let identity: Identity = [number; IDENTITY_BYTES];
            let handle = Handle([&[0xC1][..], &identity, b"file"].concat().into());
            caches.put_blocks(caches.look(), &handle, BLOCK_BYTES, &vec![number; bytes], end);
            for (at, wanted) in (1..).zip(entered.iter().map(Some).chain([None])) {
                let found = far.get(keys::block(&identity, at), BLOCK).await.unwrap();
                let found = found.as_deref().and_then(packed::to_block);
                let found = found.map(|(length, end, data)| {
                    assert_eq!(data, vec![number; length]);
                    (length, end)
                });
                assert_eq!(found.as_ref(), wanted, "block {at} of {bytes} bytes, end {end}");
            }
            caches.drop_data(&identity);
        }
    }
}
