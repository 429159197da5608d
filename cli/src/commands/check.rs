//! `catena check FILE`.

use std::path::{Path, PathBuf};

use catena::{Hash, ServiceEntry};
use catena_script::{FoundCall, Target};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::{
    config::NodeFile,
    connect::{self, At},
    exit::Exit,
    failure::Failure,
    nearest::did_you_mean,
    output::{Output, Paint, printable},
    sandbox,
    signals::Signals,
    source::Source,
};

/// Check a function without running it, or a node's file without starting it
///
/// A function is parsed, its types are taken away, and it is loaded into a sandbox as any node would load it. With --connect, the services
/// that it calls by name are looked up; if one is missing, the check fails. For a node's file, its meaning is told: whose code runs
/// there, as whom its services act, what is kept; nothing is opened, so the files that it names may not exist yet.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  catena check hello.ts\n  catena check hello.ts --connect 127.0.0.1:7400\n  catena check mtv.toml"
)]
pub(crate) struct Check {
    /// The function: .ts, .mts, .js, .mjs or .wasm; or the node's file: .toml
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Ask this node for the services that the function calls
    #[arg(long, value_name = "HOST:PORT", value_hint = ValueHint::Other, value_parser = connect::address)]
    connect: Option<String>,
}

pub(crate) async fn run(args: &Check, output: &Output) -> Result<(), Failure> {
    if args.file.extension().is_some_and(|extension| extension == "toml") {
        if args.connect.is_some() {
            let message = "a node's file calls no services: --connect is for functions";
            return Err(Failure::input("BadUsage", message, "leave --connect out"));
        }
        return check_node(&args.file, output);
    }
    let source = Source::read(&args.file)?;
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(output)).await?;
    let hash = signals.unless(source.image(&sandbox)).await?.code();
    let services = match args.connect.clone().map(|connect| At { connect }) {
        None => None,
        Some(at) => Some(connect::with(at.connect(output), async |client| Ok(client.services().await)).await?),
    };
    let checked: Vec<_> = source.calls.iter().map(|call| (call, whereabouts(call, services.as_deref()))).collect();
    let wrong = checked.iter().any(|(_, found)| matches!(found, Whereabouts::Missing { .. }));
    if output.json {
        let calls: Vec<_> = checked.iter().map(|(call, found)| found.json(call)).collect();
        let facts = json!({ "file": source.shown(), "ok": !wrong, "hash": hash.to_string(), "bytes": source.bytes.len(), "calls": calls });
        output.json_line(&facts)?;
    } else {
        show(&source, hash, &checked, output)?;
    }
    if wrong { Err(Failure::Told(Exit::BadInput)) } else { Ok(()) }
}

fn check_node(file: &Path, output: &Output) -> Result<(), Failure> {
    let meaning = NodeFile::read(file)?.meaning();
    let shown = file.display().to_string();
    if output.json {
        let means: Vec<_> = meaning.iter().map(|(what, means)| json!({ "what": what, "means": means })).collect();
        return output.json_line(&json!({ "file": shown, "ok": true, "node": means }));
    }
    output.data(&output.paint(Paint::Bold, &format!("{}: a node", printable(&shown))))?;
    output.table(["what", "means"], meaning.into_iter().map(|(what, means)| [what, means]))
}

/// Whether a call's target exists.
enum Whereabouts {
    /// Not looked up, or a target that is computed only when the function runs.
    Unknown,
    At(String),
    Missing {
        what: String,
        help: String,
    },
}

fn whereabouts(call: &FoundCall, services: Option<&[ServiceEntry]>) -> Whereabouts {
    let Target::Literal(target) = &call.target else { return Whereabouts::Unknown };
    let Some((service, function)) = target.split_once('/') else {
        let (what, help) = (format!("{target:?} is not of the form service/function"), "write it so".to_owned());
        return Whereabouts::Missing { what, help };
    };
    let Some(services) = services else { return Whereabouts::Unknown };
    let otherwise = "`catena ls` shows every service with its functions";
    let Some(entry) = services.iter().find(|entry| entry.service == service) else {
        let known = services.iter().map(|entry| entry.service.as_str());
        let help = did_you_mean(service, known, otherwise);
        return Whereabouts::Missing { what: format!("no node serves {service}"), help };
    };
    if entry.functions.iter().any(|known| known == function) {
        return Whereabouts::At(entry.node.name.clone());
    }
    let help = did_you_mean(function, entry.functions.iter().map(String::as_str), otherwise);
    Whereabouts::Missing { what: format!("{service} has no function {function}"), help }
}

impl Whereabouts {
    fn json(&self, call: &FoundCall) -> serde_json::Value {
        let mut json = json!({ "target": null, "line": call.line, "column": call.column });
        if let Target::Literal(target) = &call.target {
            json["target"] = target.as_str().into();
        }
        match self {
            Self::Unknown => {}
            Self::At(node) => json["node"] = node.as_str().into(),
            Self::Missing { what, help } => json["missing"] = json!({ "message": what, "help": help }),
        }
        json
    }
}

fn show(source: &Source, hash: Hash, checked: &[(&FoundCall, Whereabouts)], output: &Output) -> Result<(), Failure> {
    for (call, found) in checked {
        if let Whereabouts::Missing { what, help } = found {
            output.failure(&Failure::input("NotServed", what, help).at(source.at(call.line, call.column)));
        }
    }
    let facts = format!("{}: {} bytes, hash {hash}", printable(&source.shown()), source.bytes.len());
    output.data(&output.paint(Paint::Bold, &facts))?;
    if checked.is_empty() {
        return Ok(());
    }
    let rows = checked.iter().map(|(call, found)| {
        let found = match found {
            Whereabouts::Unknown => String::new(),
            Whereabouts::At(node) => format!("at {node}"),
            Whereabouts::Missing { .. } => "missing".to_owned(),
        };
        [format!("{}:{}", call.line, call.column), call.target.to_string(), found]
    });
    output.table(["where", "calls", ""], rows)
}
