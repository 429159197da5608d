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
        at_most(crate::NAME_BYTES_MAX, d, "name longer than 256 bytes")
    }

    pub(super) fn at_most(
        bytes_max: usize,
        d: &mut minicbor::Decoder<'_>,
        too_long: &'static str,
    ) -> Result<String, minicbor::decode::Error> {
        let text = d.str()?;
        if text.len() > bytes_max { Err(minicbor::decode::Error::message(too_long)) } else { Ok(text.to_string()) }
    }
}

/// `service/function`: two names and the slash between them.
pub(crate) mod target {
    use alloc::string::String;

    pub(crate) use super::name::encode;

    pub(crate) fn decode<'b, C>(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<String, minicbor::decode::Error> {
        super::name::at_most(2 * crate::NAME_BYTES_MAX + 1, d, "target longer than 513 bytes")
    }
}

/// The same, if there is one.
pub(crate) mod maybe_name {
    use alloc::string::String;

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        name: &Option<String>,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.encode(name)?.ok()
    }

    pub(crate) fn decode<'b, C>(
        d: &mut minicbor::Decoder<'b>,
        ctx: &mut C,
    ) -> Result<Option<String>, minicbor::decode::Error> {
        if d.datatype()? == minicbor::data::Type::Null {
            d.null()?;
            return Ok(None);
        }
        super::name::decode(d, ctx).map(Some)
    }
}

/// A node that many messages or records may refer to at once.
pub(crate) mod shared {
    use alloc::sync::Arc;
    use minicbor::{Decode, Encode};

    use crate::NodeRef;

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        node: &Arc<NodeRef>,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        (**node).encode(e, ctx)
    }

    pub(crate) fn decode<'b, C>(
        d: &mut minicbor::Decoder<'b>,
        ctx: &mut C,
    ) -> Result<Arc<NodeRef>, minicbor::decode::Error> {
        NodeRef::decode(d, ctx).map(Arc::new)
    }
}

/// The same, if there is a node.
pub(crate) mod maybe_shared {
    use alloc::sync::Arc;
    use minicbor::{Decode, Encode};

    use crate::NodeRef;

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        node: &Option<Arc<NodeRef>>,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        node.as_deref().encode(e, ctx)
    }

    pub(crate) fn decode<'b, C>(
        d: &mut minicbor::Decoder<'b>,
        ctx: &mut C,
    ) -> Result<Option<Arc<NodeRef>>, minicbor::decode::Error> {
        Option::<NodeRef>::decode(d, ctx).map(|node| node.map(Arc::new))
    }
}

/// How memory is reached: at most [`crate::REACH_BYTES_MAX`] bytes.
pub(crate) mod reach {
    use alloc::vec::Vec;

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        bytes: &[u8],
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(bytes)?.ok()
    }

    pub(crate) fn decode<'b, C>(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Vec<u8>, minicbor::decode::Error> {
        let bytes = d.bytes()?;
        if bytes.len() > crate::REACH_BYTES_MAX {
            return Err(minicbor::decode::Error::message("more than 512 bytes of how memory is reached"));
        }
        Ok(bytes.to_vec())
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
bounded!(segments, crate::SegmentEntry, crate::SEGMENT_LISTING_MAX, "more than 1,024 segments in a listing");
bounded!(buffers, crate::Buffer, crate::BUFFERS_MAX, "more than 16 buffers of one message");
bounded!(completions, u64, crate::COMPLETIONS_MAX, "more than 64 completions in one message");
bounded!(counts, crate::BranchCount, crate::BRANCHES_MAX, "more than 4,096 branches");
bounded!(chains, crate::ChainId, crate::CHAINS_OVER_MAX, "more than 256 chains");
bounded!(branches, crate::Branch, crate::BRANCHES_MAX, "more than 4,096 branches");
bounded!(delegates, crate::Delegated, crate::DELEGATES_MAX, "more than 4,096 delegated rights");
bounded!(console, crate::LogLine, crate::CONSOLE_LINES_MAX, "more than 4,096 lines of the console");

/// The replies of one message: at most [`crate::REPLIES_MAX`].
pub(crate) mod replies {
    use alloc::vec::Vec;
    use bytes::Bytes;

    use crate::Value;

    /// Replies of up to this many bytes together share one piece of memory, for as long as any of them is held. If there are more, each has its own, so that
    /// keeping a short one does not keep a long one.
    const SHARED_BYTES_MAX: usize = 128 << 10;

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        replies: &[Value],
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(replies.len() as u64)?;
        replies.iter().try_for_each(|reply| e.bytes(reply.as_bytes())?.ok())
    }

    pub(crate) fn decode<C>(d: &mut minicbor::Decoder<'_>, _: &mut C) -> Result<Vec<Value>, minicbor::decode::Error> {
        let wrong = minicbor::decode::Error::message;
        let count = d.array()?.filter(|count| *count <= crate::REPLIES_MAX as u64);
        let count = count.ok_or_else(|| wrong("more than 4,096 replies in one message"))?;
        let start = d.position();
        let mut next = || {
            let bytes = d.bytes()?.len();
            let end = d.position() - start;
            Ok(end - bytes..end)
        };
        let places = (0..count).map(|_| next()).collect::<Result<Vec<_>, _>>()?;
        let all = d.input().get(start..d.position()).unwrap_or_default();
        let shared = (all.len() <= SHARED_BYTES_MAX).then(|| Bytes::copy_from_slice(all));
        let reply = |place: core::ops::Range<usize>| match &shared {
            Some(shared) => Some(shared.slice(place)),
            None => all.get(place).map(Bytes::copy_from_slice),
        };
        let replies = places.into_iter().map(|place| Value::from_cbor(reply(place)?).ok());
        replies.collect::<Option<_>>().ok_or_else(|| wrong("payload is not CBOR"))
    }
}

