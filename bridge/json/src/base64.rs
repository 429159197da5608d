//! Base64 (RFC 4648 section 4): how bytes stand in JSON.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as text, with padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place)) & 63;
            text.push(if place <= group.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

/// Text as bytes; `None` if it is not base64. Padding may be left out.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let padding = text.len() - text.trim_end_matches('=').len();
    let text = text.trim_end_matches('=').as_bytes();
    if padding > 2 || text.len() % 4 == 1 || (padding > 0 && !(text.len() + padding).is_multiple_of(4)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0_u32;
        for &letter in group {
            let sextet = ALPHABET.iter().position(|&known| known == letter)?;
            bits = bits << 6 | u32::try_from(sextet).ok()?;
        }
        bits <<= 6 * (4 - group.len());
        let whole = bits.to_be_bytes();
        bytes.extend_from_slice(whole.get(1..group.len())?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in vectors {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        // Section 10 has no vector with the last two letters.
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["A", "A===", "ab!d", "Zg=", "=", "Z==g"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode("Zg").as_deref(), Some(&b"f"[..]));
    }
}
