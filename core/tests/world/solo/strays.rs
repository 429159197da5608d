//! A chain that was given up at a node which may have it: when it is over, it does not go on there.

use catena_core::Undelivered;
use catena_wire::{Fault, names};

use super::*;

/// Node 2 was sent the hop as often as it may be, and does not say that it has it: the function is told so.
fn lost(node: &mut Node, mut receipt: Receipt) {
    loop {
        node.on_undelivered(NOW, receipt, Undelivered::Lost);
        let actions = actions(node);
        match sent(&actions).pop() {
            Some((NodeId(2), Message::Hop(_), again)) => receipt = again,
            _ => return assert!(resumed(&actions), "{actions:?}"),
        }
    }
}

fn throws() -> Result<Turn, Exception> {
    let why = Exception::new(names::NODE_LOST, Fault::Network, "").outcome_unknown();
    Ok(Turn { end: Some(Err(why)), ..Turn::default() })
}

/// Nodes that are told to stop it.
fn stopped(node: &mut Node, chain: ChainId) -> Vec<NodeId> {
    let cancels = sent(&actions(node)).into_iter().filter(|(_, message, _)| *message == Message::Cancel(chain));
    cancels.map(|(to, ..)| to).collect()
}

#[test]
pub(crate) fn a_chain_that_is_over_is_stopped_where_it_was_given_up() {
    for end in [throws(), Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() })] {
        let mut node = node(Policy::default());
        let (chain, session, receipt) = handing(&mut node);
        lost(&mut node, receipt);
        node.on_turn(NOW, session, end, 1);
        assert_eq!(stopped(&mut node, chain), [NodeId(2)]);
        // That word did not get there, and the hop was still in the node's socket when it woke.
        node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
        assert_eq!(stopped(&mut node, chain), [NodeId(2)]);
    }
}

#[test]
fn it_is_not_stopped_before_it_is_over() {
    let mut node = node(Policy::default());
    let (chain, session, receipt) = handing(&mut node);
    lost(&mut node, receipt);
    node.learn("elsewhere", instance(3));
    node.on_turn(NOW, session, calling(vec![call(1, "elsewhere")]), 1);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    assert_eq!(stopped(&mut node, chain), [], "its first way may do what no other may");
    node.cancel(NOW, chain);
    assert!(stopped(&mut node, chain).contains(&NodeId(2)));
}

#[test]
fn whoever_gave_it_up_elsewhere_stops_it_when_it_hears_that_it_is_over() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    let chain = hop(1, 1).key.chain;
    node.learn("there", instance(3));
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    let receipts: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(.., receipt)| receipt).collect();
    for receipt in receipts {
        (0..3).for_each(|_| node.on_undelivered(NOW, receipt.clone(), Undelivered::Lost));
    }
    actions(&mut node);
    node.on_turn(NOW, session, throws(), 1);
    assert_eq!(stopped(&mut node, chain), [], "its origin has not heard of the end yet");
    node.on_message(NOW, &node_ref(2), Message::Over(vec![chain]));
    assert_eq!(stopped(&mut node, chain), [NodeId(3)]);
}
