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
        let number = self.rng.below(fleet.count());
        match self.rng.below(4) {
            0 => fleet.kill_and_restart(&[number], self.down()).await,
            // What one has lost, the other cannot tell either.
            1 => fleet.kill_and_restart(&[number, (number + 1) % fleet.count()], self.down()).await,
            _ => self.stop_for_a_while(fleet, number).await,
        }
    }

    fn down(&mut self) -> Duration {
        Duration::from_millis(self.rng.range(0, 300))
    }

    /// Some shorter than the patience of the others, some longer.
    async fn stop_for_a_while(&mut self, fleet: &Fleet, number: usize) -> Result<(), Failure> {
        let still = Duration::from_millis(self.rng.range(20, 1_500));
        fleet.signal(number, Signal::STOP)?;
        tokio::time::sleep(still).await;
        fleet.signal(number, Signal::CONT)
    }
}
