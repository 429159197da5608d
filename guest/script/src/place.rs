//! Where in a source: lines and columns as an editor counts them.

use swc_common::BytePos;

/// A place in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// The line, from 1. Lines end with a line feed.
    pub(crate) line: u32,
    /// The column, from 1, in characters (Unicode scalar values).
    pub(crate) column: u32,
}

impl Place {
    /// The places of many offsets, which rise, in one walk over the source.
    pub(crate) fn of_each(source: &str, offsets: impl Iterator<Item = usize>) -> impl Iterator<Item = Self> {
        let mut walked = 0;
        let mut place = Self { line: 1, column: 1 };
        offsets.map(move |offset| {
            let offset = source.floor_char_boundary(offset).max(walked);
            for character in source[walked..offset].chars() {
                place = match character {
                    '\n' => Self { line: place.line.saturating_add(1), column: 1 },
                    _ => Self { column: place.column.saturating_add(1), ..place },
                };
            }
            walked = offset;
            place
        })
    }
}

/// The offset in its source of a position that the parser gave. Each source is the only one in its source map, and
/// positions count from 1 there (0 is the parser's "nowhere").
pub(crate) fn offset(position: BytePos) -> usize {
    usize::try_from(position.0).unwrap_or(0).saturating_sub(1)
}
