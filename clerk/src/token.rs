//! Tokens taken by CAS (section 5.1, after Calypso): words in a segment of the server, whose own beat is the only clock.
//!
//! ```text
//! word 0: the server's beat; word 1 + i: token i: holder (16 bits) | beat until which it is held (48 bits); 0: free
//! ```

use catena::{Exception, Export, Imported, Node, Rights, Segment};

const UNTIL: u64 = (1 << 48) - 1;

/// The server's side. Guarantee: a token that its holder keeps beyond its time is free for others, whatever became of the holder.
#[derive(Debug)]
pub struct Tokens {
    segment: Segment,
}

/// A clerk's side.
#[derive(Clone, Debug)]
pub struct FarTokens {
    far: Imported,
    me: u16,
}

/// A token that is held. Guarantee: nobody else holds it before the server's beat is past its time, unless the server took it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a token that is not released is held until its time is over"]
pub struct Held {
    number: u32,
    word: u64,
}

impl Held {
    /// The beat until which it is held: it rises from holder to holder, so that a server can refuse the late writes of the one before.
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
    /// Exports so many free tokens.
    ///
    /// # Errors
    /// What an export is refused for.
    pub fn export(node: &Node, name: &str, tokens: u32) -> Result<Self, Exception> {
        let rights = Rights::READ.and(Rights::CAS);
        let segment = node.export(name, at(tokens), Export { anyone: rights, ..Export::default() })?;
        // A beat of 0 and a token until 0 would look alike.
        segment.write(0, &1_u64.to_ne_bytes())?;
        Ok(Self { segment })
    }

    /// Lets time pass by one beat. A word that a clerk swapped to a time that no token can have is cut down to `lasts_max` beats from now.
    ///
    /// # Errors
    /// None, while the segment is exported.
    pub fn beat(&self, lasts_max: u64) -> Result<(), Exception> {
        let mut words = vec![0; usize::try_from(self.segment.bytes()).unwrap_or(0)];
        self.segment.read(0, &mut words)?;
        let now = word_of(&words);
        for (number, word) in (0..).zip(words[8..].as_chunks::<8>().0) {
            let word = u64::from_ne_bytes(*word);
            if word & UNTIL > now + lasts_max {
                self.segment.cas(at(number), word, word & !UNTIL | (now + lasts_max))?;
            }
        }
        // Clerks may swap words, this one too: its owner's value goes on.
        self.segment.write(0, &(now.min(UNTIL - 1) + 1).to_ne_bytes())
    }

    /// Takes a token back from whoever holds it; says who did.
    ///
    /// # Errors
    /// As [`Tokens::beat`].
    pub fn take_back(&self, number: u32) -> Result<Option<u16>, Exception> {
        loop {
            let mut word = [0; 8];
            self.segment.read(at(number), &mut word)?;
            let word = u64::from_ne_bytes(word);
            if self.segment.cas(at(number), word, 0)? == word {
                return Ok((word != 0).then_some((word >> 48) as u16));
            }
        }
    }
}

impl FarTokens {
    /// Tokens of a server, for a clerk with this number.
    #[must_use]
    pub const fn new(far: Imported, me: u16) -> Self {
        Self { far, me }
    }

    /// Takes a token for so many beats if it is free, or its holder's time is over; `None`: another holds it. One READ and one CAS, and no code of the server.
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
}
