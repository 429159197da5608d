//! What a stranger may say about a chain that is not his.

use catena_core::{Action, Policy, Replied, Undelivered};
use catena_wire::{
    ChainId, Exception, Fault, Hop, Listener, LogLine, Merge, Message, NodeId, Part, Value, Whereabouts, names,
};

use super::*;

fn branch(parts: &[u16]) -> Branch {
    parts.iter().fold(Branch::root(), |branch, part| branch.child(*part).unwrap())
}

fn merge(at: StepKey) -> Option<Merge> {
    Some(Merge { host: (*node_ref(9)).clone(), at, listener: Listener::Origin })
}

fn refused(node: &mut Node, hop: Hop) -> bool {
    node.on_message(NOW, &node_ref(2), Message::Hop(Box::new(hop)));
    let answers = sent(&actions(node));
    matches!(&answers[..], [(_, Message::Refused(_, why), _)] if why.name == names::PROTOCOL)
}

#[test]
fn a_step_that_is_not_of_the_chain_it_claims_to_be_of_is_refused() {
    let mut node = node(Policy::default());
    let mut number = 0;
    let mut fresh = || {
        number += 1;
        *hop(number, 2)
    };
    let honest = fresh();
    let of = |hop: &Hop, parts: &[u16]| StepKey { branch: branch(parts), ..hop.key.clone() };
    let hops = [
        ("another origin's chain", Hop { header: header(8), ..fresh() }),
        ("a branch with no parent", Hop { key: of(&honest, &[1]), ..fresh() }),
        ("the whole chain, with a parent", Hop { merge: merge(key(honest.key.chain, 1)), ..fresh() }),
        (
            "a branch of another chain's parent",
            Hop { key: of(&honest, &[1]), merge: merge(key(ChainId { origin: NodeId(9), number: 99 }, 1)), ..fresh() },
        ),
        (
            "a branch of another branch's parent",
            Hop { key: of(&honest, &[1, 1]), merge: merge(of(&honest, &[2])), ..fresh() },
        ),
        ("more branches than were ever numbered", Hop { branches: 3, splits: 2, ..fresh() }),
    ];
    for (what, hop) in hops {
        assert!(refused(&mut node, hop), "{what}");
    }
    // Of another chain: what was refused once stays refused.
    let other = fresh();
    let honest = Hop { key: of(&other, &[1]), merge: merge(key(other.key.chain, 1)), ..other };
    assert!(!refused(&mut node, honest), "and a branch of the chain's own parent is not");
}

#[test]
fn answers_for_a_chain_of_another_origin_are_dropped() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    for foreign in [ChainId { origin: NodeId(9), ..chain }, ChainId { number: chain.number + 1, ..chain }] {
        let partial = Message::Partial { key: key(foreign, 1), number: 0, value: Value::null(), to: 0 };
        node.on_message(NOW, &node_ref(2), partial);
        node.on_message(NOW, &node_ref(2), Message::End(Box::new(end(key(foreign, 1), None))));
        node.on_message(NOW, &node_ref(2), Message::Console(key(foreign, 1), 0, Vec::new()));
    }
    let said = sent(&actions(&mut node));
    assert!(said.iter().all(|(_, message, _)| matches!(message, Message::Received(..))), "{said:?}");
    assert_eq!(node.load().0, 1);
}

#[test]
fn a_sign_of_life_of_another_chain_branch_or_step_releases_no_hop() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    let mine = key(chain, 1);
    let heard = |node: &mut Node, key: &StepKey| {
        let partial = Message::Partial { key: key.clone(), number: 0, value: Value::null(), to: 0 };
        let beat = Message::Heartbeat(key.clone(), (*node_ref(3)).clone(), Vec::new());
        for message in [beat, partial] {
            node.on_message(NOW, &node_ref(3), message);
        }
        actions(node);
        node.load().0
    };
    let others = [
        ("the number before", key(ChainId { number: chain.number - 1, ..chain }, 1)),
        ("the number after", key(ChainId { number: chain.number + 1, ..chain }, 1)),
        ("another origin", key(ChainId { origin: NodeId(9), ..chain }, 1)),
        ("another branch", StepKey { branch: branch(&[1]), ..mine.clone() }),
        ("the step before", key(chain, 0)),
    ];
    for (what, other) in others {
        assert_eq!(heard(&mut node, &other), 1, "{what}");
    }
    node.on_link_lost(NOW, NodeId(2), false);
    let again = sent(&actions(&mut node));
    assert!(matches!(&again[..], [(NodeId(2), Message::Hop(hop), _)] if hop.key == mine), "{again:?}");
    assert_eq!(heard(&mut node, &mine), 0, "who knows its whole id shows that it arrived");
}

