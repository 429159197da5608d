//! Questions to other nodes: each is forgotten once nobody waits for its answer.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use catena_net::awake;
use tokio::sync::oneshot;

use super::lock;
use crate::random;

/// Questions of one kind that are under way, by their numbers, which are random: only the node that was asked can answer.
pub(super) struct Questions<T> {
    under_way: Mutex<HashMap<u64, oneshot::Sender<T>>>,
}

impl<T> Default for Questions<T> {
    fn default() -> Self {
        Self { under_way: Mutex::default() }
    }
}

impl<T> Questions<T> {
    pub(super) fn ask(&self) -> Question<'_, T> {
        let (number, (sender, answer)) = (random::bits64(), oneshot::channel());
        lock(&self.under_way).insert(number, sender);
        Question { of: self, number, answer }
    }

    /// The answer has come: nobody may wait for it any more.
    pub(super) fn answered(&self, number: u64, answer: T) {
        if let Some(waiting) = lock(&self.under_way).remove(&number) {
            let _ = waiting.send(answer);
        }
    }
}

/// A question that waits for its answer.
pub(super) struct Question<'a, T> {
    of: &'a Questions<T>,
    pub(super) number: u64,
    answer: oneshot::Receiver<T>,
}

impl<T> Question<'_, T> {
    pub(super) async fn answer_within(mut self, most: Duration) -> Option<T> {
        awake::timeout(most, &mut self.answer).await.ok()?.ok()
    }
}

impl<T> Drop for Question<'_, T> {
    fn drop(&mut self) {
        lock(&self.of.under_way).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_is_forgotten_when_it_is_answered_late_or_given_up() {
        let questions = Questions::default();
        let first = questions.ask();
        questions.answered(first.number, "yes");
        assert_eq!(first.answer_within(Duration::from_secs(60)).await, Some("yes"));
        assert_eq!(questions.ask().answer_within(Duration::ZERO).await, None);
        drop(questions.ask().answer_within(Duration::from_secs(60)));
        assert!(lock(&questions.under_way).is_empty());
    }
}
