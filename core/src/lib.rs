//! Catena's state machines: events in, actions out
