//! A table in an exported segment: its owner's side, and its readers'.

use std::sync::{Mutex, MutexGuard, PoisonError};

use catena::{Exception, Export, Fault, Imported, Node, Notify, Rights, Segment};

use crate::{
    changes::{Changes, Look},
    index::{Groups, Index},
    layout::{BEAT_AT, HEAD_BYTES, Key, Seen, Shape, decode, encode},
};

/// The owner's side of a table. Guarantee: a reader finds what was entered whole, or nothing, and after a removal returned finds nothing that was removed.
#[derive(Debug)]
pub struct Table {
    segment: Segment,
    shape: Shape,
    changes: Changes,
    all: Key,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    index: Index,
    version: u64,
    beat: u64,
}

impl Table {
    /// Exports an empty table by this name, for everybody to read. `changes` keeps stale values from being entered.
    ///
    /// # Errors
    /// Dimensions that no table can have; what an export is refused for.
    pub fn export(node: &Node, name: &str, shape: Shape, changes: &Changes) -> Result<Self, Exception> {
        shape.check(shape.bytes()).map_err(|why| Exception::new("BadTable", Fault::Service, why.to_string()))?;
        let how = Export { anyone: Rights::READ, on_read: Notify::Never, ..Export::default() };
        let segment = node.export(name, shape.bytes(), how)?;
        segment.write(0, &shape.head())?;
        let inner = Inner { index: Index::new(shape), version: 0, beat: 0 };
        let all = Key::of(&[b"table", name.as_bytes()]);
        Ok(Self { segment, shape, changes: changes.clone(), all, inner: Mutex::new(inner) })
    }

    /// Its dimensions.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// How many entries it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner().index.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner().index.is_empty()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a value that was read since `look`, unless it is too long or one of its groups has changed since; returns whether it was entered.
    pub fn put(&self, look: Look, key: Key, groups: Groups, value: &[u8]) -> bool {
        if value.len() > self.shape.value_bytes() {
            return false;
        }
        let mut written = false;
        let groups_and_all = groups.into_iter().flatten().chain([self.all]);
        self.changes.enter(look, groups_and_all, || written = self.write(key, groups, value).is_ok());
        written
    }

    fn write(&self, key: Key, groups: Groups, value: &[u8]) -> Result<(), Exception> {
        let mut inner = self.inner();
        let slot = inner.index.place(key, groups);
        inner.version += 1;
        let sectors = encode(&self.shape, key, inner.version, value);
        // Invalidated before the write, valid again after it: most readers that come in between see no entry rather than a torn one.
        self.void(slot)?;
        for (number, sector) in (0..).zip(&sectors) {
            self.segment.write(self.shape.at(slot, number) + 8, &sector[8..])?;
        }
        for (number, sector) in (0..).zip(&sectors) {
            self.segment.write(self.shape.at(slot, number), &sector[..8])?;
        }
        Ok(())
    }

    fn void(&self, slot: u32) -> Result<(), Exception> {
        (0..self.shape.sectors).try_for_each(|sector| self.segment.write(self.shape.at(slot, sector), &[0; 8]))
    }

    /// Takes out an entry.
    pub fn remove(&self, key: Key) {
        let mut inner = self.inner();
        if let Some(slot) = inner.index.remove(key) {
            let _ = self.void(slot);
        }
    }

    /// Takes out all entries that depend on `group`.
    pub fn remove_group(&self, group: Key) {
        let mut inner = self.inner();
        for slot in inner.index.remove_group(group) {
            let _ = self.void(slot);
        }
    }

    /// The group of all its entries: what is read for any of them is not entered after a change of this group.
    #[must_use]
    pub const fn all(&self) -> Key {
        self.all
    }

    /// Takes out everything.
    pub fn clear(&self) {
        let mut inner = self.inner();
        inner.index = Index::new(self.shape);
        for slot in 0..self.shape.slots {
            let _ = self.void(slot);
        }
    }

    /// Increments the beat word, by which readers see that the owner is alive.
    pub fn beat(&self) {
        let mut inner = self.inner();
        inner.beat += 1;
        let _ = self.segment.write(BEAT_AT, &inner.beat.to_le_bytes());
    }
}

/// A table of another node, to read.
#[derive(Clone, Debug)]
pub struct FarTable {
    far: Imported,
    shape: Shape,
}

impl FarTable {
    /// Reads the dimensions of a table that was imported.
    ///
    /// # Errors
    /// `BadTable`: it is none; what a READ is refused for.
    pub async fn open(far: Imported) -> Result<Self, Exception> {
        let head = far.read(0, (HEAD_BYTES as u64).min(far.bytes())).await?;
        let shape = Shape::of_head(&head, far.bytes()).map_err(|why| {
            Exception::new(
                "BadTable",
                Fault::Node,
                format!("{}: {why}; its owner is another service, or of another version", far.owner().name),
            )
        })?;
        Ok(Self { far, shape })
    }

    /// Its dimensions.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The segment.
    #[must_use]
    pub const fn segment(&self) -> &Imported {
        &self.far
    }

    /// The value of a key, by READs alone; `None`: a miss. Takes one READ if the value has at most `expected` bytes and lies in the first of its two slots.
    ///
    /// # Errors
    /// What a READ is refused for.
    pub async fn get(&self, key: Key, expected: usize) -> Result<Option<Vec<u8>>, Exception> {
        for slot in self.shape.slots_of(key) {
            let seen = match self.look(key, slot, self.shape.sectors_for(expected)).await? {
                Seen::Begins(_) => self.look(key, slot, self.shape.sectors).await?,
                seen => seen,
            };
            if let Seen::Whole(value) = seen {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// At least the first `bytes` of a key's value, or all of a shorter one; `None`: a miss. Takes one READ if it lies in the first of its two slots.
    ///
    /// # Errors
    /// What a READ is refused for.
    pub async fn begin(&self, key: Key, bytes: usize) -> Result<Option<Vec<u8>>, Exception> {
        for slot in self.shape.slots_of(key) {
            match self.look(key, slot, self.shape.sectors_for(bytes)).await? {
                Seen::Whole(value) | Seen::Begins(value) => return Ok(Some(value)),
                Seen::Miss => {}
            }
        }
        Ok(None)
    }

    async fn look(&self, key: Key, slot: u32, sectors: u32) -> Result<Seen, Exception> {
        let bytes = u64::from(sectors) * self.shape.sector_bytes() as u64;
        let read = self.far.read(self.shape.at(slot, 0), bytes).await?;
        Ok(decode(&self.shape, key, &read))
    }

    /// The owner's beat word.
    ///
    /// # Errors
    /// What a READ is refused for.
    pub async fn beat(&self) -> Result<u64, Exception> {
        let word = self.far.read(BEAT_AT, 8).await?;
        Ok(word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)))
    }
}
