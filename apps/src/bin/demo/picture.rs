//! A picture of 50 MB in Redmond, for a client in Beijing whose chain goes by Mountain View and Cambridge: the picture does not.

use std::time::{Duration, Instant};

use catena::{Blob, Exception, Fault, RunOptions, from_value, to_value};
use futures_util::StreamExt;
use serde_json::{Value as Json, json};

use crate::{Failure, bound, drawing, stage::Stage};

/// Its size.
const PICTURE_BYTES: u64 = 50_000_000;

/// Four hops, which carry the reference; the bytes stay where they are until the client reads them.
const FUNCTION: &str = r#"import { call } from "catena";
export default async function picture({ path, count }) {
  const file = await call("files.red/lookup", { path });
  const picture = await call("files.red/offer", { handle: file.handle, offset: 0, count });
  await call("files.mtv/root", {});                          // whoever has to be asked about it,
  await call("files.cam/root", {});                          // wherever they are
  const ad = await call("ads/pick", { text: `${picture.size} bytes of ${picture.type}` });
  return { picture, ad };
}"#;

#[derive(serde::Deserialize)]
struct Answer {
    picture: Blob,
    ad: Json,
}

/// Runs it; gives what is written to `result.json`.
pub(crate) async fn show(stage: &Stage) -> Result<Json, Failure> {
    let mut noise = vec![0; PICTURE_BYTES as usize];
    blake3::Hasher::new_derive_key("catena demo picture").finalize_xof().fill(&mut noise);
    let hash = blake3::hash(&noise);
    std::fs::write(stage.data("red").join("picture.bin"), noise)?;
    let client = stage.client("bei", &["files.red", "files.mtv", "files.cam", "ads"]).await?;
    let code = client.javascript("picture.js", FUNCTION).await?;
    let input = to_value(&json!({ "path": "picture.bin", "count": PICTURE_BYTES }))?;
    let (before, began) = (client.traffic_by_node(), Instant::now());
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let mut replies = client.run_with(&code, &input, &options)?;
    let answer: Answer = from_value(&replies.last().await?)?;
    let chain_ms = began.elapsed().as_secs_f64() * 1e3;
    let bar = drawing::bar("the picture, straight from Redmond", 1, 1);
    bar.set_length(PICTURE_BYTES);
    let (mut hasher, picture) = (blake3::Hasher::new(), answer.picture.on(&client));
    let mut pieces = std::pin::pin!(picture.stream());
    while let Some(piece) = pieces.next().await {
        bar.inc(hasher.update(&piece?).count() - bar.position());
    }
    bar.finish_and_clear();
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if hasher.finalize() != hash {
        return Err("the picture that came is not the one that was offered".into());
    }
    let came = |node: &str| {
        let of = |all: &[(String, catena::Traffic)]| {
            all.iter().filter(|(name, _)| name == node).map(|(_, traffic)| traffic.received_bytes).sum::<u64>()
        };
        of(&client.traffic_by_node()).saturating_sub(of(&before))
    };
    let moves: Vec<_> = replies.trace().iter().filter(|step| !step.in_place).collect();
    let carried = moves.iter().map(|step| step.params_bytes + step.continuation_bytes).max().unwrap_or_default();
    let others = ["mtv", "cam"].map(came).into_iter().max().unwrap_or_default();
    let bound_ms = bound::picture_ms(PICTURE_BYTES);
    let along_ms = bound::picture_along_ms(PICTURE_BYTES);
    println!(
        "\nA picture of {PICTURE_BYTES} bytes in Redmond, for a client in Beijing; the chain goes by {}",
        replies.path().join(", ")
    );
    println!("  {ms:.0} ms in all, of which the chain {chain_ms:.0} ms; the bound {bound_ms:.0} ms");
    println!("  {} bytes came to the client from Redmond; from the other sites at most {others}", came("red"));
    println!(
        "  {} hops, none of which carried more than {carried} bytes: the picture crossed the ocean once,",
        moves.len().saturating_sub(1)
    );
    println!("  straight from who had it to who wanted it. Carried along, it would take {along_ms:.0} ms at least.");
    println!("  The ad that came with it: {}", answer.ad);
    if came("red") < PICTURE_BYTES || came("red") > PICTURE_BYTES / 50 * 51 || carried > 100_000 || others > 500_000 {
        let why = "the picture went another way than it should have";
        return Err(Exception::new("Demo", Fault::Node, why).into());
    }
    let from_red = came("red");
    client.close(Duration::from_secs(1)).await;
    let whole = |ms: f64| (ms * 10.0).round() / 10.0;
    Ok(json!({
        "bytes": PICTURE_BYTES, "ms": whole(ms), "bound_ms": whole(bound_ms), "carried_along_bound_ms": whole(along_ms),
        "owner_to_client_bytes": from_red, "other_sites_to_client_bytes": others, "hop_bytes_max": carried,
    }))
}
