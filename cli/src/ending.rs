//! How a chain ended: each ends in exactly one of three ways (rpc-chains section 3.9).

use catena::{ChainId, Exception, Fault};
use serde::Serialize;
use serde_json::{Value, json};

/// The way in which a chain ended; programs know it by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ending {
    /// With its function's result.
    Answered,
    /// At a call that did nothing, or in the function itself.
    Failed,
    /// At a call of which nobody knows whether it took effect.
    Unknown,
}

impl Ending {
    /// What an exception says of it.
    pub(crate) const fn of(why: &Exception) -> Self {
        if why.unknown { Self::Unknown } else { Self::Failed }
    }
}

/// A chain that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) chain: ChainId,
    /// The last step that it made; beyond the exception's own if its function caught that, went on, and threw it later.
    pub(crate) last_step: u32,
}

/// In a sentence, for people. With the step's key where the outcome is unknown: to find out what was done, one asks the service by that key.
pub(crate) fn sentence(why: &Exception, ended: Ended) -> String {
    let sentence = at_its_step(why, ended.chain);
    match ended.last_step {
        beyond if beyond > why.step => format!("{sentence}; calls up to step {beyond} were made"),
        _ => sentence,
    }
}

fn at_its_step(why: &Exception, chain: ChainId) -> String {
    let step = why.step;
    match Ending::of(why) {
        Ending::Unknown => {
            let what = "a call under way, or one of which the function was told so, may have taken effect";
            format!("outcome unknown after step {step}: {what}; its key: chain {chain}, step {step}")
        }
        _ if why.fault == Fault::Service => format!("failed at step {step}: the service answered with this exception"),
        _ if why.target.is_none() => format!("failed after step {step}, in the function itself: no call was under way"),
        // A target without a function: the chain that a service answered with threw.
        _ if why.target.as_deref().is_some_and(|target| target.ends_with('/')) => {
            format!(
                "failed at step {step}: the chain with which the service answered threw this; no call was under way"
            )
        }
        _ => format!("failed before its effect at step {step}: what was being called did nothing"),
    }
}

/// The idempotency key under which the nodes remember a step: the chain, by its origin's name for it, and the step.
pub(crate) fn key(chain: ChainId, step: u32) -> Value {
    // More bits than a JSON number has.
    let (origin, number) = (format!("{:016x}", chain.origin.0), format!("{:032x}", chain.number));
    json!({ "chain": chain.to_string(), "origin": origin, "number": number, "step": step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena::{NodeId, exceptions as names};

    #[track_caller]
    fn check(why: &Exception, ending: Ending, said: &str) {
        let chain = ChainId { origin: NodeId(0x0123_4567_89ab_cdef), number: 7 };
        assert_eq!(Ending::of(why), ending);
        let sentence = sentence(why, Ended { chain, last_step: 3 });
        assert!(sentence.contains(said), "{sentence}");
    }

    #[test]
    fn each_ending_is_told_from_the_others() {
        let at = |name, fault| Exception { step: 3, ..Exception::new(name, fault, "") };
        let called = |name, fault| at(name, fault).calling("files.mtv", "write");
        let lost = called(names::NODE_LOST, Fault::Network).outcome_unknown();
        check(&lost, Ending::Unknown, "outcome unknown after step 3");
        check(&lost, Ending::Unknown, "chain 01234567-00000007, step 3");
        check(&called(names::NODE_UNREACHABLE, Fault::Network), Ending::Failed, "before its effect at step 3");
        check(&called("NFS3ERR_NOENT", Fault::Service), Ending::Failed, "answered with this exception");
        check(&at("TypeError", Fault::Guest), Ending::Failed, "in the function itself");
    }

    #[test]
    fn what_was_done_after_a_caught_exception_is_said() {
        let why = Exception { step: 1, ..Exception::new("Refused", Fault::Service, "") }.calling("a", "f");
        let chain = ChainId { origin: NodeId(1), number: 1 };
        let said = |last_step| sentence(&why, Ended { chain, last_step });
        assert!(said(2).ends_with("; calls up to step 2 were made"), "{}", said(2));
        assert!(!said(1).contains("were made"));
    }

    #[test]
    fn a_key_names_the_chain_whole() {
        let chain = ChainId { origin: NodeId(u64::MAX), number: 7 };
        assert_eq!(
            key(chain, 2),
            json!({
                "chain": "ffffffff-00000007",
                "origin": "ffffffffffffffff",
                "number": "00000000000000000000000000000007",
                "step": 2,
            })
        );
    }
}
