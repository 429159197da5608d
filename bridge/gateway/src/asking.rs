//! What a request asks for, read and checked.

use std::time::Duration;

use bytes::Bytes;
use catena::{Code, Value};
use catena_json::NotJson;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    HeaderMap, StatusCode,
    body::{Body, Incoming},
    header,
};
use percent_encoding::percent_decode_str;

use crate::{
    charge::Memory,
    limits::Limits,
    offer::{Named, Offer},
    problem::Problem,
};

/// The header in which a browser says how long it will wait.
const TIMEOUT: &str = "catena-timeout-ms";

/// A call or chain that a browser may have.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) target: Target,
    pub(crate) params: Value,
    pub(crate) timeout: Duration,
}

/// What is to be called or run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Call { service: String, function: String },
    Chain(Code),
}

impl Target {
    /// `/call/SERVICE/FUNCTION`, if it is offered.
    pub(crate) fn call(path: &str, offers: &[Offer]) -> Result<Self, Problem> {
        let decoded = |part: &str| percent_decode_str(part).decode_utf8().map(std::borrow::Cow::into_owned);
        let named = path.split_once('/').and_then(|(service, function)| {
            Some((decoded(service).ok()?, decoded(function).ok()?)).filter(|_| !function.contains('/'))
        });
        let Some((service, function)) = named else {
            let message = format!("{path:?} is not of the form SERVICE/FUNCTION");
            return Err(Problem::caller(
                StatusCode::BAD_REQUEST,
                "BadTarget",
                message,
                "ask for /call/SERVICE/FUNCTION",
            ));
        };
        match offers.iter().any(|offer| offer.covers(&service, &function)) {
            true => Ok(Self::Call { service, function }),
            false => Err(not_offered(&format!("{service}/{function}"), "--offer SERVICE/FUNCTION")),
        }
    }

    /// `/run/NAME`, if it is offered.
    pub(crate) fn chain(path: &str, functions: &[Named]) -> Result<Self, Problem> {
        let asked = percent_decode_str(path).decode_utf8_lossy();
        let named = functions.iter().find(|function| function.is(&asked));
        named.map(|named| Self::Chain(named.code)).ok_or_else(|| not_offered(&asked, "--function NAME=FILE"))
    }
}

/// The same answer whether or not it exists: whoever may not call it need not know.
fn not_offered(what: &str, flag: &str) -> Problem {
    let help = format!(
        "GET /openapi.json lists what is offered; whoever runs the gateway can offer more: catena gateway {flag}"
    );
    Problem::caller(StatusCode::NOT_FOUND, "NotOffered", format!("{what:?} is not offered to browsers here"), &help)
}

impl Asked {
    /// Reads the rest of a request.
    pub(crate) async fn read(
        target: Target,
        headers: &HeaderMap,
        body: Incoming,
        limits: &Limits,
        memory: &Memory,
    ) -> Result<Self, Problem> {
        let timeout = timeout(headers, limits)?;
        is_json(headers)?;
        if headers.contains_key("last-event-id") {
            let message = "a stream that broke off is not resumed: what was under way for it has been cancelled";
            let help = "ask again from the beginning, without Last-Event-ID, if doing it twice is harmless";
            return Err(Problem::caller(StatusCode::CONFLICT, "NotResumable", message, help));
        }
        let none = if matches!(target, Target::Chain(_)) { "null" } else { "{}" };
        let declared = body.size_hint().upper().map_or(limits.body_bytes_max, |bytes| bytes as usize);
        if declared > limits.body_bytes_max {
            return Err(too_large(limits));
        }
        // Held until the text has been decoded into a payload.
        let _paid = memory
            .try_take(limits.body_cost(declared))
            .ok_or_else(|| Problem::overloaded("the gateway has no memory for this body now (memory_bytes_max)"))?;
        let bytes = collect(body, limits).await?;
        let text = std::str::from_utf8(&bytes).map_err(|why| bad_json(format!("not UTF-8 text: {why}")))?;
        let params = catena_json::parse(if text.trim().is_empty() { none } else { text });
        let params = params.map_err(|why| match why {
            NotJson::Syntax { .. } => bad_json(format!("not JSON: {why}")),
            NotJson::Value(message) => bad_json(message),
        })?;
        Ok(Self { target, params, timeout })
    }
}

async fn collect(body: Incoming, limits: &Limits) -> Result<Bytes, Problem> {
    let collecting = Limited::new(body, limits.body_bytes_max).collect();
    match tokio::time::timeout(limits.body_timeout(), collecting).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(why)) if why.is::<LengthLimitError>() => Err(too_large(limits)),
        Ok(Err(why)) => Err(Problem::caller(
            StatusCode::BAD_REQUEST,
            "BadBody",
            format!("the body broke off: {why}"),
            "send it again, whole",
        )),
        Err(_) => Err(Problem::caller(
            StatusCode::REQUEST_TIMEOUT,
            "BodyTimeout",
            format!("the body did not come within {} ms (body_timeout_ms)", limits.body_timeout_ms),
            "send it again, whole",
        )),
    }
}

/// Any page may post text without a preflight; JSON makes the browser ask first (Fetch standard, "CORS-safelisted request-header").
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let kind = said.as_deref().and_then(|said| said.split(';').next()).unwrap_or_default();
    if kind.trim().eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = said.map_or_else(|| "the body has no type".to_owned(), |said| format!("the body is {said:?}"));
    Err(Problem::caller(StatusCode::UNSUPPORTED_MEDIA_TYPE, "NotJson", message, "send Content-Type: application/json"))
}

fn timeout(headers: &HeaderMap, limits: &Limits) -> Result<Duration, Problem> {
    let Some(said) = headers.get(TIMEOUT) else { return Ok(Duration::from_millis(limits.call_timeout_ms)) };
    let ms = said.to_str().ok().and_then(|said| said.parse::<u64>().ok());
    match ms.filter(|ms| (1..=limits.call_timeout_ms).contains(ms)) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => {
            let message = format!("Catena-Timeout-Ms is {said:?}");
            let help = format!("give milliseconds, from 1 to {} (call_timeout_ms)", limits.call_timeout_ms);
            Err(Problem::caller(StatusCode::BAD_REQUEST, "BadTimeout", message, &help))
        }
    }
}

fn too_large(limits: &Limits) -> Problem {
    let message = format!("the body has more than {} bytes (body_bytes_max)", limits.body_bytes_max);
    Problem::caller(StatusCode::PAYLOAD_TOO_LARGE, "BodyTooLarge", message, "send less, or let a service hold the data")
}

fn bad_json(message: String) -> Problem {
    Problem::caller(
        StatusCode::BAD_REQUEST,
        "BadJson",
        message,
        "send one JSON value; bytes are {\"$bytes\": \"BASE64\"}",
    )
}
