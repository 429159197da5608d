//! Blobs: a chain carries one by reference over hops, and its bytes are read by a service, by the function, and by the origin at the end.

use catena::{Blob, Context, Exception, RunOptions, Service, ServiceError, exceptions, to_value};
use serde::{Deserialize, Serialize};

use crate::{
    Failure,
    bytes::{pattern, sum},
    chains::TIMEOUT,
    data::{Seen, Went, watch},
    flaw::{self, Flaw},
    kinds::Kind,
    node::service_name,
    rng::Rng,
    trials::Origin,
};

/// The function that carries it.
pub(crate) const CARRY: &str = include_str!("carry.js");

/// More than one READ, and more than what is fetched before a service asks for it.
const BYTES_MAX: u64 = 6 << 20;
const SMALL_BYTES_MAX: u64 = 200 << 10;
/// What the function reads.
const PART_BYTES: usize = 4_096;

#[derive(Serialize)]
struct Way {
    from: String,
    through: Vec<String>,
    /// A service, `function` or `origin`.
    read: String,
    seed: u64,
    size: u64,
}

#[derive(Deserialize)]
struct Carried {
    blob: Blob,
    sum: Option<u64>,
}

/// The functions that make blobs, let them pass and read them.
pub(crate) fn functions(service: Service, flaw: Option<Flaw>) -> Service {
    let offer = move |context: Context, (seed, size): (u64, u64)| {
        let mut bytes = pattern(seed, size as usize);
        if flaw::spoils(flaw, seed as usize) == Some(Flaw::Wrong) {
            bytes[size as usize / 2] ^= 1;
        }
        std::future::ready(context.blob(&bytes, "").map_err(ServiceError::from))
    };
    service
        .function_in("offer", offer)
        .function("pass", async |()| Ok(()))
        .function("sum", async |blob: Blob| Ok(sum(&blob.bytes().await?)))
}

pub(crate) async fn one(origin: &Origin<'_>, mut rng: Rng, trial: usize) -> Result<Went, Failure> {
    let from = rng.below(origin.nodes);
    let through: Vec<_> = (0..rng.below(4)).map(|_| rng.below(origin.nodes)).collect();
    let bytes_max = if rng.below(4) == 0 { BYTES_MAX } else { SMALL_BYTES_MAX };
    let size = rng.range(PART_BYTES as u64, bytes_max);
    let mut nodes: Vec<_> = through.iter().copied().chain([from]).collect();
    let read = match rng.below(3) {
        0 => "origin".to_owned(),
        1 => "function".to_owned(),
        _ => {
            nodes.push(rng.below(origin.nodes));
            service_name(nodes[nodes.len() - 1])
        }
    };
    let way = Way {
        from: service_name(from),
        through: through.into_iter().map(service_name).collect(),
        read,
        seed: trial as u64,
        size,
    };
    let input = to_value(&way)?;
    let options = RunOptions { timeout: TIMEOUT, ..RunOptions::default() };
    let went = watch(Kind::Blob, trial, nodes, async |seen| {
        let carried = match origin.client.run_with(&origin.carry, &input, &options)?.value::<Carried>().await {
            Ok(carried) => carried,
            Err(why) => return Err(named(seen, why, from)),
        };
        let bytes = pattern(way.seed, way.size as usize);
        let part = if way.read == "function" { &bytes[..PART_BYTES] } else { &bytes[..] };
        if carried.sum.is_some_and(|counted| counted != sum(part)) {
            seen.wrong.push(format!("{} read other bytes", way.read));
        }
        if carried.sum.is_none() && way.read != "origin" {
            seen.wrong.push(format!("{} read nothing", way.read));
        }
        match carried.blob.bytes().await {
            Ok(got) => seen.compare("the origin", &bytes, &got),
            Err(why) => return Err(named(seen, why, from)),
        }
        Ok(())
    });
    Ok(went.await)
}

/// A lost blob's exception names its owner.
fn named(seen: &mut Seen, why: Exception, owner: usize) -> Exception {
    if why.name == exceptions::BLOB_LOST && !why.message.contains(&format!("its owner n{owner} ")) {
        seen.misnamed.push(format!("the owner is n{owner}: {}", why.message));
    }
    why
}
