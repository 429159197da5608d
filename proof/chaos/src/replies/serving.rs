//! The servers of a tree.

use std::{sync::Arc, time::Duration};

use catena::{Context, Exception, Service, ServiceError, to_value};
use tokio::{task::JoinSet, time::sleep};

use super::Branch;
use crate::{
    flaw::{self, Flaw},
    ledger::Ledger,
    plan::Effect,
};

/// The function that replies as a tree says.
pub(crate) fn functions(service: Service, ledger: &Arc<Ledger>, flaw: Option<Flaw>) -> Service {
    let ledger = Arc::clone(ledger);
    service.replies("reply", move |context: Context, branch: Branch| {
        let replier = Replier {
            ledger: Arc::clone(&ledger),
            flaw,
            trial: branch.trial,
            pause: Duration::from_millis(branch.pause_ms),
        };
        replier.run(context, branch)
    })
}

#[derive(Clone)]
struct Replier {
    ledger: Arc<Ledger>,
    flaw: Option<Flaw>,
    trial: usize,
    pause: Duration,
}

impl Replier {
    async fn run(self, context: Context, branch: Branch) -> Result<(), ServiceError> {
        // In this order: the caller tells them by their numbers.
        for other in &branch.delegated {
            context.delegate(&target(other), other)?;
        }
        let mut passing = JoinSet::new();
        for other in branch.passed {
            passing.spawn(pass_on(context.clone(), other));
        }
        let (own, others) =
            branch.rows.split_first().ok_or_else(|| ServiceError::named("NoRows", "a branch has rows"))?;
        for row in others {
            // Whether it can still reply is for the task alone.
            tokio::spawn(self.clone().row(context.clone(), *row));
        }
        let replied = self.row(context, *own).await;
        while let Some(passed) = passing.join_next().await {
            passed??;
        }
        replied
    }

    /// Each reply is noted before it is sent.
    async fn row(self, context: Context, (first, count): (usize, usize)) -> Result<(), ServiceError> {
        for index in first..first + count {
            sleep(self.pause).await;
            self.ledger.note(&Effect { chain: self.trial, index, before_ms: 0, after_ms: 0 }, None)?;
            let flaw = flaw::spoils(self.flaw, self.trial + index);
            let times = match flaw {
                Some(Flaw::Never) => 0,
                Some(Flaw::Twice) => 2,
                _ => 1,
            };
            for _ in 0..times {
                let replied = context.preturn(&index).await;
                // Deaf to whoever says that nobody waits any more.
                if self.flaw != Some(Flaw::Deaf) {
                    replied?;
                }
            }
        }
        Ok(())
    }
}

async fn pass_on(context: Context, branch: Branch) -> Result<(), Exception> {
    let replies = context.client().replies_with(&target(&branch), to_value(&branch)?, &context.options())?;
    context.pass_on(replies).await
}

pub(super) fn target(branch: &Branch) -> String {
    format!("{}/reply", branch.service)
}
