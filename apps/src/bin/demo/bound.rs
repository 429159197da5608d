//! The least that physics allows: delays along the way, and the bytes over the narrowest link that they cross.

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

/// By a chain: Beijing to the source, on to the target with the file's bytes, home to Beijing.
pub(crate) fn copy_ms(file_bytes: u64) -> f64 {
    along(&["bei", "mtv", "mtv", "bei"]) + file_bytes as f64 / link("mtv", "mtv").1
}

/// By plain calls: so many there and back from Beijing, one after the other, and the file's bytes over that link once, since
/// what is written leaves while more arrives.
pub(crate) fn plain_copy_ms(round_trips: u32, file_bytes: u64) -> f64 {
    f64::from(round_trips) * along(&["bei", "mtv", "bei"]) + file_bytes as f64 / link("bei", "mtv").1
}

/// By a chain: Mountain View to the storage, on to the ads, home to Mountain View with the mail's bytes.
pub(crate) fn mail_ms(mail_bytes: u64) -> f64 {
    along(&["mtv", "bei", "bei", "mtv"]) + mail_bytes as f64 / link("bei", "mtv").1
}

/// By plain calls: there and back for the mail, there and back for the ad, and the mail's bytes each time.
pub(crate) fn plain_mail_ms(mail_bytes: u64) -> f64 {
    2.0 * (along(&["mtv", "bei", "mtv"]) + mail_bytes as f64 / link("bei", "mtv").1)
}

/// By a chain that carries the reference: Beijing by Redmond, Mountain View and Cambridge to the ads in Beijing and home; then the picture's bytes from
/// Redmond.
pub(crate) fn picture_ms(bytes: u64) -> f64 {
    along(&["bei", "red", "mtv", "cam", "bei", "bei"])
        + along(&["bei", "red", "bei"])
        + bytes as f64 / link("red", "bei").1
}

/// If each hop carried the picture.
pub(crate) fn picture_along_ms(bytes: u64) -> f64 {
    let way = ["red", "mtv", "cam", "bei", "bei"];
    let carried: f64 = way.windows(2).map(|pair| bytes as f64 / link(pair[0], pair[1]).1).sum();
    along(&["bei", "red", "mtv", "cam", "bei", "bei"]) + carried
}
