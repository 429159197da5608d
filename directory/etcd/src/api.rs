//! Requests to etcd: its version 3 API as JSON over HTTP, which every etcd since 3.4 serves beside gRPC.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use catena_directory::ResolveError;
use futures_util::StreamExt;
use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::answer::{Change, Pair, listed, parsed, told};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest answer that is accepted, and longest event of a watch, in bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// One member of a cluster, or several of the same cluster.
pub(crate) struct Api {
    client: Client,
    endpoints: Vec<String>,
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// The end of the key range of all keys that begin with `prefix` (exclusive).
fn end_of(prefix: &str) -> String {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    BASE64_STANDARD.encode(end)
}

impl Api {
    pub(crate) fn new(endpoints: Vec<String>) -> Result<Self, ResolveError> {
        let client = Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy().build();
        let client = client.map_err(|why| ResolveError(format!("no HTTP client for etcd: {why}")))?;
        Ok(Self { client, endpoints })
    }

    pub(crate) fn endpoints(&self) -> String {
        self.endpoints.join(", ")
    }

    /// Asks one endpoint after the other, until one answers.
    async fn post(&self, path: &str, body: &Value, timeout: Option<Duration>) -> Result<Response, ResolveError> {
        let mut faults = Vec::new();
        for endpoint in &self.endpoints {
            let mut request = self.client.post(format!("{endpoint}{path}")).body(body.to_string());
            if let Some(timeout) = timeout {
                request = request.timeout(timeout);
            }
            match request.send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let status = response.status();
                    let said = whole(response, 4_096).await.unwrap_or_default();
                    let said = String::from_utf8_lossy(&said).chars().take(200).collect::<String>();
                    faults.push(format!("{endpoint} answers {status}: {said}"));
                }
                Err(why) => faults.push(format!("{endpoint} does not answer: {}", reason(&why))),
            }
        }
        Err(ResolveError(format!(
            "etcd: {}; see that it is up, and that its endpoints are named rightly",
            faults.join("; ")
        )))
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value, ResolveError> {
        let response = self.post(path, body, Some(REQUEST_TIMEOUT)).await?;
        parsed(&whole(response, ANSWER_BYTES_MAX).await?)
    }

    /// Everything under a prefix, and the first revision that this does not cover.
    pub(crate) async fn list(&self, prefix: &str, pairs_max: usize) -> Result<(Vec<Pair>, i64), ResolveError> {
        let body = json!({
            "key": encoded(prefix), "range_end": end_of(prefix), "limit": pairs_max,
            "sort_order": "ASCEND", "sort_target": "CREATE",
        });
        Ok(listed(self.ask("/v3/kv/range", &body).await?))
    }

    /// A lease that ends by itself when it is not kept alive.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<String, ResolveError> {
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": ttl.as_secs().max(1) })).await?;
        let id = answer["ID"].as_str().map(str::to_owned);
        id.ok_or_else(|| ResolveError(format!("etcd grants no lease: {answer}")))
    }

    /// Returns whether the lease is still there.
    pub(crate) async fn keep_alive(&self, lease: &str) -> Result<bool, ResolveError> {
        let answer = self.ask("/v3/lease/keepalive", &json!({ "ID": lease })).await?;
        let left = &answer["result"]["TTL"];
        Ok(left.as_str().and_then(|text| text.parse::<i64>().ok()).is_some_and(|left| left > 0))
    }

    pub(crate) async fn revoke(&self, lease: &str) -> Result<(), ResolveError> {
        self.ask("/v3/lease/revoke", &json!({ "ID": lease })).await.map(drop)
    }

    pub(crate) async fn put(&self, key: &str, value: &[u8], lease: &str) -> Result<(), ResolveError> {
        let body = json!({ "key": encoded(key), "value": BASE64_STANDARD.encode(value), "lease": lease });
        self.ask("/v3/kv/put", &body).await.map(drop)
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<(), ResolveError> {
        self.ask("/v3/kv/deleterange", &json!({ "key": encoded(key) })).await.map(drop)
    }

    /// Reports every change under a prefix from a revision on, until etcd is gone or no longer has that revision.
    pub(crate) async fn watch(
        &self,
        prefix: &str,
        first: i64,
        mut changed: impl FnMut(Vec<Change>) -> bool,
    ) -> Result<(), ResolveError> {
        let create = json!({ "create_request": {
            "key": encoded(prefix), "range_end": end_of(prefix), "start_revision": first.to_string(),
            "progress_notify": true,
        }});
        let response = self.post("/v3/watch", &create, None).await?;
        let mut chunks = response.bytes_stream();
        let mut line: Vec<u8> = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|why| ResolveError(format!("the watch of etcd broke: {}", reason(&why))))?;
            for byte in chunk {
                if byte != b'\n' {
                    line.push(byte);
                } else if !changed(told(&std::mem::take(&mut line))?) {
                    return Ok(());
                }
            }
            if line.len() > ANSWER_BYTES_MAX {
                return Err(ResolveError("an event of etcd is too long".into()));
            }
        }
        Err(ResolveError("etcd ended the watch".into()))
    }
}

async fn whole(response: Response, bytes_max: usize) -> Result<Vec<u8>, ResolveError> {
    let mut bytes = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|why| ResolveError(format!("the answer of etcd broke off: {}", reason(&why))))?;
        if bytes.len() + chunk.len() > bytes_max {
            return Err(ResolveError(format!("etcd answers more than {bytes_max} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The cause of an error of the HTTP client, whose own message names only the address.
fn reason(why: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = why;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
