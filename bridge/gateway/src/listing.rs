//! What is offered, as OpenAPI 3.1: for people, and for tools that make clients of it.

use std::collections::{BTreeMap, BTreeSet};

use catena::ServiceEntry;
use serde_json::{Value, json};

use crate::offer::{Named, Offer};

/// The document. For `SERVICE/*` it lists the functions that the nodes currently announce.
pub(crate) fn openapi(offers: &[Offer], functions: &[Named], services: &[ServiceEntry]) -> Value {
    let told = services.iter().flat_map(|entry| {
        let of = |function: &String| (entry.service.clone(), function.clone());
        entry.functions.iter().map(of).collect::<Vec<_>>()
    });
    let told = told.filter(|(service, function)| offers.iter().any(|offer| offer.covers(service, function)));
    let named = offers.iter().filter_map(Offer::named).map(|(service, function)| (service.into(), function.into()));
    let calls: BTreeSet<(String, String)> = told.chain(named).collect();
    let mut paths = BTreeMap::new();
    for (service, function) in calls {
        let kinds = services.iter().filter(|entry| entry.service == service).map(|entry| &entry.kinds);
        let repeatable = kinds.clone().any(|kinds| kinds.repeatable.contains(&function));
        let summary = format!("Calls {service}/{function}");
        paths.insert(format!("/call/{service}/{function}"), post(&summary, repeatable));
    }
    for named in functions {
        let mut chain = post(&format!("Runs {} as a chain", named.name), false);
        chain["post"]["x-catena-hash"] = named.code.hash().to_string().into();
        paths.insert(format!("/run/{}", named.name), chain);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Catena gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What browsers may ask for here. With `Accept: text/event-stream`, each reply is an event `reply`, as it comes; the last event is `end`. A blob in a reply has a `url`, good for its bytes once. Pages: import { replies } from \"/catena.js\".",
        },
        "paths": paths,
        "components": { "schemas": { "Problem": {
            "type": "object",
            "required": ["status", "title", "name", "detail", "fault", "help"],
            "properties": {
                "status": { "type": "integer" },
                "title": { "type": "string" },
                "name": { "type": "string", "description": "for programs" },
                "detail": { "type": "string", "description": "what happened, to what" },
                "fault": { "enum": ["caller", "guest", "service", "node", "network"], "description": "who has to change something" },
                "help": { "type": "string", "description": "what to do next" },
            },
        } } },
    })
}

fn post(summary: &str, repeatable: bool) -> Value {
    json!({ "post": {
        "summary": summary,
        "x-catena-repeatable": repeatable,
        "parameters": [{
            "name": "Catena-Timeout-Ms",
            "in": "header",
            "required": false,
            "schema": { "type": "integer", "minimum": 1 },
        }],
        "requestBody": { "content": { "application/json": { "schema": {} } } },
        "responses": {
            "200": {
                "description": "the answer, or each reply as it comes",
                "content": { "application/json": { "schema": {} }, "text/event-stream": { "schema": { "type": "string" } } },
            },
            "default": {
                "description": "what went wrong",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            },
        },
    } })
}
