//! What to do about an exception, by its name, else by whose fault it is.

use catena::{Exception, Fault, exceptions as names};

/// Who has to change something, in a sentence.
pub(crate) const fn whose(fault: Fault) -> &'static str {
    match fault {
        Fault::Caller => "caller: a name, an input or a budget given here",
        Fault::Guest => "guest: the chain's own function",
        Fault::Service => "service: the service that was called",
        Fault::Node => "node: the node that ran this step, or its configuration",
        Fault::Network => "network: what lies between the nodes",
    }
}

/// What to do next.
pub(crate) fn next(why: &Exception) -> String {
    let known = match why.name.as_str() {
        names::UNKNOWN_SERVICE => {
            "`catena ls` shows every service with its functions; one that should be there has a node that is down or has not joined: start it"
        }
        names::UNKNOWN_FUNCTION => "`catena ls` shows every service with its functions",
        names::BAD_PARAMETERS => "give the function what its message asks for",
        names::NODE_UNREACHABLE => "the call was not made: see that the node is up (`catena ls`), then run it again",
        names::NODE_LOST | names::CHAIN_LOST => {
            "the last step may have taken effect: look at the last host of the path before running it again"
        }
        names::CANCELLED => "run it again when it may go on; what the steps before did stays done",
        names::DEADLINE_EXCEEDED => "allow more with --timeout; --explain shows where the time goes",
        names::HOP_BUDGET_EXCEEDED => "look for a loop in the function, or allow more with --hops-max",
        names::LIMIT_EXCEEDED => "let the function use less; the node's owner sets its limits under [limits]",
        names::OVERLOADED => "the node has as much work as it takes on: try again later",
        names::STALLED => "await something that a call() settles: there are no timers in a chain",
        names::CODE_MISSING => "run it again: the function is then offered again",
        names::BAD_CODE => "`catena check FILE` says what is wrong with a function",
        names::PROTOCOL => "a node speaks another version: bring all nodes to the same one",
        _ => return by_fault(why),
    };
    known.to_owned()
}

fn by_fault(why: &Exception) -> String {
    match (why.fault, &why.target) {
        (Fault::Service, Some(target)) => {
            format!("{target} said so: correct what it was given, or catch {} in the function", why.name)
        }
        (Fault::Service, None) => "correct what the service was given, or catch it in the function".to_owned(),
        (Fault::Guest, _) => "correct the function at the line named, or catch it there with try/catch".to_owned(),
        (Fault::Caller, _) => "correct what was given, then run it again".to_owned(),
        (Fault::Node, _) => "see that node's own messages".to_owned(),
        (Fault::Network, _) => "see that the nodes are up (`catena ls`), then run it again".to_owned(),
    }
}
