//! Figure 8 and Table 1 (section 5.2): the average arrival time at each site, in both ways, with and without a failure.

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use catena::Client;
use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};
use serde_json::{Value as Json, json};

use crate::{
    aat::{Asked, Way, ask},
    data::{Rows, Size, first_community, rows},
    federation::{Engine, Federation, Plan},
    sites::{self, COUNT, SITES, round_trip_us},
};

/// The site whose database is stopped: Singapore, as in the paper.
const FAILING: usize = 3;
const SEED: u64 = 20_110_301;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How often all of it.
    pub runs: usize,
    /// Communities that each site is asked for; the paper's 100.
    pub communities: u32,
    /// The same while a database is stopped: each request then takes as long as the database is waited for.
    pub communities_in_failure: u32,
    /// How long a database is waited for; the paper's 8 s.
    pub wait: Duration,
    /// What the databases hold.
    pub size: Size,
    /// Which databases.
    pub engine: Engine,
}

impl Scale {
    /// For figures.
    pub const WHOLE: Self = Self {
        runs: 3,
        communities: 100,
        communities_in_failure: 25,
        wait: Duration::from_secs(8),
        size: Size::PAPER,
        engine: Engine::MariaDb,
    };
    /// To see that it works: no figures.
    pub const SMOKE: Self = Self {
        runs: 1,
        communities: 4,
        communities_in_failure: 3,
        wait: Duration::from_millis(500),
        size: Size::SMALL,
        engine: Engine::Sqlite,
    };
}

/// The average arrival times at one site, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    standard: f64,
    replies: f64,
}

impl Pair {
    fn pct(self) -> f64 {
        100.0 * self.replies / self.standard
    }
}

/// The results of one run, for each site; `None` where a site cannot be asked.
struct Run {
    normal: Vec<Option<Pair>>,
    failure: Vec<Option<Pair>>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures all, and writes `corsair.csv` and `corsair.json`.
///
/// # Errors
/// The sites do not run, one of them cannot answer, or the folder cannot be written.
pub async fn measure(folder: &Path, scale: &Scale) -> Result<(), Failure> {
    let home = Federation::open(&plan(scale, scale.size)).await?;
    let mut runs = Vec::new();
    for run in 1..=scale.runs {
        eprintln!("corsair: run {run} of {}", scale.runs);
        let normal = at_all_sites(&home, scale.size, scale.communities, 1, None).await?;
        eprintln!("corsair: the same with {}'s database stopped", SITES[FAILING].place);
        home.run_database(FAILING, false);
        let failure = at_all_sites(&home, scale.size, scale.communities_in_failure, 6, Some(FAILING)).await;
        home.run_database(FAILING, true);
        runs.push(Run { normal, failure: failure? });
    }
    drop(home);
    let even_size = Size { at_home_pct: Size::EVEN.at_home_pct, ..scale.size };
    let even = Federation::open(&plan(scale, even_size)).await?;
    let mut evenly = Vec::new();
    for run in 1..=scale.runs {
        eprintln!("corsair: members spread evenly, run {run} of {}", scale.runs);
        let normal = at_all_sites(&even, even_size, scale.communities, 1, None).await?;
        evenly.push(Run { normal, failure: Vec::new() });
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("corsair.csv"), table(&runs))?;
    std::fs::write(folder.join("corsair.json"), format!("{:#}\n", summary(scale, &runs, &evenly)))?;
    Ok(())
}

fn plan(scale: &Scale, size: Size) -> Plan {
    Plan { engine: scale.engine, size, seed: SEED, wait: scale.wait, topology: Some(Arc::new(sites::topology())) }
}

/// Asks every site for its first communities, all sites at the same time: each mostly waits, so they do not disturb each other.
async fn at_all_sites(
    federation: &Federation,
    size: Size,
    communities: u32,
    at_once: usize,
    without: Option<usize>,
) -> Result<Vec<Option<Pair>>, Failure> {
    let each = (0..COUNT).map(|site| async move {
        if without == Some(site) {
            return Ok(None);
        }
        let client = federation.client(site).await?;
        let first = first_community(site, size);
        let asked = (first..first + communities.min(size.communities)).map(|community| one(&client, site, community));
        let pairs: Vec<_> = stream::iter(asked).buffered(at_once).try_collect().await?;
        let mean = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
        Ok::<_, Failure>(Some(Pair { standard: mean(|pair| pair.standard), replies: mean(|pair| pair.replies) }))
    });
    try_join_all(each).await
}

/// Asks both ways, one after the other. Both must bring the same numbers.
async fn one(client: &Client, site: usize, community: u32) -> Result<Pair, Failure> {
    let standard = ask(client, site, community, Way::Standard, |_, _| {}).await?;
    let replies = ask(client, site, community, Way::Replies, |_, _| {}).await?;
    let sorted = |asked: &Asked| {
        let mut phones: Vec<_> = asked.phones.iter().map(|(_, phone)| phone.clone()).collect();
        phones.sort();
        phones
    };
    if sorted(&standard) != sorted(&replies) || standard.missing.len() != replies.missing.len() {
        return Err(format!("the two ways brought different numbers of community {community}").into());
    }
    let aat = |asked: &Asked| asked.aat_ms().ok_or_else(|| format!("community {community} has no numbers"));
    Ok(Pair { standard: aat(&standard)?, replies: aat(&replies)? })
}

/// What the distances alone allow: for each site, the average round trip to a member in percent of the longest, both as means over its communities.
fn bound_pct(size: Size, communities: u32) -> Vec<f64> {
    let all = rows(SEED, size);
    let of_site = |site: usize| {
        let first = first_community(site, size);
        let (mut mean, mut longest) = (0.0, 0.0);
        for community in first..first + communities.min(size.communities) {
            let trips: Vec<f64> = trips(&all, site, community);
            mean += trips.iter().sum::<f64>() / trips.len() as f64;
            longest += trips.iter().copied().fold(0.0, f64::max);
        }
        100.0 * mean / longest
    };
    (0..COUNT).map(of_site).collect()
}

fn trips(all: &[Rows], site: usize, community: u32) -> Vec<f64> {
    let of = |(other, rows): (usize, &Rows)| {
        let members = rows.memberships.iter().filter(|(of, _)| *of == community).count();
        let trip = round_trip_us(site, site) + if other == site { 0 } else { round_trip_us(site, other) };
        std::iter::repeat_n(trip as f64, members)
    };
    all.iter().enumerate().flat_map(of).collect()
}

fn table(runs: &[Run]) -> String {
    let mut table =
        "site,place,normal_standard_ms,normal_replies_ms,failure_standard_ms,failure_replies_ms\n".to_owned();
    for (site, at) in SITES.iter().enumerate() {
        let median = |pair: fn(&Run, usize) -> Option<Pair>, of: fn(&Pair) -> f64| {
            let mut values: Vec<f64> = runs.iter().filter_map(|run| pair(run, site)).map(|pair| of(&pair)).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).map_or(String::new(), |value| format!("{value:.1}"))
        };
        let normal = |run: &Run, site: usize| run.normal.get(site).copied().flatten();
        let failure = |run: &Run, site: usize| run.failure.get(site).copied().flatten();
        let columns = [
            median(normal, |pair| pair.standard),
            median(normal, |pair| pair.replies),
            median(failure, |pair| pair.standard),
            median(failure, |pair| pair.replies),
        ];
        let _ = writeln!(table, "{},{},{}", at.id.to_uppercase(), at.place, columns.join(","));
    }
    table
}

