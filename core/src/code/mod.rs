//! Functions by hash: uploaded to the repository, fetched from it, else from the hop before (rpc-chains section 3.2).

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use bytes::Bytes;
use catena_wire::{Hash, Message, NodeId, NodeRef};

use crate::{
    Action, Policy, Receipt, SessionId, Time, Urgency, Wanted,
    collections::{Party, Shares, Timers},
    outbox::Outbox,
};

/// Limit on the nodes that may be asked for one function: the repository, and some that have had it.
const SOURCES_MAX: usize = 8;

#[derive(Clone, Debug)]
struct Fetch {
    /// Whose chain needed it first.
    by: Party,
    sessions: BTreeSet<SessionId>,
    /// Nodes that may have it, and how often each was asked.
    sources: VecDeque<(Arc<NodeRef>, u8)>,
    /// The node that is being asked, as in `sources`.
    source: Option<(Arc<NodeRef>, u8)>,
    asked: Option<Asked>,
    /// All nodes that have been asked.
    asked_before: Vec<NodeId>,
    registry_tried: bool,
}

/// Who is being asked for a function. The registry is asked when no node has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Node(NodeId),
    Registry,
    /// Nobody any more: the function has arrived, and is being checked and stored.
    Store,
}

impl Fetch {
    fn new(by: Party) -> Self {
        let (sessions, sources) = (BTreeSet::new(), VecDeque::new());
        Self { by, sessions, sources, source: None, asked: None, asked_before: Vec::new(), registry_tried: false }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Codes {
    /// The node that keeps functions for all.
    repository: Option<Arc<NodeRef>>,
    /// There is a registry, which keeps functions beyond the life of every node.
    has_registry: bool,
    fetches: BTreeMap<Hash, Fetch>,
    /// Which of the fetches above each node is being asked for.
    asked: BTreeSet<(NodeId, Hash)>,
    /// How many functions are being fetched for each party.
    shares: Shares<Party>,
    timers: Timers<Hash>,
    /// Which node has been sent which function, so that a function is sent along only once per link.
    sent: BTreeSet<(NodeId, Hash)>,
}

/// Sessions that cannot go on: nobody has their function.
pub(crate) type GivenUp = Vec<SessionId>;

impl Codes {
    pub(crate) fn set_repository(&mut self, repository: Arc<NodeRef>) {
        self.repository = Some(repository);
    }

    pub(crate) const fn set_registry(&mut self) {
        self.has_registry = true;
    }

    pub(crate) const fn repository(&self) -> Option<&Arc<NodeRef>> {
        self.repository.as_ref()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Uploads a function to the repository, if there is one that has not had it from here (rpc-chains section 3.2: uploaded once).
    pub(crate) fn offer(&mut self, out: &mut Outbox, me: NodeId, code: Hash, bytes: Bytes, policy: &Policy) {
        let Some(repository) = self.repository.clone().filter(|repository| repository.id != me) else { return };
        if !self.was_sent(repository.id, code) {
            self.note_sent(repository.id, code, policy);
            out.send(&repository, Message::Code(code, bytes), Receipt::None, Urgency::Now);
        }
    }

    /// How many functions are being fetched for chains of this party, and for all.
    pub(crate) fn fetching(&self, by: Party) -> (usize, usize) {
        (self.shares.of(by), self.shares.all())
    }

    /// Whether this function is being fetched.
    pub(crate) fn fetches(&self, code: Hash) -> bool {
        self.fetches.contains_key(&code)
    }

    /// A session of a chain that this party brought needs a function that is not here. `sources` are in order of preference.
    pub(crate) fn want(
        &mut self,
        now: Time,
        out: &mut Outbox,
        code: Hash,
        (session, by): (SessionId, Party),
        sources: impl IntoIterator<Item = Arc<NodeRef>>,
        policy: &Policy,
    ) -> GivenUp {
        if !self.fetches(code) {
            self.shares.add(by);
        }
        let fetch = self.fetches.entry(code).or_insert_with(|| Fetch::new(by));
        fetch.sessions.insert(session);
        for source in sources {
            let known =
                fetch.asked_before.contains(&source.id) || fetch.sources.iter().any(|(known, _)| known.id == source.id);
            let new = fetch.sources.iter().filter(|(_, times)| *times == 0).count();
            if !known && fetch.asked_before.len() + new < SOURCES_MAX {
                fetch.sources.push_back((source, 0));
            }
        }
        if fetch.asked.is_some() { Vec::new() } else { self.ask_next(now, out, code, policy) }
    }

    /// The source that was asked does not have the function, is gone, is late, or sent something else: the next one is asked.
    pub(crate) fn ask_next(&mut self, now: Time, out: &mut Outbox, code: Hash, policy: &Policy) -> GivenUp {
        let Some(fetch) = self.fetches.get_mut(&code) else { return Vec::new() };
        if let Some(Asked::Node(before)) = fetch.asked.take() {
            self.asked.remove(&(before, code));
        }
        let least_asked = fetch.sources.iter().enumerate().min_by_key(|(_, (_, times))| *times);
        let (at, times) = least_asked.map_or((0, u8::MAX), |(at, (_, times))| (at, *times));
        if times > 0 && self.has_registry && !fetch.registry_tried {
            (fetch.source, fetch.asked, fetch.registry_tried) = (None, Some(Asked::Registry), true);
            out.ask(Action::FetchCode(code));
        } else {
            fetch.source = fetch.sources.remove(at);
            let Some((source, times)) = &mut fetch.source else { return self.finish(code) };
            *times += 1;
            fetch.asked = Some(Asked::Node(source.id));
            self.asked.insert((source.id, code));
            if !fetch.asked_before.contains(&source.id) {
                fetch.asked_before.push(source.id);
            }
            let receipt = Receipt::WantCode(Wanted { code, from: source.id });
            out.send(source, Message::WantCode(code), receipt, Urgency::Now);
        }
        self.timers.set(code, now.after(policy.code_fetch_timeout_us));
        Vec::new()
    }

    /// Nothing will be heard from the source that was asked: its link has broken or could not be made. Returns whether another is to be asked now; if all have
    /// been, they are asked again after a pause, in which links may come back.
    pub(crate) fn unheard(&mut self, now: Time, code: Hash, policy: &Policy) -> bool {
        self.requeue(code, policy);
        let Some(fetch) = self.fetches.get_mut(&code) else { return false };
        if let Some(Asked::Node(before)) = fetch.asked.take() {
            self.asked.remove(&(before, code));
        }
        let again = !fetch.sources.is_empty() && fetch.sources.iter().all(|(_, times)| *times > 0);
        let pauses = again && (fetch.registry_tried || !self.has_registry);
        if pauses {
            self.timers.set(code, now.after(policy.accept_timeout_us.max(1)));
        }
        !pauses
    }

    /// The source that was asked may be asked again, after all others.
    fn requeue(&mut self, code: Hash, policy: &Policy) {
        if let Some(fetch) = self.fetches.get_mut(&code)
            && let Some((source, times)) = fetch.source.take().filter(|(_, times)| *times < policy.hop_attempts_max)
        {
            fetch.sources.push_back((source, times));
        }
    }

    /// A function has come, perhaps from a node that was asked before and is late. Only the repository accepts a function that it did not ask for.
    pub(crate) fn came(&mut self, out: &mut Outbox, me: NodeId, from: NodeId, code: Hash, bytes: Bytes) {
        let awaited = self.is_asked(code, Asked::Node(from)) || self.accept_late(code, from);
        if awaited {
            self.store(code);
        }
        if awaited || self.repository.as_ref().is_some_and(|repository| repository.id == me) {
            out.ask(Action::StoreCode { code, bytes });
        }
    }

    /// Takes the function from this source, if it was asked before and not heard, and has now had its turn. The source being asked now is no longer waited for,
    /// and keeps its turn, in case the bytes are wrong.
    fn accept_late(&mut self, code: Hash, from: NodeId) -> bool {
        let Some(fetch) = self.fetches.get_mut(&code).filter(|fetch| fetch.asked != Some(Asked::Store)) else {
            return false;
        };
        let late = fetch.sources.iter().position(|(source, times)| source.id == from && *times > 0);
        let Some(late) = late else { return false };
        fetch.sources.remove(late);
        if let Some((source, times)) = fetch.source.take() {
            fetch.sources.push_back((source, times.saturating_sub(1)));
        }
        if fetch.asked == Some(Asked::Registry) {
            fetch.registry_tried = false;
        }
        true
    }

    /// The registry has answered a request for a function. Returns whether others are to be asked.
    pub(crate) fn fetched(&mut self, out: &mut Outbox, code: Hash, bytes: Option<Bytes>) -> bool {
        if !self.is_asked(code, Asked::Registry) {
            return false;
        }
        let Some(bytes) = bytes else { return true };
        self.store(code);
        out.ask(Action::StoreCode { code, bytes });
        false
    }

    /// The awaited function has arrived: whoever needs it meanwhile asks nobody, a link that breaks loses nothing, and nobody is late.
    fn store(&mut self, code: Hash) {
        self.timers.clear(&code);
        if let Some(Asked::Node(node)) = self.fetches.get_mut(&code).and_then(|fetch| fetch.asked.replace(Asked::Store))
        {
            self.asked.remove(&(node, code));
        }
    }

    fn is_asked(&self, code: Hash, asked: Asked) -> bool {
        self.fetches.get(&code).is_some_and(|fetch| fetch.asked == Some(asked))
    }

    /// Whether what has come for a fetch is being stored.
    pub(crate) fn stores(&self, code: Hash) -> bool {
        self.is_asked(code, Asked::Store)
    }

    pub(crate) fn awaits(&self, code: Hash, from: NodeId) -> bool {
        self.is_asked(code, Asked::Node(from))
    }

    /// A fetch is over: the function is here, or nobody has it. Returns the sessions that wait for it.
    pub(crate) fn finish(&mut self, code: Hash) -> Vec<SessionId> {
        self.timers.clear(&code);
        let Some(fetch) = self.fetches.remove(&code) else { return Vec::new() };
        self.shares.remove(fetch.by);
        if let Some(Asked::Node(asked)) = fetch.asked {
            self.asked.remove(&(asked, code));
        }
        fetch.sessions.into_iter().collect()
    }

    /// A function whose source is late: the next one is to be asked.
    pub(crate) fn take_late(&mut self, now: Time, policy: &Policy) -> Option<Hash> {
        let code = self.timers.take_due(now)?;
        self.requeue(code, policy);
        Some(code)
    }

    pub(crate) fn was_sent(&self, to: NodeId, code: Hash) -> bool {
        self.sent.contains(&(to, code))
    }

    pub(crate) fn note_sent(&mut self, to: NodeId, code: Hash, policy: &Policy) {
        if self.sent.len() >= policy.codes_sent_max {
            // Forgetting costs little: a function is sent along once more.
            self.sent.pop_first();
        }
        self.sent.insert((to, code));
    }

    /// The link to a node has broken: what it was sent may not have arrived, and what it was asked for must be requested from another.
    pub(crate) fn link_lost(&mut self, now: Time, node: NodeId, policy: &Policy) -> Vec<Hash> {
        let (low, high) = ((node, Hash([0; 32])), (node, Hash([0xff; 32])));
        self.sent.extract_if(low..=high, |_| true).for_each(drop);
        let mut unheard: Vec<Hash> = self.asked.range(low..=high).map(|(_, code)| *code).collect();
        unheard.retain(|code| self.unheard(now, *code, policy));
        unheard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many sessions need the function meanwhile, however long storing takes, and even if the link over which it came breaks.
    #[test]
    fn what_has_come_and_is_being_stored_is_asked_of_nobody_else() {
        let node = |id| Arc::new(NodeRef { id: NodeId(id), name: "n".into(), address: None, site: None });
        let (mut codes, policy, now) = (Codes::default(), Policy::default(), Time::default());
        let (mut out, code, by) = (Outbox::new(node(1)), Hash([7; 32]), Party::Node(NodeId(2)));
        for from_registry in [false, true] {
            codes.has_registry = from_registry;
            let sources = if from_registry { Vec::new() } else { alloc::vec![node(9)] };
            codes.want(now, &mut out, code, (SessionId(1), by), sources, &policy);
            match from_registry {
                false => codes.came(&mut out, NodeId(1), NodeId(9), code, Bytes::new()),
                true => {
                    assert!(!codes.fetched(&mut out, code, Some(Bytes::new())) && !codes.fetched(&mut out, code, None))
                }
            }
            assert!(
                codes.stores(code)
                    && codes.link_lost(now, NodeId(9), &policy).is_empty()
                    && codes.next_timeout().is_none()
            );
            assert!(codes.want(now, &mut out, code, (SessionId(2), by), [], &policy).is_empty(), "it is on its way");
            assert_eq!(codes.finish(code), [SessionId(1), SessionId(2)]);
        }
        assert!(codes.asked.is_empty());
    }

    #[test]
    fn a_source_of_which_nothing_was_heard_is_asked_again_and_not_for_ever() {
        let node = |id| Arc::new(NodeRef { id: NodeId(id), name: "n".into(), address: None, site: None });
        let (mut codes, policy, now) = (Codes::default(), Policy::default(), Time::default());
        let (mut out, code, by) = (Outbox::new(node(1)), Hash([7; 32]), Party::Node(NodeId(2)));
        codes.want(now, &mut out, code, (SessionId(1), by), [node(8), node(9)], &policy);
        let (mut asked, mut at) = (Vec::new(), now);
        let given_up = loop {
            let source = codes.asked.first().map_or(0, |(node, _)| node.0);
            asked.push(source);
            let mut next = codes.link_lost(at, NodeId(source), &policy);
            if next.is_empty() {
                at = at.after(policy.accept_timeout_us);
                next.extend(codes.take_late(at, &policy));
            }
            assert_eq!(next, [code]);
            let given_up = codes.ask_next(at, &mut out, code, &policy);
            if !given_up.is_empty() {
                break given_up;
            }
        };
        assert_eq!((asked, given_up), (alloc::vec![8, 9, 8, 9, 8, 9], alloc::vec![SessionId(1)]));
        codes.want(now, &mut out, code, (SessionId(1), by), [node(8), node(9)], &policy);
        codes.link_lost(now, NodeId(8), &policy);
        codes.ask_next(now, &mut out, code, &policy);
        codes.came(&mut out, NodeId(1), NodeId(8), code, Bytes::new());
        assert!(codes.stores(code), "from the one that was asked before, and is late");
        codes.ask_next(now, &mut out, code, &policy);
        codes.came(&mut out, NodeId(1), NodeId(8), code, Bytes::new());
        assert!(codes.awaits(code, NodeId(9)), "it sent something else, and the other one has its turn");
    }

    #[test]
    fn wrong_bytes_of_a_late_source_cost_the_registry_nothing() {
        let node = |id| Arc::new(NodeRef { id: NodeId(id), name: "n".into(), address: None, site: None });
        let (mut codes, policy, now) = (Codes::default(), Policy::default(), Time::default());
        let (mut out, code, by) = (Outbox::new(node(1)), Hash([7; 32]), Party::Node(NodeId(2)));
        codes.set_registry();
        codes.want(now, &mut out, code, (SessionId(1), by), [node(8)], &policy);
        assert_eq!(codes.link_lost(now, NodeId(8), &policy), [code]);
        codes.ask_next(now, &mut out, code, &policy);
        assert!(codes.is_asked(code, Asked::Registry), "before any node a second time");
        codes.came(&mut out, NodeId(1), NodeId(8), code, Bytes::new());
        assert!(codes.stores(code) && codes.ask_next(now, &mut out, code, &policy).is_empty());
        assert!(codes.is_asked(code, Asked::Registry));
    }

    #[test]
    fn a_link_that_breaks_concerns_the_functions_only_that_its_node_was_asked_for() {
        let node = |id| Arc::new(NodeRef { id: NodeId(id), name: "n".into(), address: None, site: None });
        let (mut codes, policy, now) = (Codes::default(), Policy::default(), Time::default());
        let mut out = Outbox::new(node(1));
        for code in 0..100 {
            let sources = [node(u64::from(code) + 10), node(9), node(8)];
            codes.want(now, &mut out, Hash([code; 32]), (SessionId(1), Party::Node(NodeId(2))), sources, &policy);
        }
        assert_eq!(
            (codes.link_lost(now, NodeId(10), &policy), codes.link_lost(now, NodeId(9), &policy)),
            (alloc::vec![Hash([0; 32])], alloc::vec![])
        );
        codes.ask_next(now, &mut out, Hash([0; 32]), &policy);
        assert_eq!(
            (codes.link_lost(now, NodeId(10), &policy), codes.link_lost(now, NodeId(9), &policy)),
            (alloc::vec![], alloc::vec![Hash([0; 32])])
        );
        (0..100).for_each(|code| drop(codes.finish(Hash([code; 32]))));
        assert!(codes.asked.is_empty() && codes.fetching(Party::Node(NodeId(2))) == (0, 0));
    }
}
