//! A folder as a web server: GET and HEAD, conditions and ranges (RFC 9110), out of a cache in segments.

mod body;
mod cache;
mod range;

use std::{io, path::Path, sync::Arc, time::SystemTime};

use bytes::Bytes;
use catena::Node;
use catena_gateway::media_type;
use futures_util::future::BoxFuture;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{
        ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName,
        HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE,
        X_CONTENT_TYPE_OPTIONS,
    },
    service::Service,
};
use percent_encoding::percent_decode_str;

pub use body::FileBody;
use cache::{Cache, Content, Found};
use range::Wanted;

use crate::{body::Lying, limits::FileLimits};

/// What a folder's own address stands for.
const INDEX: &str = "index.html";

/// Where the cache of a folder keeps content.
#[derive(Clone)]
pub enum Keep {
    /// In segments that this node exports, readable for everybody: sent from where it lies.
    InSegments(Node),
    /// In memory of this process, as a server on sockets does.
    InMemory,
    /// Nowhere: files are read each time.
    Nothing,
}

impl std::fmt::Debug for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::InSegments(_) => "InSegments",
            Self::InMemory => "InMemory",
            Self::Nothing => "Nothing",
        })
    }
}

/// A folder, out of which no path leads, as a service of `hyper`'s. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Files {
    cache: Arc<Cache>,
}

impl Files {
    /// Serves a folder to everybody. What begins with a dot is not there.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn open(folder: &Path, keep: Keep, limits: FileLimits) -> io::Result<Self> {
        Ok(Self { cache: Arc::new(Cache::open(folder, keep, limits)?) })
    }

    /// Files that are kept, and their bytes.
    #[must_use]
    pub fn kept(&self) -> (usize, u64) {
        self.cache.load()
    }

    async fn answer(self, method: Method, path: String, headers: HeaderMap) -> Response<FileBody> {
        if method != Method::GET && method != Method::HEAD {
            let mut response = told(StatusCode::METHOD_NOT_ALLOWED, "files are read by GET and HEAD");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let Some(name) = name_of(&path) else { return missing() };
        match self.cache.find(&name).await {
            Ok(found) => file(found, &name, &headers),
            Err(why) if why.kind() == io::ErrorKind::IsADirectory => moved(&path),
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
                told(StatusCode::SERVICE_UNAVAILABLE, "the file is being changed; ask again")
            }
            Err(_) => missing(),
        }
    }
}

impl<B> Service<Request<B>> for Files {
    type Response = Response<FileBody>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let (files, path) = (self.clone(), request.uri().path().to_owned());
        let (method, headers) = (request.method().clone(), request.headers().clone());
        Box::pin(async move { Ok(files.answer(method, path, headers).await) })
    }
}

/// The name of the file at a path, if there can be one.
fn name_of(path: &str) -> Option<String> {
    // An encoded slash is refused: no file name contains one, and decoding it could get past a guard that checks folders by path.
    if path.as_bytes().windows(3).any(|three| three.eq_ignore_ascii_case(b"%2f")) {
        return None;
    }
    let mut name = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?.into_owned();
    if name.is_empty() || name.ends_with('/') {
        name.push_str(INDEX);
    }
    let bad = name.contains('\0') || name.split('/').any(|part| part.is_empty() || part.starts_with('.'));
    (!bad).then_some(name)
}

fn file(found: Found, name: &str, headers: &HeaderMap) -> Response<FileBody> {
    let stamp = found.stamp;
    let tag = stamp.tag();
    let mut response = Response::new(FileBody::Empty);
    let about = response.headers_mut();
    about.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    about.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    put(about, ETAG, &tag);
    if let Some(modified) = stamp.modified() {
        put(about, LAST_MODIFIED, &httpdate::fmt_http_date(modified));
    }
    if unchanged(headers, &tag, stamp.modified()) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    about.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    about.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A range of an older version is of no use to the client.
    let whole = headers.get(IF_RANGE).is_some_and(|known| known.as_bytes() != tag.as_bytes());
    let wanted = headers.get(RANGE).filter(|_| !whole).map_or(Wanted::Whole, |range| range::wanted(range, stamp.bytes));
    let (offset, bytes) = match wanted {
        Wanted::Whole => (0, stamp.bytes),
        Wanted::Part { from, to } => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            put(response.headers_mut(), CONTENT_RANGE, &format!("bytes {from}-{}/{}", to - 1, stamp.bytes));
            (from, to - from)
        }
        Wanted::Nowhere => {
            let mut response = told(StatusCode::RANGE_NOT_SATISFIABLE, "the file is shorter");
            put(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{}", stamp.bytes));
            return response;
        }
    };
    response.headers_mut().insert(CONTENT_LENGTH, bytes.into());
    if let Content::Segment(segment) = &found.content {
        response.extensions_mut().insert(Lying { segment: segment.clone(), offset, bytes });
    }
    response.map(|_| FileBody::of(found.content, offset, bytes))
}

/// Whether the client has it already (RFC 9110, section 13.2.2: the tag takes precedence over the date).
fn unchanged(headers: &HeaderMap, tag: &str, modified: Option<SystemTime>) -> bool {
    if headers.contains_key(IF_NONE_MATCH) {
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
        return known
            .flat_map(|known| known.split(','))
            .map(str::trim)
            .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
    }
    let since = headers.get(IF_MODIFIED_SINCE).and_then(|since| httpdate::parse_http_date(since.to_str().ok()?).ok());
    // The date has whole seconds.
    since
        .zip(modified)
        .is_some_and(|(since, modified)| modified.duration_since(since).map_or(true, |later| later.as_secs() == 0))
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn missing() -> Response<FileBody> {
    told(StatusCode::NOT_FOUND, "there is no such file")
}

/// Redirects to the folder's address with a slash at its end: without it, relative links of its page would be resolved one level too high.
fn moved(path: &str) -> Response<FileBody> {
    let mut response = told(StatusCode::PERMANENT_REDIRECT, "it is a folder");
    // Relative to this path, so that a path such as //host cannot lead to another host.
    let last = path.rsplit('/').next().unwrap_or_default();
    put(response.headers_mut(), LOCATION, &format!("./{last}/"));
    response
}

fn told(status: StatusCode, why: &'static str) -> Response<FileBody> {
    let mut response = Response::new(FileBody::Here(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(CONTENT_LENGTH, why.len().into());
    response
}
