//! A reliable protocol of one's own on short messages, which are not: each is numbered, sent until it is acknowledged, and taken once.

use std::time::Duration;

use catena::{Exception, Mailbox, Received};

use super::{Pair, next, pair};

// ANCHOR: example
/// Sends messages one after another, each until its acknowledgement comes.
struct Sender<'m> {
    mailbox: &'m Mailbox,
    to: &'m str,
    number: u64,
}

impl Sender<'_> {
    async fn send(&mut self, text: &str) -> Result<(), Exception> {
        let number = self.number.to_be_bytes().to_vec();
        self.number += 1;
        loop {
            self.mailbox.send(self.to, [number.clone(), text.as_bytes().to_vec()]).await?;
            let acknowledged = async { while self.mailbox.receive().await.items() != [&number[..]] {} };
            // Not in time: the message was lost, or its acknowledgement was.
            if tokio::time::timeout(Duration::from_millis(10), acknowledged).await.is_ok() {
                return Ok(());
            }
        }
    }
}

/// Takes what is new, and acknowledges whatever comes.
#[derive(Default)]
struct Receiver {
    expected: u64,
}

impl Receiver {
    fn take(&mut self, message: &Received) -> Option<String> {
        let [number, text] = message.items() else { return None };
        if number.as_ref() != self.expected.to_be_bytes() {
            return None;
        }
        self.expected += 1;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    async fn acknowledge(mailbox: &Mailbox, message: &Received) -> Result<(), Exception> {
        mailbox.send(message.from(), message.items().first().cloned()).await
    }
}
// ANCHOR_END: example

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_is_sent_again_and_what_comes_twice_is_taken_once() {
    const TEXTS: [&str; 5] = ["one", "two", "three", "four", "five"];
    let Pair { shop, buyer, .. } = pair().await;
    let sending = async {
        let mut sender = Sender { mailbox: &buyer, to: "shop", number: 0 };
        for text in TEXTS {
            sender.send(text).await.unwrap();
        }
    };
    let receiving = async {
        let (mut receiver, mut taken, mut came) = (Receiver::default(), Vec::new(), 0);
        loop {
            let message = next(&shop).await;
            came += 1;
            // A network that loses one message of three, and one acknowledgement of three.
            if came % 3 != 0 {
                taken.extend(receiver.take(&message));
            }
            if came % 3 == 2 {
                Receiver::acknowledge(&shop, &message).await.unwrap();
            }
            if taken.len() == TEXTS.len() && came % 3 == 2 {
                return (taken, came);
            }
        }
    };
    let ((), (taken, came)) = tokio::join!(sending, receiving);
    assert_eq!(taken, TEXTS, "each once, in order");
    assert!(came > TEXTS.len(), "{came} were sent");
}
