//! The files of an application's page.

use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use cap_std::{ambient_authority, fs::Dir};
use hyper::{Response, StatusCode, header, header::HeaderValue};
use percent_encoding::percent_decode_str;

use crate::{
    charge::Memory,
    limits::Limits,
    problem::Problem,
    reply::{self, Body},
};

/// The file served for a folder's own address.
const INDEX: &str = "index.html";

/// Media types by file extension; any other file is plain bytes.
const KINDS: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("ico", "image/x-icon"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("wasm", "application/wasm"),
    ("woff2", "font/woff2"),
    ("map", "application/json"),
];

/// A folder that no path can leave.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    folder: Arc<Dir>,
}

impl Files {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { folder: Arc::new(Dir::open_ambient_dir(folder, ambient_authority())?) })
    }

    /// The file at a request's path, without its first slash.
    pub(crate) async fn get(&self, path: &str, limits: &Limits, memory: &Memory) -> Result<Response<Body>, Problem> {
        let missing = || {
            let message = format!("there is no file /{path}");
            Problem::caller(
                StatusCode::NOT_FOUND,
                "NotFound",
                message,
                "an application begins at GET /, if its folder has an index.html",
            )
        };
        let mut name = percent_decode_str(path).decode_utf8().map_err(|_| missing())?.into_owned();
        if name.is_empty() || name.ends_with('/') {
            name.push_str(INDEX);
        }
        // Dot files are private: .git, .env.
        if name.split('/').any(|part| part.starts_with('.')) {
            return Err(missing());
        }
        let paid = memory.try_take(limits.file_bytes_max);
        let paid =
            paid.ok_or_else(|| Problem::overloaded("the gateway has no memory for a file now (memory_bytes_max)"))?;
        let kind = media_type(&name);
        let (folder, bytes_max) = (Arc::clone(&self.folder), limits.file_bytes_max);
        let read = tokio::task::spawn_blocking(move || read(&folder, &name, bytes_max)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => Memory::charged(bytes, paid),
            Ok(Err(why)) if why.kind() == io::ErrorKind::FileTooLarge => {
                let message = format!("/{path} has more than {bytes_max} bytes (file_bytes_max)");
                return Err(Problem::too_large(message));
            }
            Ok(Err(_)) | Err(_) => return Err(missing()),
        };
        Ok(file(kind, bytes))
    }
}

/// The media type of a file, by how its name ends.
#[must_use]
pub fn media_type(name: &str) -> &'static str {
    let kind = KINDS.iter().find(|(ending, _)| Path::new(name).extension().is_some_and(|of| of == *ending));
    kind.map_or("application/octet-stream", |(_, kind)| kind)
}

/// A file of a media type, which a browser must ask for anew each time.
pub(crate) fn file(kind: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = reply::whole(StatusCode::OK, kind, bytes);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn read(folder: &Dir, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = folder.open(name)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}
