//! One request, from its path to its answer.

use std::{net::IpAddr, sync::Arc};

use catena::Client;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, body::Incoming, header};

use crate::{
    answers::{self, Answers},
    asking::{Asked, Target},
    blobs::{Blobs, Giver, Wanted, Whose},
    charge::Memory,
    events::Events,
    files::{self, Files},
    limits::Limits,
    listing,
    offer::{Named, Offer},
    origins::Origins,
    problem::Problem,
    reply::{self, Body},
    visitors::{Pass, Visitors, What},
};

/// The client library for browsers.
const CATENA_JS: &str = include_str!("catena.js");

/// What is needed to answer any request.
pub(crate) struct Door {
    pub(crate) client: Client,
    pub(crate) offers: Vec<Offer>,
    pub(crate) functions: Vec<Named>,
    pub(crate) origins: Origins,
    pub(crate) files: Option<Files>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) memory: Memory,
    pub(crate) visitors: Visitors,
    pub(crate) blobs: Arc<Blobs>,
}

impl Door {
    /// Answers a request from this address.
    pub(crate) async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Response<Body> {
        let asker = match self.origins.asker(request.uri(), request.headers()) {
            Ok(asker) => asker,
            Err(problem) => return problem.into(),
        };
        if request.method() == Method::OPTIONS {
            let mut response = reply::empty(StatusCode::NO_CONTENT);
            asker.preflight(response.headers_mut());
            return response;
        }
        let whose = Whose::of(from, &asker);
        let mut response = self.enter(request, from, whose).await.unwrap_or_else(Response::from);
        asker.allow(response.headers_mut());
        response
    }

    async fn enter(&self, request: Request<Incoming>, from: IpAddr, whose: Whose) -> Result<Response<Body>, Problem> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().trim_start_matches('/').to_owned();
        let target = match path.split_once('/') {
            Some(("call", rest)) => Some(Target::call(rest, &self.offers)),
            Some(("run", rest)) => Some(Target::chain(rest, &self.functions)),
            _ => None,
        };
        let Some(target) = target else {
            if !matches!(head.method, Method::GET | Method::HEAD) {
                return Err(not_allowed(&head.method, "GET"));
            }
            return match path.strip_prefix("blob/") {
                Some(address) => {
                    let wanted =
                        Wanted { address, whose: &whose, head: head.method == Method::HEAD, headers: &head.headers };
                    self.blobs.get(wanted, self.pass(from)?, &self.memory).await
                }
                None => self.get(&path, from).await,
            };
        };
        let blobs = Giver::new(&self.blobs, whose);
        if head.method != Method::POST {
            return Err(not_allowed(&head.method, "POST"));
        }
        let pass = self.pass(from)?;
        let asked = Asked::read(target?, &head.headers, body, &self.limits, &self.memory).await?;
        if wants_events(&head.headers) {
            let answers = Answers::of(&self.client, &asked);
            return Ok(Events::response(answers, Arc::clone(&self.limits), (self.memory.clone(), blobs), pass));
        }
        self.single(asked, blobs, pass).await
    }

    /// The single, complete answer.
    async fn single(&self, asked: Asked, blobs: Giver, _pass: Pass) -> Result<Response<Body>, Problem> {
        let value = answers::only(&self.client, asked).await.map_err(|why| Problem::from(&why))?;
        let bytes_max = self.limits.reply_bytes_max;
        match self.memory.json(&value, bytes_max, ["", ""], &blobs).await {
            Some(json) => Ok(reply::whole(StatusCode::OK, "application/json", json)),
            None => Err(Problem::too_large(format!("the answer has more than {bytes_max} bytes (reply_bytes_max)"))),
        }
    }

    async fn get(&self, path: &str, from: IpAddr) -> Result<Response<Body>, Problem> {
        match (path, &self.files) {
            ("catena.js", _) => Ok(files::file("text/javascript; charset=utf-8", CATENA_JS)),
            ("openapi.json", _) => {
                let _pass = self.pass(from)?;
                let services = self.client.services().await;
                let listed = listing::openapi(&self.offers, &self.functions, &services);
                Ok(reply::whole(StatusCode::OK, "application/json", listed.to_string()))
            }
            (path, Some(files)) => files.get(path, &self.limits, &self.memory).await,
            (path, None) => {
                let message = format!("there is no /{path}: this gateway serves no files");
                let help = "GET /openapi.json lists what is offered; whoever runs the gateway can serve a page: catena gateway --files DIR";
                Err(Problem::caller(StatusCode::NOT_FOUND, "NotFound", message, help))
            }
        }
    }

    fn pass(&self, from: IpAddr) -> Result<Pass, Problem> {
        let max = self.limits.streams_per_address_max;
        self.visitors
            .enter(from, What::Stream, max)
            .ok_or_else(|| Problem::overloaded(format!("{from} has {max} calls under way (streams_per_address_max)")))
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains("text/event-stream"))
}

fn not_allowed(method: &Method, allowed: &'static str) -> Problem {
    let message = format!("{method} is not for this");
    let help = format!("use {allowed}");
    Problem::caller(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, &help)
}
