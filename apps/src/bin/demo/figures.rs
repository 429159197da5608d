//! What was measured, and `result.json`.

use std::path::Path;

use catena::StepTrace;
use catena_apps::copy::Copied;
use serde_json::json;

use crate::bound;

/// Copies: milliseconds and bytes over the client's links, medians after [`CopyFigures::close`].
#[derive(Default)]
pub(crate) struct CopyFigures {
    rpc_runs: Vec<(f64, u64)>,
    chain_runs: Vec<(f64, u64)>,
    pub(crate) rpc_ms: f64,
    pub(crate) chain_ms: f64,
    pub(crate) bound_ms: f64,
    pub(crate) rpc_client_bytes: u64,
    pub(crate) chain_client_bytes: u64,
    pub(crate) rpc: Option<Copied>,
    pub(crate) chain: Option<Copied>,
}

impl CopyFigures {
    pub(crate) fn add(&mut self, rpc_ms: f64, chain_ms: f64, rpc_bytes: u64, chain_bytes: u64) {
        self.rpc_runs.push((rpc_ms, rpc_bytes));
        self.chain_runs.push((chain_ms, chain_bytes));
    }

    pub(crate) fn close(&mut self) {
        let ms = |runs: &[(f64, u64)]| median(runs.iter().map(|run| run.0).collect());
        let bytes = |runs: &[(f64, u64)]| median(runs.iter().map(|run| run.1 as f64).collect()) as u64;
        (self.rpc_ms, self.chain_ms) = (ms(&self.rpc_runs), ms(&self.chain_runs));
        (self.rpc_client_bytes, self.chain_client_bytes) = (bytes(&self.rpc_runs), bytes(&self.chain_runs));
        self.bound_ms = bound::copy_ms(self.chain.as_ref().map_or(0, |copied| copied.bytes));
    }
}

/// Mails: milliseconds, medians.
#[derive(Default)]
pub(crate) struct MailFigures {
    pub(crate) rpc_ms: f64,
    pub(crate) chain_ms: f64,
    pub(crate) bound_ms: f64,
    pub(crate) mail_bytes: u64,
    pub(crate) trace: Vec<StepTrace>,
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn write(path: &Path, copy: &CopyFigures, mail: &MailFigures) -> std::io::Result<()> {
    let tenth = |ms: f64| (ms * 10.0).round() / 10.0;
    let result = json!({
        "copy": {
            "rpc_ms": tenth(copy.rpc_ms),
            "chain_ms": tenth(copy.chain_ms),
            "bound_ms": tenth(copy.bound_ms),
            "rpc_client_bytes": copy.rpc_client_bytes,
            "chain_client_bytes": copy.chain_client_bytes,
        },
        "mail": {
            "rpc_ms": tenth(mail.rpc_ms),
            "chain_ms": tenth(mail.chain_ms),
            "bound_ms": tenth(mail.bound_ms),
        },
    });
    std::fs::write(path, format!("{result:#}\n"))
}
