//! Functions that hand their state over themselves: `(state, result) -> next hop or end`.

use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::{Exception, Raw, io, last_words, split_target};

/// What a step ends with.
pub enum Step {
    /// Call this, and go on there with the state.
    Next {
        /// `service/function`.
        target: String,
        /// What it is called with.
        params: Raw,
        /// What the next step begins with.
        state: Raw,
    },
    /// The function's result.
    Done(Raw),
    /// What it throws.
    Threw(Exception),
}

/// Call `target`, and go on with `state`.
pub fn next(target: &str, params: &impl Encode<()>, state: &impl Encode<()>) -> Step {
    Step::Next { target: target.to_owned(), params: Raw::new(params), state: Raw::new(state) }
}

/// End with a result.
pub fn done(value: &impl Encode<()>) -> Step {
    Step::Done(Raw::new(value))
}

/// End with an exception.
#[must_use]
pub const fn threw(exception: Exception) -> Step {
    Step::Threw(exception)
}

/// `catena_step`.
pub fn step<S, V>(length: u32, function: fn(Option<S>, Result<V, Exception>) -> Step) -> u64
where
    S: for<'b> Decode<'b, ()>,
    V: for<'b> Decode<'b, ()>,
{
    last_words::listen();
    let event = io::event(length);
    let mut d = Decoder::new(&event);
    let read = (|| {
        d.array()?;
        let state = d.decode::<Option<S>>()?;
        let result = if d.bool()? { Ok(d.decode::<Raw>()?.get()?) } else { Err(d.decode::<Exception>()?) };
        Ok::<_, minicbor::decode::Error>((state, result))
    })();
    let step = match read {
        Ok((state, result)) => function(state, result),
        Err(error) => Step::Threw(Exception::bad_value("the step's state or value", &error)),
    };
    let mut out = Vec::new();
    // Writing to memory cannot fail.
    let _ = put(&mut Encoder::new(&mut out), &step);
    io::outbox(out)
}

fn put(e: &mut Encoder<&mut Vec<u8>>, step: &Step) -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
    e.array(1)?;
    match step {
        Step::Next { target, params, state } => {
            let (service, function) = split_target(target);
            e.array(5)?.u8(6)?.str(service)?.str(function)?;
            e.encode(params)?.encode(state)?.ok()
        }
        Step::Done(value) => e.array(2)?.u8(1)?.encode(value)?.ok(),
        Step::Threw(exception) => e.array(2)?.u8(2)?.encode(exception)?.ok(),
    }
}
