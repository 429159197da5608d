//! What functions are told, and with what they go on: noted for the invariants, and held at once against what is right.

use catena_core::Turn;
use catena_wire::{Exception, StepLimits, Value};

use crate::{
    endings::OF_NO_CALL,
    guest::{Guest, Params, Thrown, Who, of_sub_chain},
    services::{Target, is_effect, result_of, target_of, value_of},
    sim::World,
};

/// What a function ended with by throwing.
#[derive(Clone, Debug)]
pub(crate) struct Uncaught {
    pub(crate) who: Who,
    pub(crate) name: String,
    /// It had been told of a call that may have taken effect.
    pub(crate) uncertain: bool,
}

impl World {
    /// This continuation has been taken.
    pub(crate) fn note_taken(&mut self, guest: &Guest) {
        self.record.taken.entry(guest.who()).or_default().insert(guest.continuation().to_vec());
    }

    /// A function goes on elsewhere: with the bytes that were taken, each name and value in them, and the limits of its chain.
    pub(crate) fn must_be_as_taken(&mut self, host: usize, continuation: &[u8], limits: StepLimits) -> Guest {
        let guest = Guest::lay_over(continuation);
        let who = guest.who();
        if !self.record.taken.get(&who).is_some_and(|taken| taken.contains(continuation)) {
            self.record.violations.push(format!("n{host}: {who:?} goes on with a state that was never taken"));
        }
        if let Err(why) = guest.state().check(who.0) {
            self.record.violations.push(format!("n{host}: the state of {who:?} has changed: {why}"));
        }
        self.must_be_limited(host, who, limits);
        guest
    }

    /// A sub-chain has limits of its own: none.
    pub(crate) fn must_be_limited(&mut self, host: usize, (run, own): Who, limits: StepLimits) {
        let asked = match of_sub_chain(own) {
            true => StepLimits::UNCHANGED,
            false => self.plan.chains[run as usize - 1].limits,
        };
        if limits != asked {
            self.record.violations.push(format!("n{host}: ({run}, {own}) runs within {limits:?} and not {asked:?}"));
        }
    }

    /// This is handed to it.
    pub(crate) fn note_told(&mut self, host: usize, guest: &Guest, call: u32, result: &Result<Value, Exception>) {
        let (run, own) = guest.who();
        let params = (run, own, call);
        match result {
            Ok(value) => self.must_be_right(host, params, value),
            Err(why) => self.note_denied(host, params, why),
        }
    }

    fn must_be_right(&mut self, host: usize, params: Params, value: &Value) {
        let issued = self.record.issued.get(&params).cloned().unwrap_or_default();
        if !issued.iter().all(is_effect) || issued.is_empty() {
            return;
        }
        self.record.given.insert(params);
        let found = value_of(value);
        if !issued.iter().any(|target| found == Some(result_of(target.service, params))) {
            self.record.violations.push(format!("n{host}: call {params:?} was given {found:?}, another one's result"));
        }
    }

    fn note_denied(&mut self, host: usize, params: Params, why: &Exception) {
        self.must_say_its_uncertainty(host, why);
        if why.unknown {
            return;
        }
        if why.target.is_none() && !OF_NO_CALL.contains(&why.name.as_str()) {
            self.record.violations.push(format!("n{host}: call {params:?} failed, and this does not say so: {why}"));
        }
        self.record.denied.insert(params, why.clone());
    }

    /// What a function throws that is uncertain is uncertain for whoever hears of it.
    pub(crate) fn must_say_its_uncertainty(&mut self, host: usize, why: &Exception) {
        let thrown = why.params.as_ref().filter(|_| why.name == "Thrown");
        let thrown = thrown.and_then(|params| minicbor::decode::<Thrown>(params.as_bytes()).ok());
        if let Some((run, own, true)) = thrown
            && !why.unknown
        {
            self.record.violations.push(format!("n{host}: the uncertainty of ({run}, {own}) was forgotten: {why}"));
        }
    }

    /// What it did in its turn.
    pub(crate) fn note_turn(&mut self, guest: &Guest, turn: &Turn) {
        let (run, own) = guest.who();
        for call in &turn.calls {
            let target: Target = target_of(&call.service, &call.function);
            self.record.issued.entry((run, own, call.call)).or_default().push(target);
        }
        if let Some(Err(why)) = &turn.end {
            let uncaught = Uncaught { who: guest.who(), name: why.name.clone(), uncertain: guest.is_uncertain() };
            self.record.uncaught.push(uncaught);
        }
    }
}

impl World {
    /// As whom the chain or call runs of which this is a call.
    pub(crate) fn credentials_of(&self, run: u64) -> Option<Value> {
        match run {
            // A plain call.
            1_000.. => (!run.is_multiple_of(3)).then(|| Value::encode(&run)),
            run => self.plan.chains[run as usize - 1].credentials.map(|who| Value::encode(&who)),
        }
    }

    /// A service acts for whoever began the chain, and for nobody else.
    pub(crate) fn must_act_for(&mut self, host: usize, params: &Value, credentials: Option<&Value>) {
        let params = params.as_bytes();
        let thrown = |why: Exception| minicbor::decode::<Thrown>(why.params?.as_bytes()).ok().map(|(run, ..)| run);
        let run = match minicbor::decode::<Params>(params) {
            Ok((run, ..)) => Some(run),
            // A function that catches what a chain threw.
            Err(_) => minicbor::decode(params).ok().and_then(thrown),
        };
        let Some(run) = run else { return };
        let right = self.credentials_of(run);
        if credentials != right.as_ref() {
            let who = format!("n{host}: a service acts for {credentials:?} in run {run}, whose user is {right:?}");
            self.record.violations.push(who);
        }
    }
}
