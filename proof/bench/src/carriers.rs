//! From how many bytes on it pays, on one host, to pass parameters or blobs in memory that the receiver maps, rather than by the link: the
//! measurements behind `carried_bytes_min` and `lent_read_bytes_min`.

use std::time::Instant;

use catena::{Blob, Client, MessagePolicy, Place};
use serde_bytes::ByteBuf;

use crate::{
    Failure,
    cores::Cores,
    mesh,
    segments::STORE,
    server::Server,
    stats::{Spread, in_rounds},
    summary::Summary,
};

const SIZES: [usize; 7] = [4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];
/// Repetitions of each, one after the other.
const IN_A_BLOCK: usize = 20;

pub(crate) async fn measure(blocks: usize, summary: &mut Summary) -> Result<(), Failure> {
    let owner = Server::start(&["owner"]).await?;
    let held = Cores::hold([], owner.process())?;
    let node = owner.address.split(' ').next().unwrap_or_default().to_owned();
    let client = async |name: &str, bytes_min: u64| {
        let policy =
            MessagePolicy { carried_bytes_min: bytes_min, lent_read_bytes_min: bytes_min, ..MessagePolicy::default() };
        let client = Client::builder(name).sandbox(mesh::sandbox()?).join(Place::new(&*node)).message_policy(policy);
        Ok::<_, Failure>(client.connect().await?)
    };
    let (by_link, by_memory) = (client("by link", u64::MAX).await?, client("by memory", 1).await?);
    let mut table = "bytes,parameters by the link us,in memory us,blob by the link us,in memory us\n".to_owned();
    for bytes in SIZES {
        let block = || async {
            Ok([
                call_us(&by_link, bytes).await?,
                call_us(&by_memory, bytes).await?,
                blob_us(&by_link, bytes).await?,
                blob_us(&by_memory, bytes).await?,
            ])
        };
        let shown = in_rounds::<4, _>(blocks, block).await?.map(|values| Spread::of(values).shown(1));
        table += &format!("{bytes},{}\n", shown.join(","));
    }
    drop(held);
    summary.put_table("carriers", table);
    Ok(())
}

/// A call that takes so many bytes there.
async fn call_us(client: &Client, bytes: usize) -> Result<f64, Failure> {
    let params = ByteBuf::from(vec![7; bytes]);
    let began = Instant::now();
    for _ in 0..IN_A_BLOCK {
        let taken: usize = client.call(STORE, "take", &params).await?;
        checked(taken, bytes)?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / IN_A_BLOCK as f64)
}

/// Reading a blob of so many.
async fn blob_us(client: &Client, bytes: usize) -> Result<f64, Failure> {
    let blob: Blob = client.call(STORE, "lend", &bytes).await?;
    let began = Instant::now();
    for _ in 0..IN_A_BLOCK {
        checked(blob.bytes().await?.len(), bytes)?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / IN_A_BLOCK as f64)
}

fn checked(came: usize, wanted: usize) -> Result<(), Failure> {
    if came == wanted { Ok(()) } else { Err(format!("{came} bytes of {wanted}").into()) }
}
