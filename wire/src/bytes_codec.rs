//! `#[cbor(with = "...")]` helpers: bounded names and bounded lists.

/// Names: text of at most [`crate::NAME_BYTES_MAX`] bytes.
pub(crate) mod name {
    use alloc::string::{String, ToString};

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        name: &str,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.str(name)?.ok()
    }

    pub(crate) fn decode<'b, C>(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<String, minicbor::decode::Error> {
        let name = d.str()?;
        if name.len() > crate::NAME_BYTES_MAX {
            return Err(minicbor::decode::Error::message("name longer than 256 bytes"));
        }
        Ok(name.to_string())
    }
}

/// A list of at most `max` names.
macro_rules! bounded_names {
    ($name:ident, $max:expr, $why:literal) => {
        pub(crate) mod $name {
            use alloc::{string::String, vec::Vec};

            pub(crate) fn encode<C, W: minicbor::encode::Write>(
                names: &[String],
                e: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                e.array(names.len() as u64)?;
                names.iter().try_for_each(|name| e.str(name)?.ok())
            }

            pub(crate) fn decode<'b, C>(
                d: &mut minicbor::Decoder<'b>,
                ctx: &mut C,
            ) -> Result<Vec<String>, minicbor::decode::Error> {
                let count = d.array()?.filter(|count| *count <= $max as u64);
                let count = count.ok_or_else(|| minicbor::decode::Error::message($why))?;
                (0..count).map(|_| super::name::decode(d, ctx)).collect()
            }
        }
    };
}

bounded_names!(path, crate::PATH_HOSTS_MAX, "path longer than 256 hosts");
bounded_names!(functions, crate::FUNCTIONS_MAX, "more than 4,096 functions of one service");

/// A list of known length, of at most `max` items.
macro_rules! bounded {
    ($name:ident, $item:ty, $max:expr, $why:literal) => {
        pub(crate) mod $name {
            use alloc::vec::Vec;
            use minicbor::{Decode, Encode};

            pub(crate) fn encode<C, W: minicbor::encode::Write>(
                items: &[$item],
                e: &mut minicbor::Encoder<W>,
                ctx: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                e.array(items.len() as u64)?;
                items.iter().try_for_each(|item| item.encode(e, ctx))
            }

            pub(crate) fn decode<'b, C>(
                d: &mut minicbor::Decoder<'b>,
                ctx: &mut C,
            ) -> Result<Vec<$item>, minicbor::decode::Error> {
                let count = d.array()?.filter(|count| *count <= $max as u64);
                let count = count.ok_or_else(|| minicbor::decode::Error::message($why))?;
                (0..count).map(|_| <$item>::decode(d, ctx)).collect()
            }
        }
    };
}

bounded!(stack, crate::Frame, crate::STACK_DEPTH_MAX, "more than 32 chains around a chain");
bounded!(counts, crate::BranchCount, crate::BRANCHES_MAX, "more than 4,096 branches");
bounded!(branches, crate::Branch, crate::BRANCHES_MAX, "more than 4,096 branches");
bounded!(console, crate::LogLine, crate::CONSOLE_LINES_MAX, "more than 4,096 lines of the console");
bounded!(told, crate::Told, crate::RECORDING_EVENTS_MAX, "more than 16,384 events in a recording");
bounded!(asked, crate::Asked, crate::RECORDING_EVENTS_MAX, "more than 16,384 calls in one turn");