#[test]
pub(crate) fn only_its_origin_and_whoever_brought_a_chain_may_stop_it() {
    let mut node = node(Policy::default());
    arrived(&mut node, hop(1, 1));
    let chain = hop(1, 1).key.chain;
    node.on_message(NOW, &node_ref(3), Message::Cancel(chain));
    let heard = |action: &Action| matches!(action, Action::Send { to, .. } if to.id == NodeId(3));
    assert!(matches!(&actions(&mut node)[..], [only] if heard(only)) && node.load().0 == 1, "a stranger");
    node.on_message(NOW, &node_ref(2), Message::Cancel(chain));
    let done = actions(&mut node);
    assert!(matches!(done[..], [Action::Discard(_), Action::Send { .. }]) && node.load().0 == 0, "who brought it");
    let told = Message::Received(StepKey::first(chain), Part::Cancel(NodeId(1)));
    assert_eq!(sent(&done), [(NodeId(2), told, Receipt::None)], "and is told that it was heard");

    arrived(&mut node, hop(2, 1));
    node.on_message(NOW, &node_ref(9), Message::Cancel(hop(2, 1).key.chain));
    assert_eq!(node.load().0, 0, "its origin");

    let mut by_entry = hop(3, 1);
    by_entry.header.entry = Some(node_ref(7));
    arrived(&mut node, by_entry);
    let chain = hop(3, 1).key.chain;
    node.on_message(NOW, &node_ref(3), Message::Cancel(chain));
    assert_eq!(node.load().0, 1, "a stranger");
    node.on_message(NOW, &node_ref(7), Message::Cancel(chain));
    assert_eq!(node.load().0, 0, "the node that can reach its origin");
}

#[test]
fn a_cancellation_that_overtakes_its_hop_is_kept_for_it_and_for_no_other() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), Message::Cancel(hop(1, 1).key.chain));
    actions(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let answers = sent(&actions(&mut node));
    assert!(matches!(&answers[..], [(_, Message::Refused(_, why), _)] if why.name == names::CANCELLED), "{answers:?}");
    node.on_message(NOW, &node_ref(3), Message::Hop(hop(1, 1)));
    assert!(ticket_of(&actions(&mut node)).is_some(), "another node's hop is not for that one to stop");
}

#[test]
fn only_answers_to_the_node_named_are_passed_on() {
    let mut node = node(Policy::default());
    let mine = hop(1, 1).key;
    let relay = |to: u64, message: Message| {
        let inner = message.encode();
        Message::Relay { to: NodeId(to), head: inner.head.to_vec(), tail: inner.tail }
    };
    let ended = || Message::End(Box::new(end(mine.clone(), None)));
    for (to, message) in [
        (9, Message::Accepted(mine.clone())),
        (9, Message::Refused(mine.clone(), Exception::new("No", Fault::Node, ""))),
        (9, Message::Hop(hop(1, 1))),
        (9, Message::Cancel(mine.chain)),
        (9, relay(9, ended())),
        (8, ended()),
        (9, Message::Partial { key: mine.clone(), number: 0, value: Value::null(), to: 3 }),
    ] {
        node.on_message(NOW, &node_ref(2), relay(to, message.clone()));
        assert!(actions(&mut node).is_empty(), "{message:?} for {to} would come under this node's name");
    }
    node.on_message(NOW, &node_ref(2), relay(9, ended()));
    let passed = sent(&actions(&mut node));
    assert!(matches!(&passed[..], [(NodeId(9), Message::End(_), Receipt::None)]), "{passed:?}");
    node.on_undelivered(NOW, Receipt::None, Undelivered::Unreachable);
    assert!(actions(&mut node).is_empty());
}

#[test]
pub(crate) fn only_its_origin_says_that_an_answer_has_arrived() {
    let mut node = node(Policy::default());
    let mine = hop(1, 1).key;
    let ended = Message::End(Box::new(end(mine.clone(), None))).encode();
    node.on_message(NOW, &node_ref(2), Message::Relay { to: NodeId(9), head: ended.head.to_vec(), tail: ended.tail });
    actions(&mut node);
    let received = Message::Received(mine, Part::End);
    node.on_message(NOW, &node_ref(3), received.clone());
    assert!(actions(&mut node).is_empty(), "a stranger, who knows its whole id");
    node.on_message(NOW, &node_ref(9), received.clone());
    let told = sent(&actions(&mut node));
    assert!(matches!(&told[..], [(NodeId(2), Message::Received(..), _)]), "{told:?}");
    node.on_message(NOW, &node_ref(9), received);
    assert!(actions(&mut node).is_empty(), "once");
}

