//! How replies flow that follow one another quickly.

use catena_wire::Message;

use crate::{
    tree::Tree,
    world::{Event, Setup, What, World},
};

fn messages(world: &World) -> impl Iterator<Item = (usize, Message)> {
    let decoded = |(at, what): (usize, &What)| match what {
        What::Message(head) => Some((at, Message::decode_head(head).unwrap())),
        What::LinkLost(_) => None,
    };
    world.packets.iter().map(|packet| &packet.what).enumerate().filter_map(decoded)
}

/// How many replies each message brings that is on its way.
fn batches(world: &World) -> Vec<usize> {
    let replies =
        |(_, message)| if let Message::Replies(replies) = message { Some(replies.values.len()) } else { None };
    messages(world).filter_map(replies).collect()
}

fn deliver(world: &mut World, setup: &Setup, is_it: impl Fn(&Message) -> bool) {
    let (at, _) = messages(world).find(|(_, message)| is_it(message)).expect("it is on its way");
    world.happen(setup, Event::Deliver(at));
}

#[test]
fn a_message_takes_no_more_than_a_part_of_the_window_and_what_is_read_is_told_meanwhile() {
    let setup = Setup { window: 8, bursts: true, calls: vec![Tree::new(1, 8)], ..Setup::default() };
    let mut world = World::new(&setup);
    deliver(&mut world, &setup, |message| matches!(message, Message::Ask { .. }));
    assert_eq!(batches(&world), [1, 2, 2, 2, 1]);
    let told = |world: &World| messages(world).filter(|(_, message)| matches!(message, Message::Took { .. })).count();
    for (read, says) in [(1, 0), (3, 1), (5, 2), (7, 3)] {
        deliver(&mut world, &setup, |message| matches!(message, Message::Replies(_)));
        assert_eq!((world.calls[0].1.replies.values().map(Vec::len).sum::<usize>(), told(&world)), (read, says));
    }
}
