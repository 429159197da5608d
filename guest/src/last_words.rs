//! What a trapped guest reports about the trap: text from a memory in an unknown state.

/// The most bytes of it that are read; the rest is left out.
pub(crate) const LAST_WORDS_BYTES_MAX: usize = 1 << 10;

/// The text at `(address << 32) | length`. `None`: it lies outside the memory, or is empty.
pub(crate) fn read(memory: &[u8], packed: u64) -> Option<String> {
    let (address, length) = ((packed >> 32) as usize, packed as u32 as usize);
    let bytes = memory.get(address..)?.get(..length.min(LAST_WORDS_BYTES_MAX))?;
    let text: String = String::from_utf8_lossy(bytes).chars().map(printable).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Keeps the text on one line and in its reading direction.
fn printable(c: char) -> char {
    match c {
        '\u{2028}' | '\u{2029}' => ' ',
        c if c.is_control() => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: u64, length: u64) -> u64 {
        address << 32 | length
    }

    #[test]
    fn any_answer_gives_short_printable_text_or_none() {
        let memory = b"....on\npurpose \x1b[2J\xff\xe2\x80\xae   \0".as_slice();
        let length = memory.len() as u64;
        assert_eq!(read(memory, at(4, 10)).as_deref(), Some("on purpose"));
        assert_eq!(read(memory, at(4, length - 4)).as_deref(), Some("on purpose  [2J\u{fffd}\u{fffd}"));
        for nothing in [
            0,
            at(4, 0),
            at(length - 4, 4),
            at(length, 0),
            at(length, 1),
            at(4, length - 3),
            at(0, u32::MAX.into()),
            u64::MAX,
        ] {
            assert_eq!(read(memory, nothing), None, "{nothing:#x}");
        }
    }

    #[test]
    fn what_is_long_is_cut() {
        let memory = vec![b'x'; 2 * LAST_WORDS_BYTES_MAX];
        for length in [LAST_WORDS_BYTES_MAX as u64, LAST_WORDS_BYTES_MAX as u64 + 1, u32::MAX.into()] {
            assert_eq!(read(&memory, at(1, length)).map(|text| text.len()), Some(LAST_WORDS_BYTES_MAX));
        }
    }
}
