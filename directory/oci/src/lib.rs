//! Functions in an OCI registry: the repository of rpc-chains section 3.2 for meshes in which every node may be restarted.
//!
//! A function is an artifact of one layer, its tag the hash by which Catena knows it (BLAKE3, in hexadecimal), its layer a blob by the registry's own (SHA-256): OCI distribution
//! specification 1.1, sections "Pull" and "Push". What comes back is checked against the hash that was asked for, so a registry cannot slip in another.
#![forbid(unsafe_code)]

mod manifest;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use catena_directory::{Hash, Registry, ResolveError};
use futures_util::StreamExt;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header};
use serde_json::Value;
use sha2::{Digest, Sha256};

use manifest::MANIFEST;

/// Longest manifest.
const MANIFEST_BYTES_MAX: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// One repository of a registry.
pub struct OciRegistry {
    client: Client,
    /// `http://host:port`
    host: String,
    /// As in `/v2/REPOSITORY/...`.
    repository: String,
    name: String,
}

impl OciRegistry {
    /// `http://host:port/repository`; the registry is not contacted yet.
    ///
    /// # Errors
    /// It is no such address.
    pub fn open(url: &str) -> Result<Self, ResolveError> {
        let wrong =
            || ResolveError(format!("{url:?} is no repository of a registry; write it as http://host:5000/functions"));
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, repository) = rest.trim_end_matches('/').split_once('/').ok_or_else(wrong)?;
        let part = |part: &str| {
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
            !part.is_empty() && part.chars().all(good) && part.starts_with(|c: char| c.is_ascii_alphanumeric())
        };
        if host.is_empty() || !repository.split('/').all(part) {
            return Err(wrong());
        }
        let client = Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT).no_proxy().build();
        let client = client.map_err(|why| ResolveError(format!("no HTTP client for the registry: {why}")))?;
        Ok(Self { client, host: format!("http://{host}"), repository: repository.into(), name: url.into() })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/v2/{}/{path}", self.host, self.repository))
    }

    async fn send(&self, request: RequestBuilder, doing: &str) -> Result<Response, ResolveError> {
        request.send().await.map_err(|why| {
            let message = format!(
                "the registry {} does not answer ({doing}): {}; functions that nodes have go on",
                self.name,
                reason(&why)
            );
            ResolveError(message)
        })
    }

    fn refused(&self, doing: &str, status: StatusCode) -> ResolveError {
        ResolveError(format!("the registry {} answers {status} ({doing})", self.name))
    }

    /// Uploads a blob, unless the registry has it.
    async fn push(&self, bytes: Bytes) -> Result<String, ResolveError> {
        let digest = digest_of(&bytes);
        let doing = "looking for a blob";
        let there = self.send(self.request(Method::HEAD, &format!("blobs/{digest}")), doing).await?;
        if there.status().is_success() {
            return Ok(digest);
        }
        let doing = "beginning an upload";
        let begun =
            self.send(self.request(Method::POST, "blobs/uploads/").header(header::CONTENT_LENGTH, 0), doing).await?;
        let location = begun.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
        let Some(location) = location.filter(|_| begun.status() == StatusCode::ACCEPTED) else {
            return Err(self.refused(doing, begun.status()));
        };
        let location = if location.starts_with('/') { format!("{}{location}", self.host) } else { location.to_owned() };
        if !location.starts_with(&format!("{}/", self.host)) {
            return Err(ResolveError(format!("the registry {} wants the upload to go to another host", self.name)));
        }
        let joint = if location.contains('?') { '&' } else { '?' };
        let upload = self.client.put(format!("{location}{joint}digest={digest}"));
        let upload = upload.header(header::CONTENT_TYPE, "application/octet-stream").body(bytes);
        let doing = "uploading";
        let done = self.send(upload, doing).await?;
        if done.status() == StatusCode::CREATED { Ok(digest) } else { Err(self.refused(doing, done.status())) }
    }

    async fn take(
        &self,
        request: RequestBuilder,
        doing: &str,
        bytes_max: usize,
    ) -> Result<Option<Bytes>, ResolveError> {
        let response = self.send(request, doing).await?;
        match response.status() {
            StatusCode::NOT_FOUND => return Ok(None),
            StatusCode::OK => {}
            status => return Err(self.refused(doing, status)),
        }
        let mut bytes = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let broke = |why| ResolveError(format!("the registry {} broke off ({doing}): {}", self.name, reason(&why)));
            let chunk = chunk.map_err(broke)?;
            if bytes.len() + chunk.len() > bytes_max {
                return Err(ResolveError(format!(
                    "the registry {} sends more than {bytes_max} bytes ({doing})",
                    self.name
                )));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(bytes.into()))
    }

    async fn manifest(&self, code: Hash) -> Result<Option<Value>, ResolveError> {
        let request =
            self.request(Method::GET, &format!("manifests/{}", tag_of(code))).header(header::ACCEPT, MANIFEST);
        let Some(bytes) = self.take(request, "reading a manifest", MANIFEST_BYTES_MAX).await? else { return Ok(None) };
        manifest::parsed(&bytes)
            .map(Some)
            .map_err(|why| ResolveError(format!("the registry {} has a manifest that is none: {why}", self.name)))
    }
}

#[async_trait]
impl Registry for OciRegistry {
    fn name(&self) -> &str {
        &self.name
    }

    async fn get(&self, code: Hash, bytes_max: usize) -> Result<Option<Bytes>, ResolveError> {
        let Some(manifest) = self.manifest(code).await? else { return Ok(None) };
        let Some(digest) = manifest::layer_of(&manifest) else {
            return Err(ResolveError(format!(
                "the registry {} has under {} what is no function",
                self.name,
                tag_of(code)
            )));
        };
        let request = self.request(Method::GET, &format!("blobs/{digest}"));
        let Some(bytes) = self.take(request, "reading a function", bytes_max).await? else { return Ok(None) };
        if blake3::hash(&bytes).as_bytes() != &code.0 {
            return Err(ResolveError(format!(
                "the registry {} has under {} another function",
                self.name,
                tag_of(code)
            )));
        }
        Ok(Some(bytes))
    }

    async fn put(&self, code: Hash, bytes: Bytes) -> Result<(), ResolveError> {
        if self.manifest(code).await?.is_some() {
            return Ok(());
        }
        let size = bytes.len();
        let layer = self.push(bytes).await?;
        let empty = Bytes::from_static(b"{}");
        let config = self.push(empty.clone()).await?;
        let manifest = manifest::of_function((&config, empty.len()), (&layer, size));
        let request = self.request(Method::PUT, &format!("manifests/{}", tag_of(code)));
        let request = request.header(header::CONTENT_TYPE, MANIFEST).body(manifest.to_string());
        let doing = "writing a manifest";
        let done = self.send(request, doing).await?;
        if done.status() == StatusCode::CREATED { Ok(()) } else { Err(self.refused(doing, done.status())) }
    }
}

fn tag_of(code: Hash) -> String {
    blake3::Hash::from_bytes(code.0).to_hex().to_string()
}

fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

/// The cause of an error of the HTTP client, whose own message names only the address.
fn reason(why: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = why;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
