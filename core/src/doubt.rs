//! Doubt is not dropped (rpc-chains section 3.9): a function that was told of a call that may have taken effect, and fails after
//! that in whatever way, leaves an outcome that is unknown. One that answers has dealt with it.

use catena_wire::{Exception, Outcome, Value};

use crate::activation::Baggage;

impl Baggage {
    /// This result is handed to the function, as it has to see it: after a step that was done again, what has failed now may have
    /// been done before.
    pub(crate) fn told(&mut self, result: Result<Value, Exception>) -> Result<Value, Exception> {
        let result = match self.redone {
            Some(_) => result.map_err(Exception::outcome_unknown),
            None => result,
        };
        self.doubt |= matches!(&result, Err(why) if why.unknown);
        result
    }

    /// These outcomes of branches are handed to the function.
    pub(crate) fn told_of_branches(&mut self, outcomes: &[Outcome]) {
        self.doubt |= outcomes.iter().any(|outcome| matches!(outcome, Outcome::Threw(why) if why.unknown));
    }

    /// How the function has ended, as others have to see it.
    pub(crate) fn in_doubt(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Threw(why) if self.doubt || self.redone.is_some() => Outcome::Threw(why.outcome_unknown()),
            clear => clear,
        }
    }

    /// How all of it has ended, with the enclosing chains whatever they would have done about it.
    pub(crate) fn in_doubt_with_all_around(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Threw(why) if self.stack.iter().any(|frame| frame.doubt) => Outcome::Threw(why.outcome_unknown()),
            other => self.in_doubt(other),
        }
    }
}
