//! Moments as text (ISO 8601, as JavaScript's `toISOString` writes them).

const MS_PER_DAY: i64 = 86_400_000;
/// Beyond this JavaScript has no dates either (ECMA-262, time values).
const MS_MAX: f64 = 8.64e15;

/// Seconds since the Unix epoch as text; what is not a valid date is shown as the number that it is.
pub(super) fn iso(seconds: f64) -> String {
    let ms = (seconds * 1_000.0).round();
    if !ms.is_finite() || ms.abs() > MS_MAX {
        return format!("{seconds} s since 1970");
    }
    let ms = ms as i64;
    let (year, month, day) = civil(ms.div_euclid(MS_PER_DAY));
    let of_day = ms.rem_euclid(MS_PER_DAY);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    let year = match year {
        0..=9_999 => format!("{year:04}"),
        _ => format!("{}{:06}", if year < 0 { '-' } else { '+' }, year.abs()),
    };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Year, month and day of a count of days since 1970, in the proleptic Gregorian calendar. Years begin in March here, so that the leap day
/// comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_TO_1970: i64 = 719_468;
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_javascript_writes_them() {
        for (seconds, text) in [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (1_709_210_096.789, "2024-02-29T12:34:56.789Z"),
            (-0.001, "1969-12-31T23:59:59.999Z"),
            (253_402_300_800.0, "+010000-01-01T00:00:00.000Z"),
            (-62_198_755_200.0, "-000001-01-01T00:00:00.000Z"),
            (f64::INFINITY, "inf s since 1970"),
        ] {
            assert_eq!(iso(seconds), text);
        }
    }
}
