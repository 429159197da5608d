//! The chains: each takes numbered effects at nodes drawn at random, one after the other.

use std::time::Duration;

use catena::{Client, Exception, RunOptions, from_value, to_value};
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::{
    Failure,
    node::{Effect, service_name},
    rng::Rng,
};

const FUNCTION: &str = r#"import { call } from "catena";
export default async function take(effects) {
  for (const { service, effect } of effects) await call(`${service}/take`, effect);
  return effects.length;
}
"#;
/// What a chain is given.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How much longer than that an end may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a chain ended, as its origin was told.
#[derive(Debug)]
pub(crate) enum Ending {
    Answered,
    /// Before the effect of this step.
    Failed {
        step: u32,
        why: Exception,
    },
    /// After this step.
    Unknown,
    /// It did not.
    Hung,
}

pub(crate) struct Ended {
    pub(crate) chain: usize,
    pub(crate) effects: usize,
    pub(crate) ending: Ending,
}

pub(crate) async fn run(
    client: &Client,
    seed: u64,
    count: usize,
    nodes: usize,
    in_flight: usize,
) -> Result<Vec<Ended>, Failure> {
    let code = client.javascript("take.js", FUNCTION).await?;
    let options = RunOptions { timeout: TIMEOUT, ..RunOptions::default() };
    let one = |chain: usize| {
        let (code, options) = (&code, &options);
        async move {
            let mut rng = Rng::new(seed ^ (chain as u64).wrapping_mul(0x9e37_79b9));
            let effects = usize::try_from(rng.range(1, 6)).unwrap_or(1);
            let input: Vec<_> = (0..effects)
                .map(|index| {
                    let node = usize::try_from(rng.range(0, nodes as u64)).unwrap_or(0);
                    let (before_ms, after_ms) = (rng.range(0, 30), rng.range(0, 30));
                    json!({ "service": service_name(node), "effect": Effect { chain, index, before_ms, after_ms } })
                })
                .collect();
            let ending = match client.run_with(code, &to_value(&input)?, options) {
                Ok(mut replies) => match tokio::time::timeout(TIMEOUT + PATIENCE, replies.last()).await {
                    Ok(Ok(value)) => {
                        from_value::<usize>(&value)?;
                        Ending::Answered
                    }
                    Ok(Err(why)) if why.unknown => Ending::Unknown,
                    Ok(Err(why)) => Ending::Failed { step: why.step, why },
                    Err(_) => Ending::Hung,
                },
                Err(why) => Ending::Failed { step: 0, why },
            };
            Ok::<_, Failure>(Ended { chain, effects, ending })
        }
    };
    let ended: Vec<_> = stream::iter((0..count).map(one)).buffer_unordered(in_flight).collect().await;
    ended.into_iter().collect()
}
