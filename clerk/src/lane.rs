//! Transfer of control, where it is needed: Hybrid-1 (section 5.1). The clerk WRITEs a request with a notification, the server WRITEs the answer back.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use catena::{Exception, Fault, Imported, Segment, Wish};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
};

use crate::frame::{FRAME_HEAD_BYTES, Lanes, frame, head_of, is_whole};

/// How often a clerk looks for its answer before it waits to be notified, as in section 4.3.
const LOOKS: u32 = 64;
/// How often a clerk increments its beat word.
const BEAT_EVERY: Duration = Duration::from_millis(250);

/// Offset of the clerk's beat word in the answers' segment.
#[must_use]
pub const fn beat_at(lanes: &Lanes) -> u64 {
    lanes.segment_bytes()
}

/// Bytes of the answers' segment: the lanes, and the beat word.
#[must_use]
pub const fn answers_bytes(lanes: &Lanes) -> u64 {
    lanes.segment_bytes() + 8
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Free,
    Busy,
    /// The caller went away before the answer came: the lane cannot be used again until it has come.
    Abandoned,
}

/// The clerk's side. Guarantee: an answer is that of its own request, whole; without one, whether the request was done is unknown.
#[derive(Debug)]
pub struct Asking {
    inner: Arc<Inner>,
    tasks: [AbortHandle; 2],
}

#[derive(Debug)]
struct Inner {
    requests: Imported,
    answers: Segment,
    lanes: Lanes,
    uses: Mutex<Vec<(Use, u64)>>,
    /// One for each lane, notified when the lane's answer may have arrived.
    told: Vec<Notify>,
    freed: Notify,
}

/// A lane in use.
struct Place<'a> {
    inner: &'a Inner,
    lane: u32,
    answered: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let next = if self.answered { Use::Free } else { Use::Abandoned };
        self.inner.uses()[self.lane as usize].0 = next;
        if self.answered {
            self.inner.freed.notify_one();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Asking {
    /// Requests go to `requests`, where the server has the same lanes; answers come to `answers`, which the server may write. Needs a tokio runtime.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(requests: Imported, answers: Segment, lanes: Lanes) -> Result<Self, Exception> {
        let mut notifications = answers.notifications()?;
        let count = lanes.count as usize;
        let inner = Arc::new(Inner {
            requests,
            answers,
            lanes,
            uses: Mutex::new(vec![(Use::Free, 0); count]),
            told: (0..count).map(|_| Notify::new()).collect(),
            freed: Notify::new(),
        });
        let telling = Arc::clone(&inner);
        let tell = tokio::spawn(async move {
            while notifications.next().await.is_some() {
                telling.tell();
            }
        });
        let beating = Arc::clone(&inner);
        let beat = tokio::spawn(async move {
            for beat in 1_u64.. {
                let _ = beating.answers.write(beat_at(&beating.lanes), &beat.to_ne_bytes());
                tokio::time::sleep(BEAT_EVERY).await;
            }
        });
        Ok(Self { inner, tasks: [tell.abort_handle(), beat.abort_handle()] })
    }

    /// Has the server do a request, and returns its answer.
    ///
    /// # Errors
    /// `TooLong`: it fits into no lane; `NoAnswer`, `unknown`: none came within this time; what a WRITE is refused for.
    pub async fn ask(&self, request: &[u8], within: Duration) -> Result<Vec<u8>, Exception> {
        let Inner { lanes, requests, .. } = &*self.inner;
        if request.len() > lanes.content_bytes() {
            let text = format!("a request of {} bytes: a lane has room for {}", request.len(), lanes.content_bytes());
            return Err(Exception::new("TooLong", Fault::Caller, text));
        }
        let asked = async {
            let (mut place, number) = self.inner.take().await;
            let at = lanes.at(place.lane);
            requests.write_as(at, frame(number, request), Wish { notify: true, ..Wish::default() }).await?;
            let answer = self.inner.answer(place.lane, number).await?;
            place.answered = true;
            Ok(answer)
        };
        match tokio::time::timeout(within, asked).await {
            Ok(done) => done,
            Err(_) => {
                let text = format!(
                    "no answer within {within:?}; see whether the server {} lives, and look before doing it again",
                    requests.owner().name
                );
                Err(Exception::new("NoAnswer", Fault::Node, text).outcome_unknown())
            }
        }
    }
}

impl Inner {
    fn uses(&self) -> MutexGuard<'_, Vec<(Use, u64)>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free lane, and the number of its next request.
    async fn take(&self) -> (Place<'_>, u64) {
        loop {
            let freed = self.freed.notified();
            if let Some((lane, number)) = self.try_take() {
                return (Place { inner: self, lane, answered: false }, number);
            }
            freed.await;
        }
    }