#[test]
pub(crate) fn the_node_by_which_a_chain_entered_stops_it_wherever_it_was_heard_of() {
    let mut node = node(Policy::default());
    let mine = hop(1, 4).key;
    // It went from here to others, and from there on; their signs of life are passed on here.
    let beats = |node: &mut Node, now, host| {
        let beat = Message::Heartbeat(mine.clone(), (*node_ref(host)).clone(), Vec::new()).encode();
        let relay = Message::Relay { to: NodeId(9), head: beat.head.to_vec(), tail: beat.tail };
        node.on_message(now, &node_ref(host), relay);
        sent(&actions(node)).into_iter().map(|(to, message, _)| (to, message)).collect::<Vec<_>>()
    };
    for host in [3, 4] {
        assert!(matches!(beats(&mut node, NOW, host)[..], [(NodeId(9), Message::Heartbeat(..))]));
    }
    // Their later ones are lost. A chain may last longer than steps are remembered.
    let mut now = NOW;
    for _ in 0..2 * Policy::default().step_record_ttl_us / 1_000_000 {
        now = now.after(1_000_000);
        node.on_timeout(now);
    }
    actions(&mut node);
    node.on_message(now, &node_ref(9), Message::Cancel(mine.chain));
    let told: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(to, message, _)| (to, message)).collect();
    assert_eq!(told[..2], [3, 4].map(|host| (NodeId(host), Message::Cancel(mine.chain))));
    assert!(matches!(told[2..], [(NodeId(9), Message::Received(..))]));
    let [(NodeId(9), Message::Heartbeat(..)), late] = &beats(&mut node, now, 5)[..] else { panic!("both") };
    assert_eq!(*late, (NodeId(5), Message::Cancel(mine.chain)), "it is heard of for the first time");
}

#[test]
fn a_creator_hears_only_of_sub_chains_that_began_there() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    let sub = SubChain { number: 77, code: CODE, input: Value::null(), catch: None, hears: true };
    node.on_service_done(NOW, ticket, Ok(Answer::Chain(sub)), 1);
    assert!(actions(&mut node).iter().any(|action| matches!(action, Action::Begin { .. })));
    let chain = hop(1, 1).key.chain;
    let partial = |step, number, to| Message::Partial { key: key(chain, step), number, value: Value::null(), to };
    for message in [partial(2, 0, 2), partial(2, 1, 1), partial(2, 1, 1)] {
        node.on_message(NOW, &node_ref(3), message);
    }
    let heard = |node: &mut Node| {
        let heard = actions(node).into_iter().filter(|action| matches!(action, Action::Heard(..)));
        heard.collect::<Vec<_>>()
    };
    assert!(heard(&mut node).is_empty(), "of no sub-chain, and before its turn");
    node.on_message(NOW, &node_ref(3), partial(4, 0, 1));
    node.on_message(NOW, &node_ref(3), partial(4, 0, 1));
    let heard = heard(&mut node);
    assert!(heard.len() == 2 && heard.iter().all(|a| matches!(a, Action::Heard(at, _) if *at == key(chain, 1))));
}

#[test]
fn what_a_stranger_says_of_another_nodes_doings_is_dropped() {
    let me = NodeRef { address: Some("n1:1".into()), ..(*node_ref(1)).clone() };
    let mut node = Node::new(me, Policy::default(), 0);
    node.learn("there", instance(2));
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let policy = Policy::default();
    let mut now = NOW;
    for _ in 0..policy.retransmissions_max {
        now = now.after(policy.heartbeat_timeout_us);
        node.on_timeout(now);
    }
    node.on_message(now, &node_ref(3), Message::Located(key(chain, 7), "n2".into(), Whereabouts::Went("n8".into())));
    node.on_message(now, &node_ref(2), Message::Located(key(chain, 1), "n2".into(), Whereabouts::Went("n4".into())));
    node.on_message(now, &node_ref(2), Message::Accepted(key(chain, 1)));
    actions(&mut node);
    node.on_timeout(now.after(policy.heartbeat_timeout_us));
    let ended = actions(&mut node);
    let lost = |action: &Action| matches!(action, Action::Reply(_, Replied::End { path, .. }) if *path == ["n2", "n4"]);
    assert!(ended.iter().any(lost), "{ended:?}");
}

#[test]
fn lines_are_numbered_as_far_as_there_are_numbers() {
    let line =
        |number| LogLine { step: 1, node: "n2".into(), at_us: 0, text: "said".into(), branch: Branch::root(), number };
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    for first in [u32::MAX, u32::MAX - 1, 0] {
        node.on_message(NOW, &node_ref(2), Message::Console(key(chain, 1), first, vec![line(0); 4]));
    }
    let console = vec![line(u32::MAX)];
    let session = arrived(&mut node, Box::new(Hop { console, console_told: u32::MAX, ..*hop(1, 1) }));
    let logs = vec!["one".into(), "two".into()];
    node.on_turn(NOW, session, Ok(Turn { logs, calls: vec![call(0, "there")], ..Turn::default() }), 1);
    node.on_timeout(NOW.after(1_000_000));
    assert!(!actions(&mut node).is_empty());
}
