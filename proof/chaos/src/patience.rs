//! Waiting for something that must come, by a clock that stands still while the whole machine does.

use std::time::Duration;

use tokio::{pin, select, time::sleep};

/// However long a tick took, it counts as this long: a machine that stood still has used up none of anybody's time.
const TICK: Duration = Duration::from_millis(50);

/// What the future yields, unless it takes longer than `at_most`.
pub(crate) async fn within<T>(at_most: Duration, future: impl Future<Output = T>) -> Option<T> {
    pin!(future);
    for _ in 0..at_most.as_millis().div_ceil(TICK.as_millis()) {
        select! {
            biased;
            it = &mut future => return Some(it),
            () = sleep(TICK) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use tokio::time::{Instant, advance, sleep};

    use super::within;

    const LIMIT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_waited_for_as_long_as_said() {
        let begun = Instant::now();
        assert_eq!(within(LIMIT, pending::<()>()).await, None);
        assert!(begun.elapsed() >= LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn time_at_which_the_machine_stood_still_does_not_count() {
        let slow = async {
            sleep(LIMIT / 4).await;
            advance(10 * LIMIT).await;
            sleep(LIMIT / 4).await;
        };
        assert_eq!(within(LIMIT, slow).await, Some(()));
    }
}
