//! `make corsair`: asks London for a community's phone numbers, by standard parallel calls and with replies as they come; then once more while
//! Singapore's database is stopped. With the argument `mariadb` each site has a real MariaDB server instead of an embedded SQLite; with `figures` it
//! measures (Figure 8, Table 1).
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc, time::Duration};

use catena_corsair::{
    aat::{Asked, Way, ask},
    data::{Size, first_community, rows},
    federation::{Engine, Federation, Plan},
    figures::{self, Scale},
    sites::{self, SITES},
};

/// How long a database is waited for here: the paper's 8 s would be long to watch.
const WAIT: Duration = Duration::from_secs(3);
const SEED: u64 = 20_110_301;
const LONDON: usize = 7;
const SINGAPORE: usize = 3;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "corsair [sqlite|mariadb]      asks London for a community's numbers in both ways
corsair figures DIR [--smoke] measures all sites: DIR/corsair.csv and DIR/corsair.json";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["sqlite"] => show(Engine::Sqlite).await,
        ["mariadb"] => show(Engine::MariaDb).await,
        ["figures", folder] => figures::measure(Path::new(folder), &Scale::WHOLE).await,
        ["figures", folder, "--smoke"] => figures::measure(Path::new(folder), &Scale::SMOKE).await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("corsair: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn show(engine: Engine) -> Result<(), Failure> {
    println!("Starting ten sites with a database each ({engine:?}), as far apart as the real places");
    let plan = Plan { engine, size: Size::PAPER, seed: SEED, wait: WAIT, topology: Some(Arc::new(sites::topology())) };
    let federation = Federation::open(&plan).await?;
    let client = federation.client(LONDON).await?;
    let community = community_with_singapore().ok_or("no community of London has members in Singapore")?;
    println!("\nA client in London asks London's site for the phone numbers of community {community}.");
    compare(&client, community).await?;
    println!("\nThe same, with Singapore's database stopped: each way waits {} s for it.", WAIT.as_secs());
    federation.run_database(SINGAPORE, false);
    compare(&client, community).await?;
    federation.run_database(SINGAPORE, true);
    Ok(())
}

/// A community of London's that also has members in Singapore.
fn community_with_singapore() -> Option<u32> {
    let own = first_community(LONDON, Size::PAPER)..first_community(LONDON + 1, Size::PAPER);
    let all = rows(SEED, Size::PAPER);
    let there =
        all.first()?.branches.iter().find(|(community, site)| own.contains(community) && *site == SINGAPORE as u32);
    there.map(|(community, _)| *community)
}

async fn compare(client: &catena::Client, community: u32) -> Result<(), Failure> {
    let standard = ask(client, LONDON, community, Way::Standard, |_, _| {}).await?;
    let mut seen = BTreeMap::new();
    println!("  replies as they come:");
    let replies = ask(client, LONDON, community, Way::Replies, |at, phone| {
        let place = SITES.get(phone.site as usize).map_or("nowhere", |site| site.place);
        if *seen.entry(place).and_modify(|count| *count += 1).or_insert(1) == 1 {
            println!("    {:>6.0} ms  {place:<20} {} {}", at.as_secs_f64() * 1e3, phone.phone, phone.name);
        }
    })
    .await?;
    tell("replies", &replies);
    tell("standard", &standard);
    Ok(())
}

fn tell(way: &str, asked: &Asked) {
    let aat = asked.aat_ms().unwrap_or(f64::NAN);
    let took = asked.took.as_secs_f64() * 1e3;
    println!(
        "  {way:<9} {:>3} numbers, on average after {aat:>6.0} ms; all there is after {took:>6.0} ms",
        asked.phones.len()
    );
    asked.missing.iter().for_each(|missing| println!("            missing: {}: {}", missing.name, missing.message));
}