    fn try_take(&self) -> Option<(u32, u64)> {
        let mut uses = self.uses();
        let lane = uses.iter().position(|(used, _)| *used == Use::Free)?;
        let (used, number) = &mut uses[lane];
        *used = Use::Busy;
        *number += 1;
        Some((lane as u32, *number))
    }

    async fn answer(&self, lane: u32, number: u64) -> Result<Vec<u8>, Exception> {
        for look in 0.. {
            if let Some(answer) = self.look(lane, number)? {
                return Ok(answer);
            }
            if look < LOOKS {
                tokio::task::yield_now().await;
            } else {
                self.told[lane as usize].notified().await;
            }
        }
        Err(Exception::new("NoAnswer", Fault::Node, "it was looked for without end").outcome_unknown())
    }

    fn look(&self, lane: u32, number: u64) -> Result<Option<Vec<u8>>, Exception> {
        read_frame(&self.answers, &self.lanes, lane, |told| told == number).map(|found| found.map(|(_, bytes)| bytes))
    }

    /// A notification came: waiting callers look again, and abandoned lanes whose late answer has arrived become free.
    fn tell(&self) {
        let abandoned: Vec<(u32, u64)> = (0..)
            .zip(self.uses().iter())
            .filter(|(_, (used, _))| *used == Use::Abandoned)
            .map(|(lane, (_, number))| (lane, *number))
            .collect();
        for (lane, number) in abandoned {
            if matches!(self.look(lane, number), Ok(Some(_))) {
                self.uses()[lane as usize].0 = Use::Free;
                self.freed.notify_one();
            }
        }
        self.told.iter().for_each(Notify::notify_one);
    }
}

/// The frame in a lane of our own segment, if it is whole and has the number that is looked for.
fn read_frame(
    segment: &Segment,
    lanes: &Lanes,
    lane: u32,
    wanted: impl Fn(u64) -> bool,
) -> Result<Option<(u64, Vec<u8>)>, Exception> {
    let mut head = [0; FRAME_HEAD_BYTES];
    segment.read(lanes.at(lane), &mut head)?;
    let Some(head) = head_of(&head, lanes.content_bytes()).filter(|(number, ..)| wanted(*number)) else {
        return Ok(None);
    };
    let mut bytes = vec![0; head.1];
    segment.read(lanes.at(lane) + FRAME_HEAD_BYTES as u64, &mut bytes)?;
    Ok(is_whole(head, &bytes).then_some((head.0, bytes)))
}

/// The server's side: runs `handler` for the requests in one clerk's lanes, one at a time in each lane, until the clerk is gone; returns why it ended.
/// Guarantee: a request is executed at most once; anything but a whole request with a number above the lane's last one is ignored.
pub async fn answer<F, Fut>(requests: Segment, answers: Imported, lanes: Lanes, handler: F) -> Exception
where
    F: Fn(Vec<u8>) -> Fut,
    Fut: Future<Output = Vec<u8>> + Send + 'static,
{
    let mut notifications = match requests.notifications() {
        Ok(notifications) => notifications,
        Err(why) => return why,
    };
    let mut lasts = vec![(0_u64, false); lanes.count as usize];
    let mut doing: JoinSet<(u32, Result<(), Exception>)> = JoinSet::new();
    loop {
        for (lane, (last, busy)) in (0..).zip(&mut lasts) {
            if *busy {
                continue;
            }
            let found = match read_frame(&requests, &lanes, lane, |number| number > *last) {
                Ok(found) => found,
                Err(why) => return why,
            };
            if let Some((number, request)) = found {
                (*last, *busy) = (number, true);
                let (done, answers) = (handler(request), answers.clone());
                doing.spawn(async move {
                    let mut answer = done.await;
                    if answer.len() > lanes.content_bytes() {
                        answer.clear();
                    }
                    (
                        lane,
                        answers
                            .write_as(lanes.at(lane), frame(number, &answer), Wish { notify: true, ..Wish::default() })
                            .await,
                    )
                });
            }
        }
        tokio::select! {
            notice = notifications.next() => if notice.is_none() {
                return Exception::new("NoNotices", Fault::Node, "the system gives no notifications any more");
            },
            Some(done) = doing.join_next() => match done {
                Ok((lane, Ok(()))) => lasts[lane as usize].1 = false,
                Ok((_, Err(why))) => return why,
                Err(why) => return Exception::new("HandlerFailed", Fault::Service, why.to_string()),
            },
        }
    }
}
