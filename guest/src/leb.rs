//! LEB128, the encoding of integers in continuations.

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The mask makes the cast lossless.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one integer from the front; accepts its shortest form only, so that each continuation has one encoding.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    take_long(bytes)
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        let shift = 7 * u32::try_from(index).ok()?;
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte < 0x80 {
            if byte == 0 && index > 0 {
                return None;
            }
            *bytes = bytes.get(index + 1..)?;
            return Some(value);
        }
    }
    None
}

/// [`take`], as a 32-bit value.
#[inline]
pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).and_then(|value| u32::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(value: u64, tail: Vec<u8>) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.extend_from_slice(&tail);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(rest, tail.as_slice());
        }

        #[test]
        fn only_the_shortest_form_is_taken(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            if let Some(value) = take(&mut rest) {
                let mut again = Vec::new();
                put(&mut again, value);
                prop_assert_eq!(&bytes[..bytes.len() - rest.len()], again.as_slice());
            }
        }
    }

    #[test]
    fn refuses_what_is_too_long_or_cut() {
        for bytes in [&[][..], &[0x80], &[0x80, 0], &[0xff; 10], &[0xff; 11]] {
            assert_eq!(take(&mut &*bytes), None, "{bytes:x?}");
        }
    }
}
