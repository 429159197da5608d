//! A service for experiments: `echo`, `where`, `sleep`, `fail`, and `count`, which replies many times.

use std::time::Duration;

use catena::{Context, Service, ServiceError};
use serde::{Deserialize, Serialize, de::IgnoredAny};

/// Longest `sleep`, in milliseconds: it holds nothing but a timer, and still must end.
pub const SLEEP_MS_MAX: u64 = 600_000;

/// What `where` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The node.
    pub node: String,
    /// Its site, if it has one.
    pub site: Option<String>,
}

/// Parameters of `sleep`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// How long, at most [`SLEEP_MS_MAX`].
    pub ms: u64,
}

/// Parameters of `count`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Count {
    /// How many replies.
    pub upto: u64,
    /// Milliseconds before each, at most [`SLEEP_MS_MAX`].
    pub ms: u64,
    /// Where else to count: functions such as `probe.cam/count`, which reply to the same caller.
    pub also: Vec<String>,
}

/// One reply of `count`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The node that counts.
    pub node: String,
    /// From 1.
    pub number: u64,
}

async fn count(context: Context, params: Count) -> Result<(), ServiceError> {
    for target in &params.also {
        context.delegate(target, &Count { also: Vec::new(), ..params.clone() })?;
    }
    for number in 1..=params.upto {
        if params.ms > 0 {
            tokio::time::sleep(Duration::from_millis(params.ms.min(SLEEP_MS_MAX))).await;
        }
        context.preturn(&Counted { node: context.node.to_string(), number }).await?;
    }
    Ok(())
}

/// Parameters of `fail`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fail {
    /// The exception's name.
    pub name: String,
    /// Its message.
    pub message: String,
}

impl Default for Fail {
    fn default() -> Self {
        Self { name: "ProbeFailed".into(), message: "as it was asked to".into() }
    }
}

/// The service, under the name given (`probe.mtv`). Its functions change nothing: each may be done again.
#[must_use]
pub fn service(name: &str) -> Service {
    let service = Service::new(name)
        .function_raw("echo", async |_, value| Ok(value))
        .function_in("where", async |context: catena::Context, _: IgnoredAny| {
            let site = context.site.as_deref().map(str::to_owned);
            Ok(Whereabouts { node: context.node.to_string(), site })
        })
        .function("sleep", async |sleep: Sleep| {
            if sleep.ms > SLEEP_MS_MAX {
                return Err(ServiceError::named("TooLong", format!("at most {SLEEP_MS_MAX} ms")));
            }
            tokio::time::sleep(Duration::from_millis(sleep.ms)).await;
            Ok(sleep)
        })
        .function("fail", async |fail: Fail| Err::<(), _>(ServiceError::named(&fail.name, fail.message)))
        .replies("count", count);
    ["echo", "where", "sleep", "fail", "count"].into_iter().fold(service, Service::repeatable)
}
