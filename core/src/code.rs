//! Getting a function that is not here: from the repository, else from the hop before (rpc-chains section 3.2).

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Hash, NodeId, NodeRef};

use crate::{Policy, SessionId, Time, timers::Timers};

#[derive(Clone, Debug)]
struct Fetch {
    sessions: Vec<SessionId>,
    sources: VecDeque<Arc<NodeRef>>,
    asked: Option<Arc<NodeRef>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Codes {
    fetches: BTreeMap<Hash, Fetch>,
    timers: Timers<Hash>,
    /// Which node has been sent which function, so that it rides along only once a link.
    sent: BTreeSet<(NodeId, Hash)>,
}

/// What to do about a function now.
#[derive(Debug)]
pub(crate) enum Next {
    /// Ask this node.
    Ask(Arc<NodeRef>),
    /// Somebody has been asked already.
    Wait,
    /// Nobody has it: these sessions can't go on.
    GiveUp(Vec<SessionId>),
}

impl Codes {
    /// A session needs a function; `sources` in order of preference.
    pub(crate) fn want(
        &mut self,
        now: Time,
        code: Hash,
        session: SessionId,
        sources: impl IntoIterator<Item = Arc<NodeRef>>,
        policy: &Policy,
    ) -> Next {
        if self.fetches.len() >= policy.codes_fetching_max && !self.fetches.contains_key(&code) {
            return Next::GiveUp(alloc::vec![session]);
        }
        let fetch = self.fetches.entry(code).or_insert_with(|| Fetch {
            sessions: Vec::new(),
            sources: VecDeque::new(),
            asked: None,
        });
        if !fetch.sessions.contains(&session) {
            fetch.sessions.push(session);
        }
        for source in sources {
            if !fetch.sources.iter().any(|known| known.id == source.id)
                && fetch.asked.as_ref().is_none_or(|asked| asked.id != source.id)
            {
                fetch.sources.push_back(source);
            }
        }
        if fetch.asked.is_some() { Next::Wait } else { self.ask_next(now, code, policy) }
    }

    /// Whoever was asked does not have it, is gone, is late, or sent something else.
    pub(crate) fn ask_next(&mut self, now: Time, code: Hash, policy: &Policy) -> Next {
        let Some(fetch) = self.fetches.get_mut(&code) else {
            return Next::Wait;
        };
        if let Some(source) = fetch.sources.pop_front() {
            fetch.asked = Some(source.clone());
            self.timers.set(code, now.after(policy.code_fetch_timeout_us));
            return Next::Ask(source);
        }
        Next::GiveUp(self.finish(code))
    }

    /// Nothing is being fetched.
    pub(crate) fn is_idle(&self) -> bool {
        self.fetches.is_empty()
    }

    /// Whether this function is awaited from that node.
    pub(crate) fn awaits(&self, code: Hash, from: NodeId) -> bool {
        self.fetches.get(&code).and_then(|fetch| fetch.asked.as_ref()).is_some_and(|asked| asked.id == from)
    }

    pub(crate) fn is_fetching(&self, code: Hash) -> bool {
        self.fetches.contains_key(&code)
    }

    /// It is here: these sessions can go on.
    pub(crate) fn finish(&mut self, code: Hash) -> Vec<SessionId> {
        self.timers.clear(code);
        self.fetches.remove(&code).map(|fetch| fetch.sessions).unwrap_or_default()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(crate) fn take_late(&mut self, now: Time) -> Option<Hash> {
        self.timers.take_due(now)
    }

    pub(crate) fn was_sent(&self, to: NodeId, code: Hash) -> bool {
        self.sent.contains(&(to, code))
    }

    pub(crate) fn note_sent(&mut self, to: NodeId, code: Hash, policy: &Policy) {
        if self.sent.len() >= policy.codes_sent_max {
            // Forgetting costs one function riding along again.
            self.sent.pop_first();
        }
        self.sent.insert((to, code));
    }

    pub(crate) fn forget_node(&mut self, node: NodeId) {
        let low = (node, Hash([0; 32]));
        let high = (node, Hash([0xff; 32]));
        let gone: Vec<_> = self.sent.range(low..=high).copied().collect();
        for pair in gone {
            self.sent.remove(&pair);
        }
    }

    /// Functions asked of a node that is gone.
    pub(crate) fn asked_of(&self, node: NodeId) -> Vec<Hash> {
        self.fetches
            .iter()
            .filter(|(_, fetch)| fetch.asked.as_ref().is_some_and(|asked| asked.id == node))
            .map(|(code, _)| *code)
            .collect()
    }
}
