//! Tokens taken by CAS (section 5.1, after Calypso): words in a segment of the server, whose own beat is the only clock.
//!
//! ```text
//! word 0: the server's beat; word 1 + i: token i: holder (16 bits) | beat until which it is held (48 bits); 0: free
//! ```
//!
//! A clerk that wants to be asked before a token is taken back exports words of its own ([`Wanted`]), in the same places: the server WRITEs the word that it
//! wants back there, with a notification.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use catena::{Exception, Export, Imported, Node, NodeId, Notifications, Rights, Segment, Wish};
use tokio::{sync::Notify, task::AbortHandle};

const UNTIL: u64 = (1 << 48) - 1;
/// A beat of 0 and a token until 0 would look alike.
const FIRST_BEAT: u64 = 1;

/// The server's side. Guarantee: a token that its holder keeps beyond its time is free for others, whatever became of the holder.
#[derive(Debug)]
pub struct Tokens {
    segment: Segment,
    /// The beat that counts: clerks could overwrite the word that announces it, since they may CAS the whole segment.
    beat: AtomicU64,
    /// Notified when a holder says that it has given a token back.
    given_back: Arc<Notify>,
    hears: AbortHandle,
}

impl Drop for Tokens {
    fn drop(&mut self) {
        self.hears.abort();
    }
}

/// A clerk's side.
#[derive(Clone, Debug)]
pub struct FarTokens {
    far: Imported,
    me: u16,
}

/// A clerk's words for the tokens that its server wants back. Guarantee: a holder that listens is told before a token is taken from it, and while the server
/// waits, it can do what it must before it gives the token back.
#[derive(Debug)]
pub struct Wanted {
    segment: Segment,
    notifications: Notifications,
}

/// A token that is held. Guarantee: among clerks that follow the protocol, nobody else holds it until the server's beat has passed its expiry, unless the
/// server took it back. A malicious clerk can swap anybody's word: it can take a token away early, but keeps none for longer than the server lets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a token that is not released is held until its time is over"]
pub struct Held {
    number: u32,
    word: u64,
}

impl Held {
    /// The beat until which it is held. A holder whose time has passed has a smaller value than whoever took the token next, so that a server can refuse its
    /// late writes. There is no such order for a holder that gave the token back, or had it taken back.
    #[must_use]
    pub const fn until(&self) -> u64 {
        self.word & UNTIL
    }
}

