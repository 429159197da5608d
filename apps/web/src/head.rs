//! Heads of requests and responses as bytes: as HTTP/1.1 has them (RFC 9112, sections 3, 4 and 5), so that whoever can parse HTTP can speak this.

use std::fmt::Write as _;

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri, Version,
    header::{HeaderName, HeaderValue},
};

/// Header fields of one head, at most.
const FIELDS_MAX: usize = 96;

/// Why bytes are no head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// They break HTTP's grammar.
    #[error("it is no HTTP: {0}")]
    Grammar(String),
    /// They end too early.
    #[error("it ends within its head")]
    Short,
}

fn grammar(why: impl std::fmt::Display) -> HeadError {
    HeadError::Grammar(why.to_string())
}

/// A request's head.
pub(crate) fn of_request<B>(request: &Request<B>) -> Vec<u8> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    fields(&mut head, request.headers());
    head
}

/// A response's head.
pub(crate) fn of_response<B>(response: &Response<B>) -> Vec<u8> {
    let status = response.status();
    let mut line = String::new();
    // Writing into a string does not fail.
    let _ = write!(line, "HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let mut head = line.into_bytes();
    fields(&mut head, response.headers());
    head
}

fn fields(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
}

/// The request of a head. Its body is not looked for in these bytes.
pub(crate) fn to_request(head: &[u8]) -> Result<Request<()>, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    if parsed.parse(head).map_err(grammar)?.is_partial() {
        return Err(HeadError::Short);
    }
    let method = Method::from_bytes(parsed.method.unwrap_or_default().as_bytes()).map_err(grammar)?;
    let target: Uri = parsed.path.unwrap_or_default().parse().map_err(grammar)?;
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = target;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = taken(parsed.headers)?;
    Ok(request)
}

/// The response of a head.
pub(crate) fn to_response(head: &[u8]) -> Result<Response<()>, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    if parsed.parse(head).map_err(grammar)?.is_partial() {
        return Err(HeadError::Short);
    }
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(parsed.code.unwrap_or_default()).map_err(grammar)?;
    *response.headers_mut() = taken(parsed.headers)?;
    Ok(response)
}

fn taken(fields: &[httparse::Header<'_>]) -> Result<HeaderMap, HeadError> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(grammar)?;
        headers.append(name, HeaderValue::from_bytes(field.value).map_err(grammar)?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn heads_come_back_as_they_went() {
        let request = Request::put("http://host/a%20b?c=d").header("x", "1").header("x", "\u{e4}").body(()).unwrap();
        let back = to_request(&of_request(&request)).unwrap();
        assert_eq!((back.method(), back.uri().to_string().as_str()), (&Method::PUT, "/a%20b?c=d"));
        assert_eq!(back.headers().get_all("x").iter().count(), 2);
        let response = Response::builder().status(418).header("etag", "\"1\"").body(()).unwrap();
        let back = to_response(&of_response(&response)).unwrap();
        assert_eq!((back.status().as_u16(), &back.headers()["etag"]), (418, &HeaderValue::from_static("\"1\"")));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        let bad = [
            &b""[..],
            b"GET / HTTP/1.1\r\n",
            b"GET / HTTP/3.7\r\n\r\n",
            b"G\0T / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nna me: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nname: x\0\r\n\r\n",
            b"GET http://[ HTTP/1.1\r\n\r\n",
            many.as_bytes(),
        ];
        for head in bad {
            assert!(to_request(head).is_err(), "{:?}", String::from_utf8_lossy(&head[..head.len().min(40)]));
        }
        assert!(to_response(b"HTTP/1.1 99 Low\r\n\r\n").is_err());
    }
}
