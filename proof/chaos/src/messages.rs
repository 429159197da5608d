//! Messages: a question of many bytes, which its receiver READs, and an answer that comes short, into a return buffer, or long.

use std::{sync::Arc, time::Duration};

use catena::{Exception, Fault, Long, Mailbox, Node, Question, Received, exceptions};

use crate::{
    Failure,
    bytes::{difference, pattern},
    data::{Went, watch},
    flaw::{self, Flaw},
    kinds::Kind,
    rng::Rng,
    trials::Origin,
};

const QUESTION_BYTES_MAX: u64 = 300_000;
const ANSWER_BYTES_MAX: u64 = 400_000;
const SHORT_BYTES_MAX: u64 = 8_000;
const BYTES_MIN: u64 = 16;
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Instead of an answer, which is longer: the question could not be read, or its bytes are others.
const UNREAD: &[u8] = b"U";
const WRONG: &[u8] = b"W";

fn name(node: usize) -> String {
    format!("post.{node}")
}

/// Of the question of a trial, and of its answer.
const fn seeds(trial: u64) -> (u64, u64) {
    (trial << 1 | 1 << 62, (trial << 1 | 1) | 1 << 62)
}

/// Answers whatever comes.
pub(crate) fn serve(node: &Node, number: usize, flaw: Option<Flaw>) -> Result<(), Failure> {
    let mailbox: Arc<Mailbox> = Arc::new(node.mailbox(&name(number))?);
    tokio::spawn(async move {
        loop {
            let message = mailbox.receive().await;
            tokio::spawn(async move {
                // An answer that cannot be given is one that does not come.
                let _ = answer(message, flaw).await;
            });
        }
    });
    Ok(())
}

async fn answer(message: Received, flaw: Option<Flaw>) -> Result<(), Exception> {
    let number =
        |at: usize| message.items().get(at).and_then(|item| item.first_chunk()).map(|word| u64::from_le_bytes(*word));
    let (Some(trial), Some(asked), Some(wanted)) = (number(0), number(1), number(2)) else { return Ok(()) };
    let (question, answer) = seeds(trial);
    let read = match message.buffers().first() {
        Some(buffer) => buffer.fetch(QUESTION_BYTES_MAX).await,
        None => Ok(message.items().get(3).cloned().unwrap_or_default()),
    };
    let bytes = match read {
        Err(_) => UNREAD.to_vec(),
        Ok(read) if difference(&pattern(question, asked as usize), &read).is_some() => WRONG.to_vec(),
        Ok(_) => {
            let mut bytes = pattern(answer, wanted.min(ANSWER_BYTES_MAX) as usize);
            if flaw::spoils(flaw, trial as usize) == Some(Flaw::Wrong) {
                bytes[0] ^= 1;
            }
            bytes
        }
    };
    message.answer(bytes).await.map(drop)
}

pub(crate) async fn one(origin: &Origin<'_>, mut rng: Rng, trial: usize) -> Went {
    let node = rng.below(origin.nodes);
    let mut draw = |bytes_max: u64| {
        let bytes_max = if rng.below(3) == 0 { SHORT_BYTES_MAX } else { bytes_max };
        rng.range(BYTES_MIN, bytes_max)
    };
    let (asked, wanted) = (draw(QUESTION_BYTES_MAX), draw(ANSWER_BYTES_MAX));
    // Room for all of it, for too little, or none.
    let room = [Some(wanted), Some(wanted / 2), None, Some(wanted)][rng.below(4)];
    let as_item = asked < SHORT_BYTES_MAX && rng.below(2) == 0;
    watch(Kind::Message, trial, vec![node], async |seen| {
        let (question, answer) = seeds(trial as u64);
        let bytes = pattern(question, asked as usize);
        let numbers = [trial as u64, asked, wanted].map(|number| number.to_le_bytes().to_vec());
        let long = if as_item { Long::default() } else { Long::of(bytes.clone()) };
        let long = numbers.into_iter().fold(long, Long::item);
        let mut question = Question::of(if as_item { long.item(bytes) } else { long }).timeout(ANSWERED_WITHIN);
        if let Some(room) = room {
            question = question.room(room);
        }
        let got = origin.client.ask(&name(node), question).await?.bytes().await?;
        if got == UNREAD {
            let why = "whoever was asked could not read the question";
            return Err(Exception::new(exceptions::OWNER_LOST, Fault::Network, why));
        }
        if got == WRONG {
            seen.wrong.push("the bytes of the question were others when they were read".to_owned());
            return Ok(());
        }
        seen.compare("the answer", &pattern(answer, wanted as usize), &got);
        Ok(())
    })
    .await
}
