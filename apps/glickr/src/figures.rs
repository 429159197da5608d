//! What was measured: when each photo arrives, in either mode, for each keyword (Quatrain, Figures 9 and 10, Table 2).

use std::{
    fmt::Write as _,
    io,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use catena::{Client, Exception, from_value, to_value};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use crate::{
    ENGINES,
    engine::{Found, Query},
    front::FRONT,
    times,
};

/// What was measured for a keyword.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The keyword.
    pub keyword: &'static str,
    /// How many photos came; the same in both modes.
    pub photos: usize,
    /// The average arrival time of a photo, in milliseconds, multi-return.
    pub multi_ms: f64,
    /// The same, in standard mode.
    pub standard_ms: f64,
    /// The theoretical best for multi-return: photos arrive the moment their engine has them.
    pub ideal_ms: f64,
}

impl Measured {
    /// Multi-return as a percentage of standard.
    #[must_use]
    pub fn pct(&self) -> f64 {
        100.0 * self.multi_ms / self.standard_ms
    }
}

/// Measures these keywords, `at_once` at a time: an engine only waits, so they do not disturb each other.
///
/// # Errors
/// A search failed.
pub async fn measure(
    client: &Client,
    keywords: &[&'static str],
    at_once: usize,
    seed: &str,
    scale: f64,
    done: &AtomicUsize,
) -> Result<Vec<Measured>, Exception> {
    let each = keywords.iter().map(|keyword| async move {
        let measured = keyword_of(client, keyword, seed, scale).await;
        done.fetch_add(1, Ordering::Relaxed);
        measured
    });
    let measured: Vec<Option<Measured>> = stream::iter(each).buffered(at_once.max(1)).try_collect().await?;
    Ok(measured.into_iter().flatten().collect())
}

/// `None` if there is no photo of it: nothing arrives.
async fn keyword_of(
    client: &Client,
    keyword: &'static str,
    seed: &str,
    scale: f64,
) -> Result<Option<Measured>, Exception> {
    let query = Query { keyword: keyword.to_owned() };
    let (mut photos, mut multi, mut ideal) = (0, 0.0, 0.0);
    let began = Instant::now();
    let mut replies = client.replies(&format!("{FRONT}/search"), &query).await?;
    while let Some(reply) = replies.next().await {
        let found: Found = reply?.decode()?;
        let arrived_ms = began.elapsed().as_secs_f64() * 1e3;
        let count = found.photos.len();
        photos += count;
        multi += arrived_ms * count as f64;
        ideal += times::response_ms(seed, keyword, &found.engine) * scale * count as f64;
    }
    let began = Instant::now();
    let found: Vec<Found> =
        from_value(&client.call_with(FRONT, "standard", to_value(&query)?, &Default::default()).await?)?;
    let standard_ms = began.elapsed().as_secs_f64() * 1e3;
    let standard: usize = found.iter().map(|found| found.photos.len()).sum();
    assert_same(photos, standard, keyword)?;
    let average = |sum: f64| sum / photos as f64;
    Ok((photos > 0).then(|| Measured {
        keyword,
        photos,
        multi_ms: average(multi),
        standard_ms,
        ideal_ms: average(ideal),
    }))
}

/// Both modes must find the same photos, else they cannot be compared.
fn assert_same(multi: usize, standard: usize, keyword: &str) -> Result<(), Exception> {
    if multi == standard {
        return Ok(());
    }
    let message = format!("{keyword}: {multi} photos came multi-return, and {standard} in standard mode");
    Err(Exception::new("NotTheSame", catena::Fault::Service, message))
}

/// Writes `glickr.csv` (Figure 10), `glickr_times.csv` (Figure 9) and `glickr.json` (Table 2, with the paper's).
///
/// # Errors
/// The folder cannot be written to.
pub fn write(folder: &Path, measured: &[Measured], seed: &str, scale: f64) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut ordered = measured.to_vec();
    ordered.sort_by(|a, b| a.multi_ms.total_cmp(&b.multi_ms));
    let mut rows = "keyword,photos,multi_return_aat_ms,standard_aat_ms,pct,ideal_aat_ms\n".to_owned();
    for one in &ordered {
        let Measured { keyword, photos, multi_ms, standard_ms, ideal_ms } = one;
        let _ = writeln!(rows, "{keyword},{photos},{multi_ms:.1},{standard_ms:.1},{:.1},{ideal_ms:.1}", one.pct());
    }
    std::fs::write(folder.join("glickr.csv"), rows)?;
    let mut rows = "keyword,engine,response_ms\n".to_owned();
    for one in &ordered {
        for engine in ENGINES {
            let ms = times::response_ms(seed, one.keyword, engine.id) * scale;
            let _ = writeln!(rows, "{},{},{ms:.1}", one.keyword, engine.id);
        }
    }
    std::fs::write(folder.join("glickr_times.csv"), rows)?;
    std::fs::write(folder.join("glickr.json"), format!("{:#}\n", summary(&ordered, seed, scale)))
}

/// Table 2, and what `glickr_pct` is: the geometric mean over keywords of multi-return against standard.
#[must_use]
pub fn summary(measured: &[Measured], seed: &str, scale: f64) -> serde_json::Value {
    let row = |of: fn(&Measured) -> f64| {
        let all: Vec<f64> = measured.iter().map(of).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        json!({ "min": rounded(least(&all)), "max": rounded(most(&all)), "mean": rounded(mean) })
    };
    let pct: Vec<f64> = measured.iter().map(Measured::pct).collect();
    let ideal: Vec<f64> = measured.iter().map(|one| 100.0 * one.ideal_ms / one.standard_ms).collect();
    json!({
        "glickr_pct": rounded(geometric_mean(&pct)),
        "glickr_ideal_pct": rounded(geometric_mean(&ideal)),
        "glickr_keywords": measured.len(),
        "glickr_keywords_slower": pct.iter().filter(|pct| **pct > 100.0).count(),
        "seed": seed,
        "time_scale": scale,
        "table_2": {
            "standard_ms": row(|one| one.standard_ms),
            "multi_return_ms": row(|one| one.multi_ms),
            "pct": { "min": rounded(least(&pct)), "max": rounded(most(&pct)), "geomean": rounded(geometric_mean(&pct)) },
        },
        "paper": {
            "standard_ms": { "min": 842.0, "max": 9843.7, "mean": 2808.3 },
            "multi_return_ms": { "min": 831.6, "max": 3287.7, "mean": 1433.8 },
            "pct": { "min": 12.0, "max": 287.3, "geomean": 58.7 },
        },
        "note": "response times are drawn from a distribution fitted to the paper's averages; both modes have the same ones, where the paper asked the real Flickr twice",
    })
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
