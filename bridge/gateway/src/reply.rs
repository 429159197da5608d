//! Responses, whatever is in them.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderName, HeaderValue},
};

use crate::problem::Problem;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A whole body of a kind (`application/json`).
pub(crate) fn whole(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    of(status, Some(kind), Full::new(bytes.into()).boxed_unsync())
}

/// No body.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    of(status, None, Empty::new().boxed_unsync())
}

/// Any body.
pub(crate) fn of(status: StatusCode, kind: Option<&'static str>, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    if let Some(kind) = kind {
        put(header::CONTENT_TYPE, kind);
    }
    put(header::CACHE_CONTROL, "no-store");
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::REFERRER_POLICY, "no-referrer");
    response
}

impl From<Problem> for Response<Body> {
    fn from(problem: Problem) -> Self {
        let mut response = whole(problem.status(), "application/problem+json", problem.json());
        if problem.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
