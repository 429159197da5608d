//! Ranges of a body (RFC 9110, section 14): one range. A request for several is answered with the whole body, as section 14 allows.

use std::ops::Range;

use hyper::header::HeaderValue;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// These bytes.
    Of(Range<u64>),
    /// Bytes that do not exist.
    Nothing,
}

/// The part that a request asks for, of a body of this size.
pub(crate) fn part(said: Option<&HeaderValue>, size: u64) -> Part {
    let said = said.and_then(|said| said.to_str().ok()).and_then(|said| said.trim().strip_prefix("bytes="));
    let Some((first, last)) = said.and_then(|said| said.split_once('-')) else { return Part::Whole };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        // A number that is too large is beyond every end.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (number(first.trim()), number(last.trim()), first.trim().is_empty(), last.trim().is_empty()) {
        (Some(first), None, _, true) => first..size,
        (Some(first), Some(last), ..) if first <= last => first..last.saturating_add(1).min(size),
        (None, Some(count), true, _) => size.saturating_sub(count)..size,
        _ => return Part::Whole,
    };
    if range.is_empty() { Part::Nothing } else { Part::Of(range) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_range_is_understood_and_nonsense_is_the_whole() {
        let part = |said: &str, size| part(Some(&said.parse().unwrap()), size);
        for (said, range) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-5", 2..6),
            ("bytes=2-", 2..10),
            ("bytes=-3", 7..10),
            ("bytes=-30", 0..10),
            ("bytes=9-99999999999999999999999", 9..10),
            (" bytes=0-9", 0..10),
        ] {
            assert_eq!(part(said, 10), Part::Of(range), "{said}");
        }
        for said in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(part(said, 10), Part::Nothing, "{said}");
        }
        for said in
            ["bytes=5-2", "bytes=", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "bytes=+1-2", "lines=1-2", "bytes=--1"]
        {
            assert_eq!(part(said, 10), Part::Whole, "{said}");
        }
        assert_eq!((part("bytes=0-", 0), super::part(None, 0)), (Part::Nothing, Part::Whole));
    }
}
