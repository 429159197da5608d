//! The least that physics allows: one-way delays along the chain, and the payload over the narrowest bandwidth that it crosses.

use catena::Topology;

/// One-way delay from one site to another in milliseconds, and bandwidth in bytes per millisecond.
fn link(from: &str, to: &str) -> (f64, f64) {
    // A pair that the topology does not know would show as a bound that is not a number.
    let unknown = (f64::NAN, f64::NAN);
    Topology::paper()
        .between(from, to)
        .map_or(unknown, |shape| (shape.delay_us as f64 / 1e3, shape.bytes_per_s as f64 / 1e3))
}

fn along(sites: &[&str]) -> f64 {
    sites.windows(2).map(|pair| link(pair[0], pair[1]).0).sum()
}

/// Beijing to the source, on to the target with the file's bytes, home to Beijing.
pub(crate) fn copy_ms(file_bytes: u64) -> f64 {
    along(&["bei", "mtv", "mtv", "bei"]) + file_bytes as f64 / link("mtv", "mtv").1
}

/// Mountain View to the storage, on to the ads, home to Mountain View with the mail's bytes.
pub(crate) fn mail_ms(mail_bytes: u64) -> f64 {
    along(&["mtv", "bei", "bei", "mtv"]) + mail_bytes as f64 / link("bei", "mtv").1
}
