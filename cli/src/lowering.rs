//! What a chain lowers of what its own function may use at each step (rpc-chains section 3.6).

use catena::StepLimits;
use clap::Args;
use serde::{Deserialize, Serialize};

const HEADING: &str = "Limits of the function's own, at each step";

/// Limits of a function, lower than those of the nodes it comes to: as flags, and as a recording has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lowered {
    /// Memory that it may use, the engine's own included; each node has a limit too (64 MiB by default), and the lower one holds, as for those below
    #[arg(long, value_name = "BYTES", help_heading = HEADING, value_parser = whole::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes_max: Option<u64>,
    /// Time that it may run from one call to the next (1,000 by default)
    #[arg(long, value_name = "MS", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    step_wall_ms_max: Option<u32>,
    /// Parameters of its calls, intermediate answers, log lines and result (16 MiB)
    #[arg(long, value_name = "BYTES", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes_max: Option<u32>,
    /// Calls, intermediate answers and log lines (65,536)
    #[arg(long, value_name = "N", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    events_max: Option<u32>,
    /// State that it may take along to the next node (16 MiB)
    #[arg(long, value_name = "BYTES", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    continuation_bytes_max: Option<u32>,
}

impl Lowered {
    /// As they travel.
    pub(crate) const fn limits(&self) -> StepLimits {
        StepLimits {
            memory_bytes_max: self.memory_bytes_max,
            step_wall_ms_max: self.step_wall_ms_max,
            output_bytes_max: self.output_bytes_max,
            events_max: self.events_max,
            continuation_bytes_max: self.continuation_bytes_max,
        }
    }
}

fn whole<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let number = text.parse::<u64>().ok().filter(|number| *number > 0).and_then(|number| N::try_from(number).ok());
    let bits = 8 * size_of::<N>();
    number.ok_or_else(|| {
        format!("write a whole number, from 1 on and of at most {bits} bits; its unit is that of the flag")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_and_fit() {
        assert_eq!(whole(&u32::MAX.to_string()), Ok(u32::MAX));
        assert_eq!(whole("4294967296"), Ok(1_u64 << 32));
        for wrong in ["", "0", "-1", "1.5", "1mb", "4294967296"] {
            assert!(whole::<u32>(wrong).is_err(), "{wrong}");
        }
    }
}
