//! Which pages may send requests: the gateway's own, and those of the configured origins (Fetch standard, "CORS protocol").

use std::{fmt, net::IpAddr, str::FromStr};

use hyper::{
    HeaderMap, StatusCode, Uri,
    header::{self, HeaderValue},
    http::uri::Authority,
};

use crate::problem::Problem;

/// An origin: `SCHEME://HOST`, with a port if it is not the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// What is no [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no origin: write SCHEME://HOST or SCHEME://HOST:PORT and nothing behind, such as https://photos.example; origins are allowed by name, never all of them"
)]
pub struct OriginError(String);

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let wrong = || OriginError(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        let said = format!("{scheme}://{authority}");
        // Browsers send an origin in lower case, without a user, a path or a slash.
        if text != said || authority.as_str().contains(['@', '*']) || text.chars().any(|c| c.is_ascii_uppercase()) {
            return Err(wrong());
        }
        Ok(Self(said))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A page of this gateway, or no page at all.
    Own,
    /// A page of a configured origin.
    Named(HeaderValue),
}

/// The origins and host names that are let in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    pub(crate) origins: Vec<Origin>,
    /// Names under which browsers reach the gateway, besides addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
}

impl Origins {
    /// Who asks.
    ///
    /// # Errors
    /// The page is of an origin that was not configured, or reached the gateway by a host name that is not its own.
    pub(crate) fn asker(&self, uri: &Uri, headers: &HeaderMap) -> Result<Asker, Problem> {
        let host = self.host(uri, headers)?;
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(Asker::Own) };
        if origin.as_bytes() == format!("http://{host}").as_bytes() {
            return Ok(Asker::Own);
        }
        match self.origins.iter().any(|named| named.0.as_bytes() == origin.as_bytes()) {
            true => Ok(Asker::Named(origin.clone())),
            false => {
                let shown = String::from_utf8_lossy(origin.as_bytes()).into_owned();
                let message = format!("pages of {shown:?} may not ask here");
                let help = "whoever runs the gateway can let them: catena gateway --origin SCHEME://HOST:PORT";
                Err(Problem::caller(StatusCode::FORBIDDEN, "ForeignOrigin", message, help))
            }
        }
    }

    /// With a name that anybody can point here, a foreign page could pass for one of the gateway's own (DNS rebinding); an address is safe.
    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Authority, Problem> {
        let named = headers.get(header::HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let Some(authority) = uri.authority().cloned().or(named) else {
            let help = "send a Host header, as HTTP/1.1 asks";
            return Err(Problem::caller(StatusCode::BAD_REQUEST, "NoHost", "the request names no host", help));
        };
        let host = authority.host();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let local = host == "localhost" || host.ends_with(".localhost");
        if address || local || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            return Ok(authority);
        }
        let message = format!("{host:?} is no name of this gateway");
        let help = "whoever runs it can say that it is: catena gateway --host NAME";
        Err(Problem::caller(StatusCode::MISDIRECTED_REQUEST, "UnknownHost", message, help))
    }
}

impl Asker {
    /// Tells the browser that the page may read the answer.
    pub(crate) fn allow(&self, headers: &mut HeaderMap) {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Self::Named(origin) = self {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("accept-ranges, content-range"),
            );
        }
    }

    /// Answers a preflight request.
    pub(crate) fn preflight(&self, headers: &mut HeaderMap) {
        self.allow(headers);
        if matches!(self, Self::Named(_)) {
            let of = HeaderValue::from_static;
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, of("GET, HEAD, POST"));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, of("accept, content-type, catena-timeout-ms, range"));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, of("600"));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[track_caller]
    fn check(host: Option<&str>, origin: Option<&str>, expected: Result<bool, &str>) {
        let named =
            Origins { origins: vec!["https://photos.example".parse().unwrap()], hosts: vec!["gate.example".into()] };
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            value.map(|value| headers.insert(name, value.parse().unwrap()));
        }
        let asker = named.asker(&"/call/a/b".parse().unwrap(), &headers);
        let got = asker.map(|asker| asker != Asker::Own).map_err(|problem| problem.name.clone());
        assert_eq!(got, expected.map_err(str::to_owned), "{host:?} {origin:?}");
    }

    #[test]
    fn pages_of_foreign_origins_are_refused() {
        check(Some("127.0.0.1:7480"), None, Ok(false));
        check(Some("127.0.0.1:7480"), Some("http://127.0.0.1:7480"), Ok(false));
        check(Some("[::1]:7480"), Some("http://[::1]:7480"), Ok(false));
        check(Some("gate.example"), Some("http://gate.example"), Ok(false));
        check(Some("127.0.0.1:7480"), Some("https://photos.example"), Ok(true));
        check(Some("127.0.0.1:7480"), Some("http://photos.example"), Err("ForeignOrigin"));
        check(Some("127.0.0.1:7480"), Some("https://photos.example.evil"), Err("ForeignOrigin"));
        check(Some("127.0.0.1:7480"), Some("http://127.0.0.1:7481"), Err("ForeignOrigin"));
        check(Some("127.0.0.1:7480"), Some("null"), Err("ForeignOrigin"));
        check(Some("evil.example:7480"), Some("http://evil.example:7480"), Err("UnknownHost"));
        check(None, None, Err("NoHost"));
    }

    #[test]
    fn an_origin_is_written_as_browsers_send_it() {
        for right in ["https://photos.example", "http://127.0.0.1:8000", "http://[::1]:8000"] {
            assert_eq!(right.parse::<Origin>().unwrap().to_string(), right);
        }
        for wrong in [
            "*",
            "null",
            "photos.example",
            "https://*.example",
            "https://a/",
            "https://a/b",
            "https://A.example",
            "ftp://a",
            "http://u@a",
            "",
        ] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }
}
