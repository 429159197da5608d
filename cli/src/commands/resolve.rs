//! `catena resolve ID`.

use std::time::Duration;

use catena::{ResolverAnswer, Sighting};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::{
    connect::{self, At},
    exit::Exit,
    failure::Failure,
    output::{Output, printable},
};

/// Say where a service is, as each resolver of a node has it
///
/// One line for each place that a resolver names, in the order in which the node asks them: the first that answers a call is the one that it uses. `age` is how long ago the
/// resolver learnt that; without one it asked just now. If none names a place, the exit code is 1.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  catena resolve files.mtv\n  catena resolve files.mtv --connect 10.0.0.7:7400 --json"
)]
pub(crate) struct Resolve {
    /// The service
    #[arg(value_name = "ID", value_hint = ValueHint::Other)]
    service: String,
    #[command(flatten)]
    at: At,
}

pub(crate) async fn run(args: &Resolve, output: &Output) -> Result<(), Failure> {
    let asked = connect::ask(args.at.connect(output), "asking the resolvers", output, async |client| {
        let said = client.resolve_there(&args.service).await;
        said.map_err(|why| Failure::unreachable(why.to_string(), "name another node with --connect HOST:PORT"))
    });
    let answers = asked.await?;
    let found = answers.iter().any(|answer| !answer.at.is_empty());
    if output.json {
        let answers: Vec<_> = answers.iter().map(as_json).collect();
        output.json_line(&json!({ "service": args.service, "resolvers": answers }))?;
    } else {
        show(args, &answers, found, output)?;
    }
    if found { Ok(()) } else { Err(Failure::Told(Exit::Exception)) }
}

fn show(args: &Resolve, answers: &[ResolverAnswer], found: bool, output: &Output) -> Result<(), Failure> {
    for ResolverAnswer { resolver, note, .. } in answers {
        if let Some(note) = note {
            output.talk(&printable(&format!("{resolver}: {note}")));
        }
    }
    if !found {
        output.talk(&printable(&format!("nobody is said to serve {}; `catena ls` shows what there is", args.service)));
    }
    output.table(["resolver", "node", "address", "run", "age"], answers.iter().flat_map(rows))
}

fn rows(answer: &ResolverAnswer) -> Vec<[String; 5]> {
    let age = answer.age_us.map_or_else(|| "asked now".to_owned(), |us| format!("{:.1?}", Duration::from_micros(us)));
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |node: &str, address: &Option<String>, run: &Option<String>| {
        [answer.resolver.clone(), node.to_owned(), or_dash(address), or_dash(run), age.clone()]
    };
    if answer.at.is_empty() {
        return vec![row("-", &None, &None)];
    }
    let sighted = |at: &Sighting| row(at.node.as_deref().unwrap_or("?"), &at.address, &run_of(at));
    answer.at.iter().map(sighted).collect()
}

fn run_of(at: &Sighting) -> Option<String> {
    at.run.map(|run| format!("{:016x}", run.0))
}

fn as_json(answer: &ResolverAnswer) -> serde_json::Value {
    let at = |at: &Sighting| json!({ "node": at.node, "address": at.address, "run": run_of(at) });
    json!({
        "resolver": answer.resolver,
        "age_us": answer.age_us,
        "at": answer.at.iter().map(at).collect::<Vec<_>>(),
        "note": answer.note,
    })
}
