//! `[limits]` of each guest, `[policy]` of the node and `[step_store]`: bounds by their exact names, which include the unit.

use std::path::PathBuf;

use catena::{Limits, Policy, StepStoreLimits};
use serde::Deserialize;
use toml::Spanned;

use super::mistake::Text;
use crate::failure::Failure;

/// Defines a table of optional bounds, which override the defaults, and of keys of its own. No bound may be 0: nothing would ever run.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($own:ident: $of:ty)? } => $whole:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $(pub(super) $own: $of,)?
            $($field: Option<Spanned<$type>>,)*
        }

        impl $name {
            pub(super) fn checked(self, text: &Text) -> Result<$whole, Failure> {
                let mut whole = $whole::default();
                $(put_bound(&mut whole.$field, self.$field, stringify!($field), text)?;)*
                Ok(whole)
            }
        }
    };
}

/// Overrides the default in `place` if a bound is given.
fn put_bound<T: Default + PartialEq>(
    place: &mut T,
    given: Option<Spanned<T>>,
    key: &str,
    text: &Text,
) -> Result<(), Failure> {
    let Some(given) = given else { return Ok(()) };
    if *given.get_ref() == T::default() {
        let message = format!("{key} is 0: nothing would ever run");
        return Err(text.mistake(given.span(), message, "make it at least 1, or leave it out"));
    }
    *place = given.into_inner();
    Ok(())
}

table! {
    /// The bounds of each guest ([`Limits`]).
    LimitsTable {} => Limits {
        memory_bytes_max: u64,
        step_wall_ms_max: u32,
        output_bytes_max: u32,
        events_max: u32,
        continuation_bytes_max: u32,
    }
}

table! {
    /// The bounds of the protocol that are most often changed ([`Policy`]).
    PolicyTable {} => Policy {
        activations_max: usize,
        services_running_max: usize,
        calls_waiting_max: usize,
        calls_per_chain_max: usize,
        chains_started_max: usize,
        step_records_max: usize,
        step_payload_bytes_max: usize,
        step_record_ttl_us: u64,
        heartbeat_interval_us: u64,
        heartbeat_timeout_us: u64,
        accept_timeout_us: u64,
        hop_attempts_max: u8,
        code_fetch_timeout_us: u64,
        console_lines_max: usize,
        console_bytes_max: usize,
    }
}

table! {
    /// How many steps of durable functions are kept ([`StepStoreLimits`]), and where.
    StepStoreTable { file: PathBuf } => StepStoreLimits {
        entries_max: u64,
        bytes_max: u64,
        age_max_ms: u64,
        result_bytes_max: usize,
    }
}