const fn at(number: u32) -> u64 {
    8 * (number as u64 + 1)
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

impl Tokens {
    /// Exports this many free tokens. Needs a tokio runtime.
    ///
    /// # Errors
    /// What an export is refused for; the system has no descriptor left.
    pub fn export(node: &Node, name: &str, tokens: u32) -> Result<Self, Exception> {
        let rights = Rights::READ.and(Rights::CAS);
        let segment = node.export(name, at(tokens), Export { anyone: rights, ..Export::default() })?;
        segment.write(0, &FIRST_BEAT.to_ne_bytes())?;
        let given_back = Arc::new(Notify::new());
        let (mut notifications, telling) = (segment.notifications()?, Arc::clone(&given_back));
        let hears = tokio::spawn(async move {
            while notifications.next().await.is_some() {
                telling.notify_waiters();
            }
        });
        Ok(Self { segment, beat: AtomicU64::new(FIRST_BEAT), given_back, hears: hears.abort_handle() })
    }

    /// Advances time by one beat. If a clerk swapped in an expiry that no token can have, it is cut down to `lasts_max` beats from now.
    ///
    /// # Errors
    /// None, while the segment is exported.
    pub fn beat(&self, lasts_max: u64) -> Result<(), Exception> {
        let mut words = vec![0; usize::try_from(self.segment.bytes()).unwrap_or(0)];
        self.segment.read(0, &mut words)?;
        let now = self.beat.fetch_add(1, Relaxed);
        let last = now.saturating_add(lasts_max).min(UNTIL);
        for (number, word) in (0..).zip(words[8..].as_chunks::<8>().0) {
            let word = u64::from_ne_bytes(*word);
            if word & UNTIL > last {
                self.segment.cas(at(number), word, word & !UNTIL | last)?;
            }
        }
        self.segment.write(0, &(now + 1).to_ne_bytes())
    }

    /// Takes a token back from whoever holds it; returns who held it. The holder learns of that when it gives the token back.
    ///
    /// # Errors
    /// As [`Tokens::beat`].
    pub fn take_back(&self, number: u32) -> Result<Option<u16>, Exception> {
        loop {
            let word = self.word(number)?;
            if self.segment.cas(at(number), word, 0)? == word {
                return Ok(holder_of(word));
            }
        }
    }

    /// Asks the holder of a token for it, through that clerk's [`Wanted`], and takes it back if it is not given back within this time; returns who held it.
    /// Once this has returned, that clerk no longer holds it.
    ///
    /// # Errors
    /// As [`Tokens::beat`].
    pub async fn ask_back(&self, number: u32, wanted: &Imported, within: Duration) -> Result<Option<u16>, Exception> {
        let held = self.word(number)?;
        let asks = Wish { notify: true, ..Wish::default() };
        // A clerk that cannot be told is not waited for.
        if held != 0 && wanted.write_as(at(number), held.to_ne_bytes().to_vec(), asks).await.is_ok() {
            let given = tokio::time::timeout(within, self.is_no_longer(number, held)).await;
            given.unwrap_or(Ok(()))?;
        }
        // If it was given back, another may hold it by now: then the CAS fails, and that holder keeps it.
        self.segment.cas(at(number), held, 0)?;
        Ok(holder_of(held))
    }

    async fn is_no_longer(&self, number: u32, held: u64) -> Result<(), Exception> {
        loop {
            let mut given_back = pin!(self.given_back.notified());
            given_back.as_mut().enable();
            if self.word(number)? != held {
                return Ok(());
            }
            given_back.await;
        }
    }

    fn word(&self, number: u32) -> Result<u64, Exception> {
        let mut word = [0; 8];
        self.segment.read(at(number), &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }
}

impl Wanted {
    /// Exports words for `tokens` tokens, into which `server` alone may write.
    ///
    /// # Errors
    /// What an export is refused for; the system has no descriptor left.
    pub async fn export(node: &Node, name: &str, tokens: u32, server: NodeId) -> Result<Self, Exception> {
        let segment = node.export(name, at(tokens), Export::default())?;
        segment.allow(server, Rights::READ.and(Rights::WRITE)).await?;
        let notifications = segment.notifications()?;
        Ok(Self { segment, notifications })
    }

    /// The next token that the server wants back, as it was held: give it back by [`FarTokens::give_back`] when what depends on it is done. `None`: the words
    /// are exported no more. Cancel-safe.
    ///
    /// # Errors
    /// None, while the segment is exported.
    pub async fn next(&mut self) -> Result<Option<Held>, Exception> {
        loop {
            let mut words = vec![0; usize::try_from(self.segment.bytes()).unwrap_or(0)];
            self.segment.read(0, &mut words)?;
            let words = words.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
            if let Some((number, word)) = (0..).zip(words.skip(1)).find(|(_, word)| *word != 0) {
                // The server may by now want it back from a later holding: then the CAS fails, and the word is read again.
                if self.segment.cas(at(number), word, 0)? == word {
                    return Ok(Some(Held { number, word }));
                }
                continue;
            }
            if self.notifications.next().await.is_none() {
                return Ok(None);
            }
        }
    }
}

const fn holder_of(word: u64) -> Option<u16> {
    if word == 0 { None } else { Some((word >> 48) as u16) }
}

impl FarTokens {
    /// Tokens of a server, for a clerk with this number.
    #[must_use]
    pub const fn new(far: Imported, me: u16) -> Self {
        Self { far, me }
    }

    /// Takes a token for `lasts` beats if it is free or its holder's time is over; `None`: another holds it. One READ and one CAS; no code runs at the server.
    ///
    /// # Errors
    /// What a READ or CAS is refused for; `unknown` if the CAS may have been done.
    pub async fn try_take(&self, number: u32, lasts: u64) -> Result<Option<Held>, Exception> {
        let now = word_of(&self.far.read(0, 8).await?);
        let before = word_of(&self.far.read(at(number), 8).await?);
        if before != 0 && before & UNTIL >= now {
            return Ok(None);
        }
        let word = u64::from(self.me) << 48 | now.saturating_add(lasts).min(UNTIL);
        let was = self.far.cas(at(number), before, word).await?;
        Ok((was == before).then_some(Held { number, word }))
    }

    /// Gives a token back; `false`: its time was over and another took it, or the server took it back.
    ///
    /// # Errors
    /// As [`FarTokens::try_take`].
    pub async fn release(&self, held: Held) -> Result<bool, Exception> {
        Ok(self.far.cas(at(held.number), held.word, 0).await? == held.word)
    }

    /// Like [`FarTokens::release`], for a token that the server wants back: the server is notified.
    ///
    /// # Errors
    /// As [`FarTokens::try_take`].
    pub async fn give_back(&self, held: Held) -> Result<bool, Exception> {
        Ok(self.far.cas_and_notify(at(held.number), held.word, 0).await? == held.word)
    }
}
