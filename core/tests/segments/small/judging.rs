//! Whether what the machines do, and what they tell importers, is what they may.

use catena_core::segments::{Answer, SegmentId};
use catena_wire::{SegmentEntry, SegmentRefusal};

use super::{By, GRANT, LONG, Link, Memory, OWNER, What, World};

pub(crate) const AFTER_REVOKE: &str = "a segment is reached after it was revoked";
pub(crate) const STALE: &str = "a stale generation is accepted";
pub(crate) const GRANT_TWICE: &str = "a grant of one use serves twice";
pub(crate) const OUT_OF_TURN: &str = "a write is done out of its turn";
pub(crate) const WITHOUT_RIGHTS: &str = "rights that were taken back are still good";
const INHIBITED: &str = "a segment changes while writes are inhibited";
const SWAPPED_TWICE: &str = "two are told that they swapped the same word";

impl World {
    pub(super) fn write(&mut self, link: usize, memory: u8, number: u8) {
        let Link { of, number: link_number, .. } = self.links[link];
        let (before, later) = self.writes.split_at_mut(usize::from(number));
        let overtaken = later.iter().any(|write| write.link == link_number && write.done);
        let write = &mut before[usize::from(number) - 1];
        let (meant, twice) = (write.meant, std::mem::replace(&mut write.done, true));
        if twice {
            self.fail("a write is done twice");
        }
        if overtaken {
            self.fail(OUT_OF_TURN);
        }
        self.judge(of, memory, meant);
        self.judge_change(memory);
        self.memories[usize::from(memory)].last = number;
    }

    pub(super) fn judge_change(&mut self, memory: u8) {
        if self.memories[usize::from(memory)].inhibited {
            self.fail(INHIBITED);
        }
    }

    /// What was there is on its way to whoever asked.
    pub(super) fn serve(&mut self, link: usize, id: u64, memory: u8, there: u64) {
        let of = self.links[link].of;
        let asked = self.peers[of].requests.iter_mut().find(|request| request.id == Some(id));
        let Some(request) = asked else { return self.fail("what nobody asked for is done") };
        request.served.push(there);
        let meant = request.meant;
        let decided = |number: &u8| {
            let write = &self.writes[usize::from(*number) - 1];
            write.done || write.refused
        };
        if !request.after.iter().all(decided) {
            self.fail("a request overtakes a write before it");
        }
        self.judge(of, memory, meant);
    }

    /// Whether what the machine allows is allowed.
    fn judge(&mut self, of: usize, memory: u8, meant: u8) {
        let (known, by_grant) = (&self.memories[usize::from(memory)], self.peers[of].by == By::Grant);
        let wrong = if known.gone {
            Some(AFTER_REVOKE)
        } else if memory != meant {
            Some(STALE)
        } else if by_grant && of > 0 {
            Some("a grant serves whom it was not given to")
        } else if by_grant && self.grant_uses > 0 {
            Some(GRANT_TWICE)
        } else if known.without_rights.contains(&of) {
            Some(WITHOUT_RIGHTS)
        } else {
            None
        };
        self.grant_uses += u8::from(by_grant);
        if let Some(why) = wrong {
            self.fail(why);
        }
    }

    /// An importer is told what became of what it asked.
    pub(super) fn end(&mut self, of: usize, waiter: u8, outcome: Result<Answer, SegmentRefusal>) {
        let request = &mut self.peers[of].requests[usize::from(waiter)];
        request.ends.push(outcome.as_ref().map(|_| ()).map_err(|why| *why));
        let (what, meant) = (request.what, request.meant);
        match (what, outcome) {
            (What::Read, Ok(Answer::Data(data))) => {
                if !request.served.iter().any(|last| data[..] == [*last as u8; LONG]) {
                    self.fail("a read brings what was not there");
                }
            }
            (What::Swap { old, new }, Ok(Answer::Was(was))) => {
                if !request.served.contains(&was) {
                    self.fail("a swap brings what was not there");
                }
                self.peers[of].heard = if was == old { new } else { was };
                if was == old {
                    self.swapped(meant, old);
                }
            }
            (What::Flush, Ok(Answer::Flushed)) => {
                if !request.after.iter().all(|number| self.writes[usize::from(*number) - 1].done) {
                    self.fail("a flush says that what was not done was done");
                }
            }
            (What::Import, Ok(Answer::Entry(entry))) => self.take_in(of, entry),
            (_, Ok(_)) => self.fail("a request ends with what answers another"),
            (_, Err(why)) => {
                if what == What::Import {
                    self.peers[of].does.clear();
                }
                if !is_clean(why) {
                    self.fail("an error says what did not happen");
                }
            }
        }
    }

    /// Nothing comes to the word twice, so one alone can have swapped what was there.
    fn swapped(&mut self, memory: u8, old: u64) {
        let swapped = &mut self.memories[usize::from(memory)].swapped;
        let twice = swapped.contains(&old);
        swapped.push(old);
        if twice {
            self.fail(SWAPPED_TWICE);
        }
    }

    pub(super) fn take_in(&mut self, of: usize, entry: SegmentEntry) {
        let is_it = |memory: &Memory| memory.id == SegmentId { number: entry.number, generation: entry.generation };
        let Some(memory) = self.memories.iter().position(is_it) else {
            return self.fail("what was never exported is imported");
        };
        let peer = &mut self.peers[of];
        let grant = (peer.by == By::Grant).then_some(GRANT);
        let import = peer.importer.imports.import(OWNER, entry, None, grant).unwrap();
        peer.import = Some((import, memory as u8));
        // Those to what it had before are not what it flushes next.
        peer.unflushed.retain(|number| usize::from(self.writes[usize::from(*number) - 1].meant) == memory);
    }
}

/// Whether it says something that may have happened: nobody here asks for too much, or lies.
const fn is_clean(why: SegmentRefusal) -> bool {
    use SegmentRefusal as R;
    matches!(
        why,
        R::UnknownName
            | R::Revoked
            | R::Stale
            | R::NoRight(_)
            | R::WriteInhibited
            | R::GrantVoid
            | R::NoAnswer
            | R::OwnerLost
    )
}
