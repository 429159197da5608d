//! Numbered answers from several places: in order, each once, and whether all have come.
//!
//! Chains and calls are counted alike: an account is a branch of a split chain, a sub-chain that a service listens to, or a right to reply.

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::{BRANCHES_MAX, Branch, Value};

use super::InOrder;
use crate::Policy;

/// Answers of all branches of one chain, or under all rights to answer one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    accounts: BTreeMap<Branch, Account>,
    /// Accounts that are awaited and not complete.
    open: usize,
    held: usize,
    held_bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Account {
    answers: InOrder<Value>,
    /// The tally is not complete before this account is.
    awaited: bool,
    /// How many answers there are in all, once that is known.
    total: Option<u32>,
}

impl Account {
    fn is_open(&self) -> bool {
        self.awaited && self.total.is_none_or(|total| self.answers.next() < total)
    }
}

/// What became of an answer that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// It is held until those before it have come.
    Kept,
    /// It came before.
    Repeat,
    /// There is no room for it: it has to be sent again.
    NoRoom,
}

impl Tally {
    /// How many answers of a branch have been handed out.
    pub(crate) fn delivered(&self, branch: &Branch) -> u32 {
        self.accounts.get(branch).map_or(0, |account| account.answers.next())
    }

    /// Whether everything that is awaited has been counted, has arrived and has been handed out.
    pub(crate) const fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// Whether this branch is awaited, and is not complete.
    pub(crate) fn is_open(&self, branch: &Branch) -> bool {
        self.accounts.get(branch).is_some_and(Account::is_open)
    }

    /// Whether answers of this branch can be kept track of before its end is known.
    pub(crate) fn has_room(&self, branch: &Branch) -> bool {
        branch.is_root() || self.accounts.len() < BRANCHES_MAX || self.accounts.contains_key(branch)
    }

    /// Bytes of answers that wait for earlier ones.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// An answer has come. The next in order of a branch that is kept track of always finds room, since it releases what is held behind it. `room`: how many
    /// bytes there is room for at this node; `None` for answers of this node itself, which are not sent again.
    pub(crate) fn take(
        &mut self,
        branch: &Branch,
        number: u32,
        value: Value,
        room: Option<usize>,
        policy: &Policy,
    ) -> Taken {
        if room.is_some() && !self.has_room(branch) {
            return Taken::NoRoom;
        }
        let heavy = self.held_bytes >= policy.partials_held_bytes_max && !bug!(policy, HeldUnweighed);
        let full = self.held >= policy.partials_held_max || heavy;
        let full = room.is_some_and(|room| full || value.len_bytes() > room);
        let answers = &mut self.accounts.entry(branch.clone()).or_default().answers;
        if answers.has(number) {
            return Taken::Repeat;
        }
        if number > answers.next() && full && !bug!(policy, HoldsWithoutBound) {
            return Taken::NoRoom;
        }
        self.held += 1;
        self.held_bytes += value.len_bytes();
        answers.insert(number, value);
        Taken::Kept
    }

    pub(crate) fn pop(&mut self, branch: &Branch) -> Option<Value> {
        let value = self.change(branch, |account| account.answers.pop())?;
        self.held -= 1;
        self.held_bytes -= value.len_bytes();
        Some(value)
    }

    /// Answers with the numbers from `first` on have come. Returns all of this branch that can be handed out now, in order.
    pub(crate) fn take_all(
        &mut self,
        branch: &Branch,
        first: u32,
        mut values: Vec<Value>,
        policy: &Policy,
    ) -> Vec<Value> {
        let next = self.delivered(branch);
        if first <= next && self.has_room(branch) {
            let repeats = ((next - first) as usize).min(values.len());
            let news = u32::try_from(values.len() - repeats).unwrap_or(u32::MAX);
            self.accounts.entry(branch.clone()).or_default();
            if self.change(branch, |account| account.answers.pass(news)) {
                values.drain(..repeats);
                return values;
            }
        }
        let mut ready = Vec::new();
        for (number, value) in (first..).zip(values) {
            if self.take(branch, number, value, Some(usize::MAX), policy) == Taken::NoRoom {
                break;
            }
            ready.extend(core::iter::from_fn(|| self.pop(branch)));
        }
        ready
    }

