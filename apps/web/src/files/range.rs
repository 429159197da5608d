//! Which part of a file is wanted (RFC 9110, section 14).

use hyper::header::HeaderValue;

/// What a Range field asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// All of it: also where the field is none, or asks for several parts, which a server may do (section 14.2).
    Whole,
    /// From this byte up to, and without, that.
    Part { from: u64, to: u64 },
    /// Nothing that is there.
    Nowhere,
}

pub(super) fn wanted(range: &HeaderValue, bytes: u64) -> Wanted {
    let part = range.to_str().ok().and_then(|range| range.strip_prefix("bytes=")).map(str::trim);
    let Some((first, last)) = part.and_then(|part| part.split_once('-')) else { return Wanted::Whole };
    let (Some(first), Some(last)) = (number(first), number(last)) else { return Wanted::Whole };
    match (first, last) {
        (None, None) => Wanted::Whole,
        (None, Some(0)) => Wanted::Nowhere,
        (None, Some(_)) if bytes == 0 => Wanted::Nowhere,
        (None, Some(count)) => Wanted::Part { from: bytes.saturating_sub(count), to: bytes },
        (Some(from), Some(last)) if last < from => Wanted::Whole,
        (Some(from), _) if from >= bytes => Wanted::Nowhere,
        (Some(from), last) => Wanted::Part { from, to: last.map_or(bytes, |last| last.saturating_add(1).min(bytes)) },
    }
}

/// `Some(None)`: there is no number; `None`: it is not one. One that is too large for this machine is as large as can be.
fn number(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    let digits = text.bytes().all(|digit| digit.is_ascii_digit());
    digits.then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn parts_are_what_the_standard_says() {
        let part = |from, to| Wanted::Part { from, to };
        let cases = [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-", part(2, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-99", part(0, 10)),
            ("bytes=3-99999999999999999999999", part(3, 10)),
            ("bytes=9-9", part(9, 10)),
            ("bytes=10-", Wanted::Nowhere),
            ("bytes=99999999999999999999999-", Wanted::Nowhere),
            ("bytes=-0", Wanted::Nowhere),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=--1", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("", Wanted::Whole),
        ];
        for (range, expected) in cases {
            assert_eq!(wanted(&HeaderValue::from_str(range).unwrap(), 10), expected, "{range}");
        }
        assert_eq!(wanted(&HeaderValue::from_static("bytes=-1"), 0), Wanted::Nowhere);
    }
}
