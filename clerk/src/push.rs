//! Eager push: the server WRITEs entries into a table that its clerk exports (section 3.2).

use catena::{Exception, Export, Fault, Imported, Node, NodeId, Rights, Segment};

use crate::{
    index::Index,
    layout::{HEAD_BYTES, Key, Seen, Shape, decode, encode},
};

/// The clerk's side: memory into which one server pushes. Guarantee: what is found was pushed by it, whole, and after the server's
/// [`Pushing::done`] returned the clerk finds what was pushed before, unless a later entry took its place.
#[derive(Debug)]
pub struct Pushed {
    segment: Segment,
    shape: Shape,
}

impl Pushed {
    /// Exports an empty table into which `server` alone may write.
    ///
    /// # Errors
    /// Dimensions that no table can have; what an export is refused for.
    pub async fn export(node: &Node, name: &str, shape: Shape, server: NodeId) -> Result<Self, Exception> {
        shape.check(shape.bytes()).map_err(|why| Exception::new("BadTable", Fault::Service, why.to_string()))?;
        let segment = node.export(name, shape.bytes(), Export::default())?;
        segment.write(0, &shape.head())?;
        // All rights: with fewer the segment is not mapped for writing, and a server on the same host would push over the link.
        segment.allow(server, Rights::ALL).await?;
        Ok(Self { segment, shape })
    }

    /// The value that was pushed for a key: read from memory of this process.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Vec<u8>> {
        let mut slot = vec![0; self.shape.sectors as usize * self.shape.sector_bytes()];
        self.shape.slots_of(key).into_iter().find_map(|at| {
            self.segment.read(self.shape.at(at, 0), &mut slot).ok()?;
            match decode(&self.shape, key, &slot) {
                Seen::Whole(value) => Some(value),
                Seen::Begins(_) | Seen::Miss => None,
            }
        })
    }
}

/// The server's side.
#[derive(Debug)]
pub struct Pushing {
    far: Imported,
    shape: Shape,
    index: Index,
    version: u64,
}

impl Pushing {
    /// Into a table that a clerk exports.
    ///
    /// # Errors
    /// `BadTable`: it is none; what a READ is refused for.
    pub async fn open(far: Imported) -> Result<Self, Exception> {
        let head = far.read(0, (HEAD_BYTES as u64).min(far.bytes())).await?;
        let shape = Shape::of_head(&head, far.bytes())
            .map_err(|why| Exception::new("BadTable", Fault::Caller, format!("the clerk's table: {why}")))?;
        Ok(Self { far, shape, index: Index::new(shape), version: 0 })
    }

    /// Pushes an entry; `false`: it is too long.
    ///
    /// # Errors
    /// The clerk is gone, or took its table back.
    pub async fn push(&mut self, key: Key, value: &[u8]) -> Result<bool, Exception> {
        if value.len() > self.shape.value_bytes() {
            return Ok(false);
        }
        let slot = self.index.place(key, [None; 2]);
        self.version += 1;
        self.void(slot).await?;
        for (number, sector) in (0..).zip(encode(&self.shape, key, self.version, value)) {
            self.far.write(self.shape.at(slot, number), sector).await?;
        }
        Ok(true)
    }

    /// Takes an entry out of the clerk's table.
    ///
    /// # Errors
    /// As [`Pushing::push`].
    pub async fn take_back(&mut self, key: Key) -> Result<(), Exception> {
        match self.index.remove(key) {
            Some(slot) => self.void(slot).await,
            None => Ok(()),
        }
    }

    async fn void(&self, slot: u32) -> Result<(), Exception> {
        for sector in 0..self.shape.sectors {
            self.far.write(self.shape.at(slot, sector), vec![0; 8]).await?;
        }
        Ok(())
    }

    /// Waits until the clerk's memory has all that was pushed and taken back.
    ///
    /// # Errors
    /// As [`Pushing::push`].
    pub async fn done(&self) -> Result<(), Exception> {
        self.far.flush().await
    }
}
