//! The encoding of functions in a repository, and the hash that identifies them.

use bytes::Bytes;
use catena_wire::{Hash, NAME_BYTES_MAX};
use minicbor::{Decoder, Encoder};

/// Version of the encoding below.
const VERSION: u8 = 1;

/// Which kind of code a function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// An ES module, run by the JavaScript engine with the stated hash.
    JavaScript,
    /// A WebAssembly module of the guest ABI (`guest/ABI.md`).
    Wasm,
}

/// A function as repositories and nodes exchange it. Its name is part of it, since stack traces show the name and so it is in the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Kind of code.
    pub kind: FunctionKind,
    /// The engine that runs it, by BLAKE3 of its bytes: for JavaScript only.
    pub engine: Option<Hash>,
    /// Shown in stack traces; at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// UTF-8 source, or a WebAssembly module.
    pub bytes: Bytes,
}

/// Why bytes are not a function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// Not CBOR of the right shape.
    #[error("not an encoded function: {0}")]
    Malformed(String),
    /// A version or kind that this build does not know.
    #[error("encoded function of unknown {what} {found}")]
    Unknown {
        /// `version` or `kind`.
        what: &'static str,
        /// The version or kind found.
        found: u64,
    },
    /// The name is too long.
    #[error("the function's name has {bytes} bytes, more than {NAME_BYTES_MAX}")]
    LongName {
        /// Its length.
        bytes: usize,
    },
}

impl Function {
    /// Encodes it as the CBOR array `[version, kind, engine hash or null, name, bytes]`.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut encoder = Encoder::new(Vec::with_capacity(self.bytes.len() + self.name.len() + 64));
        // Writing to memory cannot fail.
        let _ = self.put(&mut encoder);
        encoder.into_writer().into()
    }

    fn put(&self, e: &mut Encoder<Vec<u8>>) -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
        let kind = match self.kind {
            FunctionKind::JavaScript => 0,
            FunctionKind::Wasm => 1,
        };
        e.array(5)?.u8(VERSION)?.u8(kind)?;
        match self.engine {
            Some(hash) => e.bytes(&hash.0)?,
            None => e.null()?,
        };
        e.str(&self.name)?.bytes(&self.bytes)?.ok()
    }

    /// The reverse of [`Function::encode`].
    ///
    /// # Errors
    /// See [`FunctionError`].
    pub fn decode(encoded: &[u8]) -> Result<Self, FunctionError> {
        let mut d = Decoder::new(encoded);
        let function = Self::take(&mut d)?;
        if d.position() != encoded.len() {
            return Err(FunctionError::Malformed("bytes follow its end".to_owned()));
        }
        Ok(function)
    }

    fn take(d: &mut Decoder<'_>) -> Result<Self, FunctionError> {
        if d.array()? != Some(5) {
            return Err(FunctionError::Malformed("an array of 5 was expected".to_owned()));
        }
        let version = d.u64()?;
        if version != u64::from(VERSION) {
            return Err(FunctionError::Unknown { what: "version", found: version });
        }
        let kind = match d.u64()? {
            0 => FunctionKind::JavaScript,
            1 => FunctionKind::Wasm,
            found => return Err(FunctionError::Unknown { what: "kind", found }),
        };
        let engine = match d.datatype()? {
            minicbor::data::Type::Null => {
                d.null()?;
                None
            }
            _ => Some(d.decode::<Hash>()?),
        };
        let name = d.str()?;
        if name.len() > NAME_BYTES_MAX {
            return Err(FunctionError::LongName { bytes: name.len() });
        }
        Ok(Self { kind, engine, name: name.to_owned(), bytes: Bytes::copy_from_slice(d.bytes()?) })
    }

    /// The hash that identifies the function: BLAKE3 of its encoding.
    #[must_use]
    pub fn hash(&self) -> Hash {
        hash_of(&self.encode())
    }
}

impl From<minicbor::decode::Error> for FunctionError {
    fn from(error: minicbor::decode::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// BLAKE3 of `bytes`.
pub(crate) fn hash_of(bytes: &[u8]) -> Hash {
    Hash(*blake3::hash(bytes).as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(name in ".{0,40}", bytes: Vec<u8>, engine: Option<[u8; 32]>) {
            let function = Function {
                kind: if engine.is_some() { FunctionKind::JavaScript } else { FunctionKind::Wasm },
                engine: engine.map(Hash),
                name,
                bytes: bytes.into(),
            };
            prop_assert_eq!(Function::decode(&function.encode()).unwrap(), function);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            if let Ok(function) = Function::decode(&bytes) {
                prop_assert_eq!(Function::decode(&function.encode()).unwrap(), function);
            }
        }
    }

    #[test]
    fn an_unknown_version_or_kind_is_named() {
        let version = Function::decode(&[0x85, 0x09, 0x00, 0xf6, 0x60, 0x40]).unwrap_err();
        assert_eq!(version.to_string(), "encoded function of unknown version 9");
        let kind = Function::decode(&[0x85, 0x01, 0x07, 0xf6, 0x60, 0x40]).unwrap_err();
        assert_eq!(kind.to_string(), "encoded function of unknown kind 7");
    }
}
