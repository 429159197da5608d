//! `catena gateway`.

use std::{path::PathBuf, time::Duration};

use catena::{Client, NodeBuilder};
use catena_gateway::{Config, Gateway, GatewayError, Limits, Named, Offer, Origin};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::{
    connect::{self, At, Given},
    failure::Failure,
    output::{Output, Paint},
    sandbox,
    signals::Signals,
    source::Source,
    talk,
};

/// How long requests that are under way may take to end when the gateway closes.
const CLOSE_GRACE: Duration = Duration::from_millis(1_000);

const EXAMPLES: &str = "\
Examples:
  catena gateway --offer 'photos/*' --origin http://127.0.0.1:8000
  catena gateway --offer probe.mtv/echo --function tour=examples/tour.ts
  curl -N http://127.0.0.1:7480/call/probe.mtv/echo -H 'accept: text/event-stream' --json '\"hello\"'

In a page:
  import { replies } from \"http://127.0.0.1:7480/catena.js\";
  for await (const reply of replies(\"photos/search\", { keyword: \"tower\" })) show(reply);";

fn more_help() -> String {
    let lines: Vec<_> = Limits::names().chunks(3).map(|names| format!("  {}", names.join(", "))).collect();
    format!("{EXAMPLES}\n\nLimits, each set by --limit NAME=NUMBER:\n{}", lines.join("\n"))
}

/// Open the browser's door: calls and chains over HTTP, each reply as it comes
///
/// Offers nothing but what is named here, to no pages but its own and those of the origins named here. A browser that leaves cancels what it asked for. It
/// speaks plain HTTP: beyond this machine, put a server that speaks HTTPS before it. The word `ready` comes on standard output when it is open; it runs
/// until Ctrl-C, SIGTERM or SIGHUP.
#[derive(Clone, Debug, Args)]
#[command(after_help = more_help())]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    at: At,
    /// Where browsers reach it; port 0 lets the system choose
    #[arg(long, default_value = "127.0.0.1:7480", value_name = "HOST:PORT", value_hint = ValueHint::Other, value_parser = connect::address)]
    listen: String,
    /// Let browsers call SERVICE/FUNCTION, or each function of SERVICE/*; may be given more than once
    #[arg(long = "offer", value_name = "SERVICE/FUNCTION", value_hint = ValueHint::Other)]
    offers: Vec<Offer>,
    /// Let browsers run FILE as a chain, as /run/NAME; may be given more than once
    #[arg(long = "function", value_name = "NAME=FILE", value_hint = ValueHint::FilePath, value_parser = named_file)]
    functions: Vec<(String, PathBuf)>,
    /// Let pages of this origin ask, such as https://photos.example; may be given more than once
    #[arg(long = "origin", value_name = "SCHEME://HOST:PORT", value_hint = ValueHint::Url)]
    origins: Vec<Origin>,
    /// A name under which browsers reach it, besides addresses and localhost; may be given more than once
    #[arg(long = "host", value_name = "NAME", value_hint = ValueHint::Hostname)]
    hosts: Vec<String>,
    /// Serve the files of DIR, such as an application's page
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    files: Option<PathBuf>,
    /// Set a bound by its name; may be given more than once
    #[arg(long = "limit", value_name = "NAME=NUMBER", value_hint = ValueHint::Other)]
    limits: Vec<String>,
}

pub(crate) async fn run(args: &GatewayArgs, output: &Output) -> Result<(), Failure> {
    talk::listen(output);
    let mut limits = Limits::default();
    for text in &args.limits {
        let help = "`catena gateway --help` lists the limits";
        limits.set(text).map_err(|why| Failure::input("BadUsage", why.to_string(), help))?;
    }
    let sources = args.functions.iter().map(|(name, file)| Ok((name.clone(), Source::read(file)?)));
    let sources = sources.collect::<Result<Vec<_>, Failure>>()?;
    let mut signals = Signals::new()?;
    let sandbox = match sources.is_empty() {
        true => None,
        false => Some(signals.unless(sandbox::make(output)).await?),
    };
    let more = |client: NodeBuilder| client.given(sandbox, NodeBuilder::sandbox);
    let client = signals.unless(connect::connect(&args.at.connect, more, output)).await?;
    let gateway = signals.unless(open(args, limits, sources, &client)).await?;
    announce(args, &gateway, output)?;
    signals.next().await;
    let closing = async {
        gateway.close(CLOSE_GRACE).await;
        connect::close(client).await
    };
    signals.unless(closing).await
}

async fn open(
    args: &GatewayArgs,
    limits: Limits,
    sources: Vec<(String, Source)>,
    client: &Client,
) -> Result<Gateway, Failure> {
    let mut functions = Vec::with_capacity(sources.len());
    for (name, source) in sources {
        functions.push(Named { name, code: source.load(client).await? });
    }
    let GatewayArgs { listen, offers, origins, hosts, files, .. } = args.clone();
    let config = Config { listen, offers, functions, origins, hosts, files, limits };
    Gateway::open(client.clone(), config).await.map_err(|why| {
        let help = match &why {
            GatewayError::Listen(..) => {
                "name an address of this machine, with a port on which nothing listens: --listen 127.0.0.1:0 (any)"
            }
            GatewayError::Files(..) => "name a folder that can be read: --files DIR",
            GatewayError::Twice(_) => "give each another name: --function NAME=FILE",
            GatewayError::Limits(_) => "see the limits under `catena gateway --help`",
        };
        Failure::cannot_start(why.to_string(), help)
    })
}

fn announce(args: &GatewayArgs, gateway: &Gateway, output: &Output) -> Result<(), Failure> {
    let url = format!("http://{}", gateway.address());
    let offers: Vec<String> = args.offers.iter().map(ToString::to_string).collect();
    let functions: Vec<&str> = args.functions.iter().map(|(name, _)| name.as_str()).collect();
    if output.json {
        return output.json_line(&json!({ "ready": true, "url": url, "offers": offers, "functions": functions }));
    }
    output.data(&format!("gateway at {}", output.paint(Paint::Bold, &url)))?;
    for offer in &offers {
        output.data(&format!("  {url}/call/{offer}"))?;
    }
    for function in functions {
        output.data(&format!("  {url}/run/{function}"))?;
    }
    if offers.is_empty() && args.functions.is_empty() {
        output.warn("it offers nothing: name what browsers may ask for with --offer or --function");
    }
    output.talk(&format!("what it offers, as OpenAPI: {url}/openapi.json\nCtrl-C ends it"));
    output.data("ready")
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !name.contains('/') && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("write NAME=FILE, such as tour=examples/tour.ts".to_owned()),
    }
}