    /// A branch is known to exist: nothing is complete before its end has come. Calling this twice has no effect. It always finds room: who calls it has
    /// counted the branches.
    pub(crate) fn await_end(&mut self, branch: &Branch) {
        self.accounts.entry(branch.clone()).or_default();
        self.change(branch, |account| account.awaited = true);
    }

    /// The end of a branch has come, and says how many answers there are.
    pub(crate) fn ended(&mut self, branch: &Branch, total: u32) {
        self.await_end(branch);
        self.change(branch, |account| account.total = Some(total));
    }

    pub(crate) fn give_up(&mut self, branch: &Branch) {
        self.change(branch, |account| account.awaited = false);
    }

    /// Forgets which branches are awaited, and how many answers they have.
    pub(crate) fn forget_totals(&mut self) {
        self.accounts.values_mut().for_each(|account| (account.awaited, account.total) = (false, None));
        self.open = 0;
    }

    fn change<T: Default>(&mut self, branch: &Branch, change: impl FnOnce(&mut Account) -> T) -> T {
        let Some(account) = self.accounts.get_mut(branch) else { return T::default() };
        let before = account.is_open();
        let changed = change(account);
        match (before, account.is_open()) {
            (false, true) => self.open += 1,
            (true, false) => self.open -= 1,
            _ => {}
        }
        changed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn take(tally: &mut Tally, branch: &Branch, number: u32) -> Taken {
        tally.take(branch, number, Value::encode(&number), Some(usize::MAX), &Policy::default())
    }

    #[test]
    fn it_is_complete_when_each_end_and_all_that_it_counts_have_come_in_any_order() {
        let root = Branch::root();
        let one = root.child(1).unwrap();
        let mut tally = Tally::default();
        tally.await_end(&root);
        assert_eq!(take(&mut tally, &one, 1), Taken::Kept);
        tally.ended(&one, 2);
        tally.ended(&root, 0);
        assert!(!tally.is_complete() && tally.pop(&one).is_none(), "the first answer has not come");
        assert_eq!((take(&mut tally, &one, 0), take(&mut tally, &one, 0)), (Taken::Kept, Taken::Repeat));
        assert!(tally.pop(&one).is_some() && !tally.is_complete());
        assert!(tally.pop(&one).is_some() && tally.is_complete());
        assert_eq!(take(&mut tally, &one, 1), Taken::Repeat);
        assert_eq!((tally.held, tally.held_bytes), (0, 0));
    }

    #[test]
    fn an_end_that_comes_twice_counts_once() {
        let root = Branch::root();
        let one = root.child(1).unwrap();
        let mut tally = Tally::default();
        tally.await_end(&root);
        tally.await_end(&one);
        tally.ended(&one, 0);
        tally.ended(&one, 0);
        assert!(!tally.is_complete());
        tally.give_up(&root);
        tally.give_up(&root);
        assert!(tally.is_complete());
    }

    #[test]
    fn what_overtakes_is_bounded_and_what_comes_in_order_is_not() {
        let root = Branch::root();
        let policy = Policy { partials_held_max: 1, ..Policy::default() };
        let mut tally = Tally::default();
        let null = Value::null();
        let mut take = |number, room| tally.take(&root, number, null.clone(), room, &policy);
        let much = Some(usize::MAX);
        assert_eq!(take(1, Some(0)), Taken::NoRoom, "the node has none");
        assert_eq!([take(1, much), take(2, much), take(0, Some(0))], [Taken::Kept, Taken::NoRoom, Taken::Kept]);
        assert_eq!(take(3, None), Taken::Kept, "it cannot come again");
    }

    #[test]
    fn answers_of_more_branches_than_can_be_counted_come_again_until_the_end_names_their_branch() {
        let branch = |number: usize| Branch::root().child(u16::try_from(number).unwrap()).unwrap();
        let mut tally = Tally::default();
        for number in 1..=BRANCHES_MAX {
            assert_eq!(take(&mut tally, &branch(number), 0), Taken::Kept);
        }
        let [late, own] = [1, 2].map(|more| branch(BRANCHES_MAX + more));
        assert_eq!(take(&mut tally, &late, 0), Taken::NoRoom);
        tally.ended(&late, 1);
        assert!(!tally.is_complete(), "its answer is awaited");
        assert_eq!(take(&mut tally, &late, 0), Taken::Kept);
        assert!(tally.pop(&late).is_some() && tally.is_complete());
        assert_eq!(tally.take(&own, 0, Value::null(), None, &Policy::default()), Taken::Kept, "it cannot come again");
    }
}
