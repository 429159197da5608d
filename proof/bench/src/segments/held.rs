//! What a segment takes at its owner, and an import at its importer: resident memory of one process, by 100,000 and 10,000 of them.

use catena::{Client, Export, Node, Place, Rights};

use crate::{Failure, memory::resident_bytes, mesh};

const SEGMENTS: usize = 100_000;
const IMPORTS: usize = 10_000;
/// The smallest that there is: what is asked is what the node adds.
const SEGMENT_BYTES: u64 = 8;
/// Segments exported before counting, so that what is made once exists. Of imports, as many come first as are counted: the allocator takes memory in steps
/// as large as thousands of them.
const BEFORE: usize = 1_000;

async fn owner() -> Result<Node, Failure> {
    Ok(Node::builder("owner").sandbox(mesh::sandbox()?).listen("127.0.0.1:0").start().await?)
}

fn export(node: &Node, number: usize) -> Result<catena::Segment, Failure> {
    let how = Export { anyone: Rights::ALL, ..Export::default() };
    Ok(node.export(&format!("segment {number}"), SEGMENT_BYTES, how)?)
}

/// For each segment that is exported.
pub(crate) async fn export_bytes(parts: usize) -> Result<f64, Failure> {
    let node = owner().await?;
    let mut segments = Vec::with_capacity(SEGMENTS + BEFORE);
    for number in 0..BEFORE {
        segments.push(export(&node, number)?);
    }
    let (before, count) = (resident_bytes()?, SEGMENTS / parts);
    for number in 0..count {
        segments.push(export(&node, BEFORE + number)?);
    }
    Ok((resident_bytes()? - before) / count as f64)
}

/// For each import that is held.
pub(crate) async fn import_bytes(parts: usize) -> Result<f64, Failure> {
    let node = owner().await?;
    let count = IMPORTS / parts;
    let segments: Vec<_> = (0..2 * count).map(|number| export(&node, number)).collect::<Result<_, _>>()?;
    let place = Place::new(node.address().unwrap_or_default());
    let client = Client::builder("importer").sandbox(mesh::sandbox()?).join(place).connect().await?;
    let mut imports = Vec::with_capacity(2 * count);
    for number in 0..count {
        imports.push(client.import(&format!("owner/segment {number}")).await?);
    }
    let before = resident_bytes()?;
    for number in count..2 * count {
        imports.push(client.import(&format!("owner/segment {number}")).await?);
    }
    let after = resident_bytes()?;
    drop(segments);
    Ok((after - before) / count as f64)
}
