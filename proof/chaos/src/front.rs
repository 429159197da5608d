//! A proxy in front of each node, through which all links to it pass: here links are cut and frozen, and messages delivered twice.

use std::{collections::VecDeque, io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::Failure;

/// What happens to the links of a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// All passes.
    Fair,
    /// They break, and no others come about.
    Cut,
    /// They stay, and nothing passes.
    Frozen,
    /// Every message comes again after so long.
    Echo(Duration),
}

/// A link's greeting begins with magic, version and the length of the rest (`net/src/hello.rs`). A listener greets again when it says that a number is not taken
/// any more.
const HELLO_HEADER_BYTES: usize = 12;
/// The first byte of the magic, which is the kind of no frame.
const HELLO: u8 = b'c';
/// A frame begins with its kind, 3 bytes of length, and 12 more (`net/src/frame.rs`).
const FRAME_HEADER_BYTES: usize = 16;
/// The kind of a frame that is a message by itself.
const WHOLE: u8 = 1;

pub(crate) struct Front {
    pub(crate) address: String,
    weather: watch::Sender<Weather>,
}

impl Front {
    /// Stands before the node that listens at `node`.
    pub(crate) async fn of(node: String) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (weather, seen) = watch::channel(Weather::Fair);
        tokio::spawn(accept(listener, node, seen));
        Ok(Self { address, weather })
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    pub(crate) fn is_fair(&self) -> bool {
        *self.weather.borrow() == Weather::Fair
    }
}

/// Accepts links until the front is dropped.
async fn accept(listener: TcpListener, node: String, weather: watch::Receiver<Weather>) {
    let mut end = weather.clone();
    let gone = async move { while end.changed().await.is_ok() {} };
    let accepting = async {
        while let Ok((caller, _)) = listener.accept().await {
            if *weather.borrow() == Weather::Cut {
                continue;
            }
            tokio::spawn(link(caller, node.clone(), weather.clone()));
        }
    };
    tokio::select! {
        () = gone => {}
        () = accepting => {}
    }
}

async fn link(caller: TcpStream, node: String, weather: watch::Receiver<Weather>) {
    let Ok(callee) = TcpStream::connect(node).await else { return };
    let _ = caller.set_nodelay(true).and_then(|()| callee.set_nodelay(true));
    let ((from_caller, to_caller), (from_callee, to_callee)) = (caller.into_split(), callee.into_split());
    let there = Way { units: Units::default(), echoes: VecDeque::new(), weather: weather.clone() };
    let back = Way { units: Units::default(), echoes: VecDeque::new(), weather };
    // If one direction ends, both are dropped.
    tokio::select! {
        _ = there.carry(from_caller, to_callee) => {}
        _ = back.carry(from_callee, to_caller) => {}
    }
}

/// One direction of a link.
struct Way {
    units: Units,
    /// What comes again, and when.
    echoes: VecDeque<(Instant, Vec<u8>)>,
    weather: watch::Receiver<Weather>,
}

impl Way {
    async fn carry(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        loop {
            let now = *self.weather.borrow_and_update();
            let due = self.echoes.front().map(|(due, _)| *due);
            tokio::select! {
                changed = self.weather.changed() => changed.map_err(io::Error::other)?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() && now != Weather::Frozen => {
                    if let Some((_, again)) = self.echoes.pop_front() {
                        to.write_all(&again).await?;
                    }
                }
                read = from.read_buf(&mut self.units.bytes), if now != Weather::Frozen => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.pass(&mut to, now).await?;
                }
            }
            if *self.weather.borrow() == Weather::Cut {
                return Ok(());
            }
        }
    }

    async fn pass(&mut self, to: &mut OwnedWriteHalf, now: Weather) -> io::Result<()> {
        while let Some(unit) = self.units.take() {
            to.write_all(&unit).await?;
            // No greeting begins like this.
            let is_message = unit.first() == Some(&WHOLE);
            if let (Weather::Echo(after), true) = (now, is_message) {
                self.echoes.push_back((Instant::now() + after, unit));
            }
        }
        Ok(())
    }
}

/// Bytes of one direction, and how to part them: greetings and frames.
#[derive(Default)]
struct Units {
    bytes: Vec<u8>,
}

impl Units {
    /// The next whole one.
    fn take(&mut self) -> Option<Vec<u8>> {
        let length = if *self.bytes.first()? == HELLO {
            let length = self.bytes.get(..HELLO_HEADER_BYTES)?.last_chunk()?;
            HELLO_HEADER_BYTES + u32::from_le_bytes(*length) as usize
        } else {
            let &[_, a, b, c, ..] = self.bytes.get(..FRAME_HEADER_BYTES)? else { return None };
            FRAME_HEADER_BYTES + u32::from_le_bytes([a, b, c, 0]) as usize
        };
        if self.bytes.len() < length {
            return None;
        }
        let rest = self.bytes.split_off(length);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAME_HEADER_BYTES, Units};

    #[test]
    fn a_link_is_parted_into_its_greetings_and_its_frames_however_its_bytes_come() {
        let hello = b"catena\x01\0\x03\0\0\0abc".to_vec();
        let frame = |kind: u8, payload: &[u8]| {
            let mut bytes = vec![0; FRAME_HEADER_BYTES];
            (bytes[0], bytes[1]) = (kind, payload.len() as u8);
            [bytes, payload.to_vec()].concat()
        };
        let all = [hello.clone(), hello, frame(1, b"one"), frame(4, b""), frame(1, b"two")];
        let mut units = Units::default();
        let mut parted = Vec::new();
        for byte in all.concat() {
            units.bytes.push(byte);
            parted.extend(units.take());
        }
        assert_eq!(parted, all);
    }
}
