//! A service of prices, and a clerk that READs them: `cargo run --release -p catena-clerk --example prices`.
#![allow(clippy::print_stdout, reason = "it says what it finds, and how")]

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catena::{Client, Exception, Node, Service, ServiceError};
use catena_clerk::{Changes, FarTable, Key, Lease, Shape, Table};

const SHAPE: Shape = Shape { slots: 1_024, sectors: 1, payload: 64 };
const BEAT_EVERY: Duration = Duration::from_millis(200);
const LEASE: Duration = Duration::from_secs(2);

/// What server and clerks know of each other: where the price of something lies. It is the group of that price, too: what goes when it changes.
fn price_of(thing: &str) -> Key {
    Key::of(&[b"price of", thing.as_bytes()])
}

/// The server: all prices, and a table of those that were asked for.
struct Shop {
    prices: Mutex<HashMap<String, String>>,
    changes: Changes,
    table: Table,
}

impl Shop {
    /// On a miss. Whatever changes from here on keeps what is read now out of the table.
    fn price(&self, thing: &str) -> Result<String, ServiceError> {
        let look = self.changes.look();
        let price = self.prices.lock().unwrap_or_else(PoisonError::into_inner).get(thing).cloned();
        let price = price.ok_or_else(|| ServiceError::named("NotSold", "ask for something that is sold here"))?;
        self.table.put(look, price_of(thing), [Some(price_of(thing)), None], price.as_bytes());
        Ok(price)
    }

    /// Void before it changes; nothing is entered again until `changing` is dropped.
    fn change(&self, thing: &str, price: &str) {
        let changing = self.changes.begin([price_of(thing)]);
        self.table.remove_group(price_of(thing));
        self.prices.lock().unwrap_or_else(PoisonError::into_inner).insert(thing.to_owned(), price.to_owned());
        drop(changing);
    }
}

fn open(node: &Node) -> Result<Arc<Shop>, Exception> {
    let changes = Changes::default();
    let table = Table::export(node, "prices", SHAPE, &changes)?;
    let shop = Arc::new(Shop { prices: Mutex::default(), changes, table });
    let (asked, beating) = (Arc::clone(&shop), Arc::clone(&shop));
    node.offer(Service::new("shop").function("price", move |thing: String| {
        let shop = Arc::clone(&asked);
        async move { shop.price(&thing) }
    }))?;
    tokio::spawn(async move {
        loop {
            beating.table.beat();
            tokio::time::sleep(BEAT_EVERY).await;
        }
    });
    Ok(shop)
}

/// The other half, on the machine of its clients.
struct Clerk {
    client: Client,
    prices: FarTable,
    lease: Lease,
}

impl Clerk {
    async fn connect(server: &str) -> Result<Self, Box<dyn Error>> {
        let client = Client::connect(server).await?;
        let prices = FarTable::open(client.import("server/prices").await?).await?;
        let lease = Lease::begin(prices.clone(), BEAT_EVERY, LEASE).await?;
        Ok(Self { client, prices, lease })
    }

    /// A price, and how the clerk came by it.
    async fn price(&self, thing: &str) -> Result<(String, &'static str), Exception> {
        let read = self.prices.get(price_of(thing), SHAPE.value_bytes()).await?;
        // After the READ: what a server left behind that is gone by now does not count.
        match read.filter(|_| self.lease.is_good()) {
            Some(price) => Ok((String::from_utf8_lossy(&price).into_owned(), "read: none of the server's code ran")),
            None => Ok((self.client.call("shop", "price", thing).await?, "a miss: the server was asked")),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let node = Node::builder("server").listen("127.0.0.1:0").start().await?;
    // One that takes the place of another that was here waits for LEASE now: until then clerks may believe what they read of the other.
    let shop = open(&node)?;
    let clerk = Clerk::connect(node.address().unwrap_or_default()).await?;
    for price in ["3.20", "3.40"] {
        shop.change("tea", price);
        for _ in 0..2 {
            let (price, how) = clerk.price("tea").await?;
            println!("tea costs {price} ({how})");
        }
    }
    Ok(())
}