/// The items of a short message: at most [`crate::SHORT_ITEMS_MAX`], of at most [`crate::SHORT_BYTES_MAX`] together.
pub(crate) mod items {
    use alloc::vec::Vec;
    use bytes::Bytes;

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        items: &[Bytes],
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(items.len() as u64)?;
        items.iter().try_for_each(|item| e.bytes(item)?.ok())
    }

    pub(crate) fn decode<C>(d: &mut minicbor::Decoder<'_>, _: &mut C) -> Result<Vec<Bytes>, minicbor::decode::Error> {
        let count = d.array()?.filter(|count| *count <= crate::SHORT_ITEMS_MAX as u64);
        let count = count.ok_or_else(|| minicbor::decode::Error::message("more than 64 items in a short message"))?;
        let mut room = crate::SHORT_BYTES_MAX;
        let mut item = || {
            let item = d.bytes()?;
            room = room
                .checked_sub(item.len())
                .ok_or_else(|| minicbor::decode::Error::message("more than 12 KiB in the items of a short message"))?;
            Ok(Bytes::copy_from_slice(item))
        };
        (0..count).map(|_| item()).collect()
    }
}

/// 128 bits as a byte string: CBOR's own integers end at 64.
pub(crate) mod number {
    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        number: &u128,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&number.to_be_bytes())?.ok()
    }

    pub(crate) fn decode<C>(d: &mut minicbor::Decoder<'_>, _: &mut C) -> Result<u128, minicbor::decode::Error> {
        let bytes = d.bytes()?.try_into();
        bytes
            .map(u128::from_be_bytes)
            .map_err(|_| minicbor::decode::Error::message("a number of 128 bits has 16 bytes"))
    }
}

/// The profile, if there is one, of at most [`crate::TRACE_STEPS_MAX`] steps.
pub(crate) mod trace {
    use crate::StepTrace;
    use alloc::vec::Vec;

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        trace: &Option<Vec<StepTrace>>,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match trace {
            Some(trace) => steps::encode(trace, e, ctx),
            None => e.null()?.ok(),
        }
    }

    pub(crate) fn decode<'b, C>(
        d: &mut minicbor::Decoder<'b>,
        ctx: &mut C,
    ) -> Result<Option<Vec<StepTrace>>, minicbor::decode::Error> {
        if d.datatype()? == minicbor::data::Type::Null {
            d.null()?;
            return Ok(None);
        }
        steps::decode(d, ctx).map(Some)
    }

    bounded!(steps, crate::StepTrace, crate::TRACE_STEPS_MAX, "a profile of more than 2,048 steps");
}

/// Services, of at most [`crate::LISTING_ENTRIES_MAX`], with [`crate::LISTING_NAMES_MAX`] names in all.
pub(crate) mod listing {
    use crate::ServiceEntry;
    use alloc::vec::Vec;
    use minicbor::{Decode, Encode};

    pub(crate) fn encode<C, W: minicbor::encode::Write>(
        entries: &[ServiceEntry],
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(entries.len() as u64)?;
        entries.iter().try_for_each(|entry| entry.encode(e, ctx))
    }

    pub(crate) fn decode<'b, C>(
        d: &mut minicbor::Decoder<'b>,
        ctx: &mut C,
    ) -> Result<Vec<ServiceEntry>, minicbor::decode::Error> {
        let count = d.array()?.filter(|count| *count <= crate::LISTING_ENTRIES_MAX as u64);
        let count = count.ok_or_else(|| minicbor::decode::Error::message("a listing of more than 4,096 services"))?;
        let mut names = 0;
        let entry = |_| {
            let entry = ServiceEntry::decode(d, ctx)?;
            names += entry.names();
            match names <= crate::LISTING_NAMES_MAX {
                true => Ok(entry),
                false => Err(minicbor::decode::Error::message("a listing of more than 65,536 names of functions")),
            }
        };
        (0..count).map(entry).collect()
    }
}
bounded!(told, crate::Told, crate::RECORDING_EVENTS_MAX, "more than 16,384 events in a recording");
bounded!(asked, crate::Asked, crate::RECORDING_EVENTS_MAX, "more than 16,384 calls in one turn");
bounded!(answers, crate::ResolverAnswer, crate::RESOLVERS_MAX, "answers of more than 16 resolvers");
bounded!(sightings, crate::Sighting, crate::INSTANCES_MAX, "more than 64 instances of one service");
