//! Calling a service.

use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use minicbor::{Decode, Encode};

use crate::{
    Exception,
    executor::{Wait, issue},
    split_target,
};

/// Calls `service/function`. The call goes out when this is called, and its result is there when it is awaited.
pub fn call<T: for<'b> Decode<'b, ()>>(target: &str, params: &impl Encode<()>) -> Call<T> {
    let (service, function) = split_target(target);
    let wait = issue(|e, number| {
        // Writing to memory cannot fail.
        let _ = e
            .array(7)
            .and_then(|e| e.u8(0)?.u32(number)?.str(service)?.str(function))
            .and_then(|e| e.encode(params)?.u32(0)?.u32(0));
    });
    Call { wait, result: PhantomData }
}

/// A call under way.
pub struct Call<T> {
    wait: Wait,
    result: PhantomData<fn() -> T>,
}

impl<T: for<'b> Decode<'b, ()>> Future for Call<T> {
    type Output = Result<T, Exception>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.wait).poll(cx).map(|outcome| {
            let value = outcome?;
            value.get().map_err(|error| Exception::bad_value("the call's result", &error))
        })
    }
}
