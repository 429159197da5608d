//! The four ways to synchronise over segments (Separating Data and Control Transfer, section 3.4), each as small as it gets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use catena::{Client, Exception, Export, Imported, Node, Place, Rights, Wish};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node, and two clients that have imported its segment.
async fn three(bytes: u64) -> (Node, catena::Segment, [Imported; 2], [Client; 2]) {
    let owner = Node::builder("owner").listen("127.0.0.1:0").start().await.unwrap();
    let segment = owner.export("shared", bytes, Export { anyone: Rights::ALL, ..Export::default() }).unwrap();
    let client = async |name: &str| {
        let place = Place::new(owner.address().unwrap());
        let client = Client::builder(name).join(place).connect().await.unwrap();
        (client.import("owner/shared").await.unwrap(), client)
    };
    let ((one, first), (two, second)) = (client("one").await, client("two").await);
    (owner, segment, [one, two], [first, second])
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(*bytes.first_chunk().unwrap())
}

/// Not at all: each node writes its load, and whoever has work looks for the least. An old value does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_needs_no_synchronisation() {
    let (_owner, _segment, [one, two], _clients) = three(16).await;
    one.write(0, 7_u64.to_ne_bytes().to_vec()).await.unwrap();
    two.write(8, 3_u64.to_ne_bytes().to_vec()).await.unwrap();
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    let loads = one.read(0, 16).await.unwrap();
    let least = loads.chunks(8).enumerate().min_by_key(|(_, load)| word(load)).unwrap();
    assert_eq!(least.0, 1);
}

/// A flag with one writer: the record first, then the flag. Who finds the flag finds the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flag_says_that_a_record_is_there() {
    let (_owner, _segment, [writer, reader], _clients) = three(1_032).await;
    let writing = tokio::spawn(async move {
        for round in 1..=50_u8 {
            let record = 8 + u64::from(round % 2) * 512;
            writer.write(record, vec![round; 512]).await.unwrap();
            writer.write(0, u64::from(round).to_ne_bytes().to_vec()).await.unwrap();
            writer.flush().await.unwrap();
        }
    });
    loop {
        let round = word(&reader.read(0, 8).await.unwrap());
        let record = reader.read(8 + round % 2 * 512, 512).await.unwrap();
        // One round on, the other half is written: a reader who was too slow sees that in the flag.
        if word(&reader.read(0, 8).await.unwrap()) == round && round > 0 {
            assert!(record.iter().all(|byte| u64::from(*byte) == round), "{round}");
        }
        if round == 50 {
            break;
        }
    }
    writing.await.unwrap();
}

/// A lock word: until when it is held, in milliseconds, and by whom. Whoever finds it overdue takes it over, so that it survives the death of its holder.
struct Lock<'a>(&'a Imported, u64);

impl Lock<'_> {
    async fn acquire(&self, lasts_ms: u64) -> Result<u64, Exception> {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            let held = word(&self.0.read(0, 8).await?);
            let mine = (now + lasts_ms) << 8 | self.1;
            if held >> 8 < now && self.0.cas(0, held, mine).await? == held {
                return Ok(mine);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn release(&self, mine: u64) -> Result<bool, Exception> {
        Ok(self.0.cas(0, mine, 0).await? == mine)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_the_death_of_its_holder() {
    let (_owner, segment, [one, two], _clients) = three(16).await;
    let work = async |far: Imported, who: u64| {
        for _ in 0..50 {
            let lock = Lock(&far, who);
            let mine = lock.acquire(60_000).await.unwrap();
            // Two accesses that only the lock makes one.
            let count = word(&far.read(8, 8).await.unwrap());
            far.write(8, (count + 1).to_ne_bytes().to_vec()).await.unwrap();
            far.flush().await.unwrap();
            assert!(lock.release(mine).await.unwrap());
        }
    };
    tokio::join!(work(one.clone(), 1), work(two.clone(), 2));
    let mut count = [0; 8];
    segment.read(8, &mut count).unwrap();
    assert_eq!(word(&count), 100);
    // One takes it for no time and is never heard of again.
    Lock(&one, 1).acquire(0).await.unwrap();
    let taken = tokio::time::timeout(PATIENCE, Lock(&two, 2).acquire(60_000)).await;
    assert!(taken.unwrap().is_ok());
}

/// A bounded queue of words: producers take a place by swapping the tail, and fill it; the owner empties places in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_queue_takes_places_by_swapping() {
    const PLACES: u64 = 8;
    let (_owner, segment, [one, two], _clients) = three(16 + 8 * PLACES).await;
    let produce = async |far: Imported, who: u64| {
        for number in 1..=40_u64 {
            let at = loop {
                let ends = far.read(0, 16).await.unwrap();
                let (head, tail) = (word(&ends), word(&ends[8..]));
                if tail < head + PLACES && far.cas(8, tail, tail + 1).await.unwrap() == tail {
                    break 16 + tail % PLACES * 8;
                }
                tokio::task::yield_now().await;
            };
            far.write(at, (who << 32 | number).to_ne_bytes().to_vec()).await.unwrap();
        }
        far.flush().await.unwrap();
    };
    let consume = tokio::spawn(async move {
        let mut last = [0; 3];
        for head in 0..80_u64 {
            let at = 16 + head % PLACES * 8;
            let mut place = [0; 8];
            while word(&place) == 0 {
                tokio::task::yield_now().await;
                segment.read(at, &mut place).unwrap();
            }
            let (who, number) = (word(&place) >> 32, word(&place) & 0xffff_ffff);
            assert_eq!(number, last[who as usize] + 1, "in order, once, and none lost");
            last[who as usize] = number;
            segment.write(at, &[0; 8]).unwrap();
            segment.write(0, &(head + 1).to_ne_bytes()).unwrap();
        }
    });
    let all = async { tokio::join!(produce(one, 1), produce(two, 2)) };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    consume.await.unwrap();
}

/// Control: a request is written with a notification, and the owner's handler writes the answer. The semantics of a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_calls_a_handler() {
    let (_owner, segment, [one, _], _clients) = three(16).await;
    let answering = segment.clone();
    segment
        .on_notice(move |_| {
            let mut request = [0; 8];
            answering.read(0, &mut request).unwrap();
            answering.write(8, &(word(&request) * 2).to_ne_bytes()).unwrap();
        })
        .unwrap();
    one.write_as(0, 21_u64.to_ne_bytes().to_vec(), Wish { notify: true, ..Wish::default() }).await.unwrap();
    let answer = async {
        while word(&one.read(8, 8).await.unwrap()) != 42 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.unwrap();
}
