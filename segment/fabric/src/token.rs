//! What an owner tells a partner: where its port is, and the key to the memory there.

/// The version of the token's format.
const FORM: u8 = 1;
/// Bytes before the address: form, base, key.
const HEAD: usize = 1 + 8 + 8;
/// The longest, in bytes.
const TOKEN_BYTES_MAX: usize = 320;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) base: u64,
    pub(crate) key: u64,
    pub(crate) address: Vec<u8>,
}

impl Token {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        bytes.extend(self.base.to_le_bytes());
        bytes.extend(self.key.to_le_bytes());
        bytes.extend(&self.address);
        bytes
    }

    /// From whatever a partner sent.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > TOKEN_BYTES_MAX || bytes.first() != Some(&FORM) {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self { base: number(1)?, key: number(9)?, address: bytes.get(HEAD..)?.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn a_token_is_read_as_it_was_written_and_anything_else_is_none() {
        let token = Token { base: 7, key: u64::MAX, address: vec![2, 0, 1, 2] };
        assert_eq!(Token::decode(&token.encode()), Some(token.clone()));
        for cut in 0..super::HEAD {
            assert_eq!(Token::decode(&token.encode()[..cut]), None, "{cut} bytes");
        }
        assert_eq!(Token::decode(&[9; 100]), None);
        assert_eq!(Token::decode(&[1; 321]), None);
    }
}
