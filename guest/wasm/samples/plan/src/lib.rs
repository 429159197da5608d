//! Carries out a plan: calls one by one, side by side, and in branches, nested as one likes.
//!
//! Input: a [`Plan`]. Result: what it comes to.

mod beside;
mod plan;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    rc::Rc,
};

use catena_guest_sdk::{Call, Exception, Raw, call, emit, function, log, seed, split};
use minicbor::Encode;
use plan::Plan;

function!(carry_out);

type Outcome = Result<Raw, Exception>;

/// What all parts of a plan share. A branch has its own copy.
#[derive(Default)]
struct Shared {
    number: Cell<i64>,
    started: RefCell<BTreeMap<String, Call<Raw>>>,
}

async fn carry_out(plan: Plan) -> Outcome {
    step(plan, &Rc::default()).await
}

/// Boxed, because plans nest.
fn step(plan: Plan, shared: &Rc<Shared>) -> Pin<Box<dyn Future<Output = Outcome>>> {
    let shared = Rc::clone(shared);
    // Held from now on, whether it is begun or not.
    let guard = if let Plan::Guarded(value, _) = &plan { Some(Guard(value.clone())) } else { None };
    Box::pin(async move {
        let _guard = guard;
        let steps = |plans: Vec<Plan>| plans.into_iter().map(|plan| step(plan, &shared)).collect::<Vec<_>>();
        match plan {
            Plan::Value(value) => Ok(value),
            Plan::Call(target, params) => call(&target, &params).await,
            Plan::Tell(target, params) => {
                call::<()>(&target, &params).await?;
                Ok(Raw::null())
            }
            Plan::Ask(target, params) => raw(&call::<Option<i64>>(&target, &params).await?),
            Plan::Seq(plans) => {
                let mut results = Vec::new();
                for plan in plans {
                    results.push(step(plan, &shared).await?);
                }
                raw(&results)
            }
            Plan::All(plans) => raw(&beside::all(steps(plans)).await?),
            Plan::Race(plans) => beside::race(steps(plans)).await,
            Plan::Split(at, settled, plans) => {
                let mut branches = split(steps(plans));
                if let Some(service) = at {
                    branches = branches.at(&service);
                }
                if settled {
                    raw(&branches.settled().await?.into_iter().map(told).collect::<Vec<_>>())
                } else {
                    raw(&branches.await?)
                }
            }
            Plan::Catch(plan) => Ok(told(step(*plan, &shared).await)),
            Plan::Guarded(_, plan) => step(*plan, &shared).await,
            Plan::Start(name, target, params) => {
                shared.started.borrow_mut().insert(name, call(&target, &params));
                Ok(Raw::null())
            }
            Plan::Await(name) => {
                let started = shared.started.borrow_mut().remove(&name);
                started.ok_or_else(|| Exception::new("NotStarted", name))?.await
            }
            Plan::Add(more) => {
                shared.number.set(shared.number.get().wrapping_add(more));
                raw(&shared.number.get())
            }
            Plan::Emit(value) => {
                emit(&value);
                Ok(Raw::null())
            }
            Plan::Log(text) => {
                log(&text);
                Ok(Raw::null())
            }
            Plan::Seed => raw(&seed()),
            Plan::Throw(name, message) => Err(Exception::new(&name, message)),
            #[expect(clippy::panic, reason = "it shows what a panic comes to")]
            Plan::Panic(message) => panic!("{message}"),
        }
    })
}

fn raw(value: &impl Encode<()>) -> Outcome {
    Ok(Raw::new(value))
}

fn told(outcome: Outcome) -> Raw {
    match outcome {
        Ok(value) => Raw::new(&("done", value)),
        Err(why) => Raw::new(&("threw", format!("{}: {}", why.name, why.message))),
    }
}

/// Says so when it is dropped.
struct Guard(Raw);

impl Drop for Guard {
    fn drop(&mut self) {
        emit(&self.0);
    }
}
