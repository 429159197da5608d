//! Who is killed or stopped, when, and for how long.

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::{Failure, fleet::Fleet, rng::Rng};

pub(crate) struct Faults {
    rng: Rng,
}

impl Faults {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed) }
    }

    /// One fault after the other until it is told to stop; says how many.
    pub(crate) async fn inject(&mut self, fleet: &mut Fleet, mut stop: oneshot::Receiver<()>) -> usize {
        let mut injected = 0;
        loop {
            let pause = Duration::from_millis(self.rng.range(50, 600));
            tokio::select! {
                biased;
                _ = &mut stop => return injected,
                () = tokio::time::sleep(pause) => {}
            }
            match self.one(fleet).await {
                Ok(()) => injected += 1,
                Err(why) => eprintln!("a fault could not be injected: {why}"),
            }
        }
    }

    async fn one(&mut self, fleet: &mut Fleet) -> Result<(), Failure> {
        let number = usize::try_from(self.rng.range(0, fleet.count() as u64))?;
        if self.rng.range(0, 2) == 0 {
            let down = Duration::from_millis(self.rng.range(0, 300));
            return fleet.kill_and_restart(number, down).await;
        }
        // Some shorter than the patience of the others, some longer.
        let still = Duration::from_millis(self.rng.range(20, 1_500));
        fleet.signal(number, Signal::STOP)?;
        tokio::time::sleep(still).await;
        fleet.signal(number, Signal::CONT)
    }
}
