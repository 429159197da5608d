//! What to do about an exception: advice by its name, else by whose fault it is.

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
    if let Some(instead) = instead(why) {
        return instead.to_owned();
    }
    let known = match why.name.as_str() {
        names::UNKNOWN_SERVICE => {
            "`catena ls` shows every service with its functions; one that should be there has a node that is down or has not joined: start it"
        }
        names::UNKNOWN_FUNCTION => "`catena ls` shows every service with its functions",
        names::BAD_PARAMETERS => "give the function what its message asks for",
        names::NODE_UNREACHABLE => {
            "the call was not made: see that the node is up and serves it (`catena ls`), then run it again"
        }
        names::NODE_LOST | names::CHAIN_LOST => {
            "the last step may have taken effect: look at the last host of the path, or else at the node that serves the call, before running it again"
        }
        names::CANCELLED => "run it again when it may go on; what the steps before did stays done",
        names::DEADLINE_EXCEEDED => {
            "allow more with --timeout; of a chain, `catena run --explain` shows where the time goes"
        }
        names::HOP_BUDGET_EXCEEDED => "look for a loop in the function, or allow more with --hops-max",
        names::LIMIT_EXCEEDED => {
            "let the function use less; of two limits the lower one holds: the node's, which its owner sets under [limits], and one given to this run, such as --events-max"
        }
        names::OVERLOADED => "the node has as much work as it takes on: try again later",
        names::STALLED => "await something that a call() settles: there are no timers in a chain",
        names::CODE_MISSING => "run it again: the function is then offered again",
        names::BAD_CODE => "`catena check FILE` says what is wrong with a function",
        names::PROTOCOL => "a node speaks another version: bring all nodes to the same one",
        _ => return by_fault(why),
    };
    known.to_owned()
}

/// What a chain can use instead of a name that its function expects from a browser or Node.js, or has not imported.
pub(crate) fn instead(why: &Exception) -> Option<&'static str> {
    if (why.fault, why.name.as_str()) != (Fault::Guest, "ReferenceError") {
        return None;
    }
    Some(match why.message.strip_suffix(" is not defined")? {
        "call" | "emit" | "log" | "replies" | "split" | "startChain" | "visit" => {
            "import it: import { call, emit, log, replies, split, startChain, visit } from \"catena\""
        }
        "console" | "print" | "alert" => {
            "use log(...) from \"catena\": its lines come to the terminal that runs the chain"
        }
        "fetch" | "XMLHttpRequest" | "WebSocket" => {
            "a chain has no network of its own: use await call(\"service/function\", ...), and let a service fetch it"
        }
        "setTimeout" | "setInterval" | "setImmediate" | "clearTimeout" | "clearInterval" => {
            "a chain has no timers: use await call(...) to a service that waits, such as probe.mtv/sleep; --timeout bounds the whole"
        }
        "process" | "Deno" | "Bun" => {
            "a chain has no process and no environment: give what it needs as its input (--arg), or ask a service with await call(...)"
        }
        "require" | "module" | "exports" | "__dirname" | "__filename" => {
            "the only module is \"catena\" (import { call } from \"catena\"): bundle other code into the file; files are a service's, by await call(...)"
        }
        "Buffer" => "use Uint8Array: it is sent as bytes",
        "crypto" => {
            "a chain draws no randomness of its own but Math.random(), the same at each repeat; let a service do it, by await call(...)"
        }
        "window" | "document" | "navigator" | "localStorage" => {
            "a chain runs in no browser: what it needs comes as its input, or from a service by await call(...)"
        }
        "structuredClone" => "write the copy out, or for plain data: JSON.parse(JSON.stringify(value))",
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(why: &Exception, part: &str) {
        let next = next(why);
        assert!(next.contains(part), "{part:?} is not in {next:?}");
    }

    #[test]
    fn what_a_chain_does_not_have_is_named_with_what_it_has() {
        let missing = |name: &str| Exception::new("ReferenceError", Fault::Guest, format!("{name} is not defined"));
        for (name, part) in [
            ("console", "use log(...)"),
            ("fetch", "await call("),
            ("setTimeout", "no timers"),
            ("process", "--arg"),
            ("require", "bundle other code"),
            ("Buffer", "Uint8Array"),
            ("call", "import { call"),
            ("nobody", "correct the function at the line named"),
        ] {
            check(&missing(name), part);
        }
        let service = Exception { fault: Fault::Service, ..missing("fetch") };
        check(&service, "correct what the service was given");
    }
}