fn summary(scale: &Scale, runs: &[Run], evenly: &[Run]) -> Json {
    let pct = |runs: &[Run], of: fn(&Run) -> &[Option<Pair>]| -> Vec<f64> {
        runs.iter().map(|run| rounded(geometric_mean(of(run).iter().flatten().map(|pair| pair.pct())))).collect()
    };
    let normal: fn(&Run) -> &[Option<Pair>] = |run| &run.normal;
    let even = Size { at_home_pct: Size::EVEN.at_home_pct, ..scale.size };
    let bound = |size| rounded(geometric_mean(bound_pct(size, scale.communities).into_iter()));
    json!({
        "values": {
            "corsair_pct": pct(runs, normal),
            "corsair_failure_pct": pct(runs, |run| &run.failure),
            "corsair_even_pct": pct(evenly, normal),
        },
        "corsair_bound_pct": bound(scale.size),
        "corsair_even_bound_pct": bound(even),
        "table_1": { "normal": row(runs, normal), "failure": row(runs, |run| &run.failure) },
        "paper": {
            "normal": { "standard_ms": [540.4, 783.8, 642.0], "replies_ms": [226.2, 357.4, 283.8], "pct": [39.0, 50.5, 43.9] },
            "failure": { "standard_ms": [3494.6, 4306.8, 3831.6], "replies_ms": [205.5, 349.3, 254.7], "pct": [5.1, 9.4, 6.6] },
        },
    })
}

/// Minimum, maximum and mean, over the sites, of the medians over the runs; for the percentages, the geometric mean.
fn row(runs: &[Run], of: fn(&Run) -> &[Option<Pair>]) -> Json {
    let at = |site: usize, value: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = runs.iter().filter_map(|run| of(run).get(site)?.as_ref().map(value)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let sites = |value: fn(&Pair) -> f64| -> Vec<f64> { (0..COUNT).filter_map(|site| at(site, value)).collect() };
    let ends = |values: &[f64], mean: f64| {
        let (least, most) = values
            .iter()
            .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), value| (least.min(*value), most.max(*value)));
        json!([rounded(least), rounded(most), rounded(mean)])
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (standard, replies) = (sites(|pair| pair.standard), sites(|pair| pair.replies));
    let pct = sites(|pair| pair.pct());
    json!({
        "standard_ms": ends(&standard, mean(&standard)),
        "replies_ms": ends(&replies, mean(&replies)),
        "pct": ends(&pct, geometric_mean(pct.iter().copied())),
    })
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    f64::exp(sum / count)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
