//! Errors as browsers see them: whose fault it is and what to do (RFC 9457).

use catena::{Exception, Fault, exceptions as names};
use catena_json::Shown;
use hyper::StatusCode;
use serde::Serialize;

/// A problem, as JSON. `type` is left out: it is `about:blank`, and `name` says what a program needs to know.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(serialize_with = "number")]
    status: StatusCode,
    /// For people, in a word.
    title: &'static str,
    /// For programs: one of Catena's names, a service's own, or the gateway's.
    pub(crate) name: String,
    /// What happened, to what.
    detail: String,
    /// Who has to change something.
    fault: &'static str,
    /// What to do next.
    help: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<Details>,
}

/// Further details of an exception of a call or chain.
#[derive(Debug, Serialize)]
struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    path: Vec<String>,
    step: u32,
    /// Whether the call may have taken effect all the same.
    outcome_unknown: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<serde_json::Value>,
}

/// Longest part of an exception that is passed on, in bytes: a function may throw anything.
const TEXT_BYTES_MAX: usize = 16 << 10;

impl Problem {
    /// Whoever asked has to change something.
    pub(crate) fn caller(status: StatusCode, name: &str, detail: impl Into<String>, help: &str) -> Self {
        Self::of(status, name, Fault::Caller, detail.into(), help.to_owned())
    }

    /// The gateway cannot take on more.
    pub(crate) fn overloaded(detail: impl Into<String>) -> Self {
        let help = "try again in a moment; whoever runs the gateway can raise the limit named";
        Self::of(StatusCode::SERVICE_UNAVAILABLE, names::OVERLOADED, Fault::Node, detail.into(), help.to_owned())
    }

    /// More came back than the gateway passes on.
    pub(crate) fn too_large(detail: String) -> Self {
        let help = "have the service answer in smaller replies; whoever runs the gateway can raise the limit named";
        Self::of(StatusCode::BAD_GATEWAY, names::LIMIT_EXCEEDED, Fault::Service, detail, help.to_owned())
    }

    fn of(status: StatusCode, name: &str, fault: Fault, detail: String, help: String) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { status, title, name: name.to_owned(), detail, fault: fault.as_str(), help, exception: None }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// As JSON on one line.
    pub(crate) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|_| b"{}".to_vec())
    }
}

impl From<&Exception> for Problem {
    fn from(why: &Exception) -> Self {
        let mut problem = Self::of(status(why), &cut(&why.name), why.fault, cut(&why.message), help(why));
        let params = why.params.as_ref().filter(|params| params.as_bytes().len() <= TEXT_BYTES_MAX);
        problem.exception = Some(Details {
            target: why.target.as_deref().map(cut),
            path: why.path.clone(),
            step: why.step,
            outcome_unknown: why.unknown,
            params: params.and_then(|params| serde_json::to_value(Shown(params)).ok()),
        });
        problem
    }
}

fn status(why: &Exception) -> StatusCode {
    match why.name.as_str() {
        names::UNKNOWN_SERVICE | names::UNKNOWN_FUNCTION => StatusCode::NOT_FOUND,
        names::BLOB_LOST if why.fault == Fault::Caller => StatusCode::GONE,
        names::DEADLINE_EXCEEDED => StatusCode::GATEWAY_TIMEOUT,
        names::OVERLOADED | names::CANCELLED => StatusCode::SERVICE_UNAVAILABLE,
        _ => match why.fault {
            Fault::Caller => StatusCode::BAD_REQUEST,
            Fault::Guest => StatusCode::INTERNAL_SERVER_ERROR,
            Fault::Service | Fault::Node | Fault::Network => StatusCode::BAD_GATEWAY,
        },
    }
}

fn help(why: &Exception) -> String {
    let unknown = "; it may have taken effect: look there before asking again";
    let help = match (why.name.as_str(), why.fault) {
        (names::DEADLINE_EXCEEDED, _) => "allow more time (Catena-Timeout-Ms, up to the gateway's call_timeout_ms)",
        (names::OVERLOADED, _) => "ask again in a moment",
        (_, Fault::Caller) => "correct what was asked for, then ask again",
        (_, Fault::Guest) => "whoever wrote the function has to correct it",
        (_, Fault::Service) => "correct what the service was given",
        (_, Fault::Node) => "whoever runs the node finds more in its own messages",
        (_, Fault::Network) => "ask again when the nodes reach each other",
    };
    [help, if why.unknown { unknown } else { "" }].concat()
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}
