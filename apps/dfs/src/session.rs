//! A clerk's connection to one run of its server: the imported tables, the lanes for what they have not, and a lease.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use catena::{Client, Exception, Export, Node, Place, Rights};
use catena_clerk::{Asking, FRAME_HEAD_BYTES, FarTable, Lease, answers_bytes};
use catena_files::{Entry, FileError};

use crate::{
    clerk::{ClerkConfig, Way},
    limits::{LANES, LEASE, LEASE_EVERY, RECONNECT_TIMEOUT, REQUEST_TIMEOUT},
    protocol::{Hello, Reply, Request, SERVICE, TABLES, Welcome, decode, encode},
};

pub(crate) struct Session {
    node: Node,
    client: Client,
    pub(crate) data: FarTable,
    pub(crate) names: FarTable,
    pub(crate) attributes: FarTable,
    pub(crate) entries: FarTable,
    pub(crate) lease: Lease,
    pub(crate) root: Entry,
    /// The number of this run of the server.
    pub(crate) run: u64,
    asking: Asking,
    /// Bytes of requests and answers in lanes, with their heads.
    control_bytes: AtomicU64,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Within a runtime the links are closed in order; without one they end with the process.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let node = self.node.clone();
            runtime.spawn(async move { node.close(Duration::from_millis(100)).await });
        }
    }
}

impl Session {
    /// Connects; keeps trying for a while if the server is not there.
    pub(crate) async fn open(config: &ClerkConfig) -> Result<Self, FileError> {
        let begun = tokio::time::Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            match tokio::time::timeout(RECONNECT_TIMEOUT, Self::try_open(config)).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(cause)) if begun.elapsed() >= config.patience => {
                    return Err(FileError::Unreachable {
                        what: "connecting".to_owned(),
                        server: config.server.clone(),
                        cause,
                    });
                }
                Ok(Err(_)) => tokio::time::sleep(pause).await,
                Err(_) => {
                    let cause = format!("no answer within {RECONNECT_TIMEOUT:?}");
                    return Err(FileError::Unreachable {
                        what: "connecting".to_owned(),
                        server: config.server.clone(),
                        cause,
                    });
                }
            }
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    async fn try_open(config: &ClerkConfig) -> Result<Self, String> {
        let name = format!("dfs-clerk-{:016x}", fastrand::u64(..));
        let builder = Node::builder(&name).listen("127.0.0.1:0").join(Place::new(&config.server));
        let builder = if config.shared_memory { builder } else { builder.without_shared_memory() };
        let node = builder.start().await.map_err(|why| why.to_string())?;
        Self::introduce(node, &name, &config.server).await.map_err(|why| why.to_string())
    }

    async fn introduce(node: Node, name: &str, server: &str) -> Result<Self, Exception> {
        let client = node.client();
        let table = async |table: &str| FarTable::open(client.import(&format!("{server}/{table}")).await?).await;
        let [data, names, attributes, entries] = TABLES;
        let (data, names) = (table(data).await?, table(names).await?);
        let (attributes, entries) = (table(attributes).await?, table(entries).await?);
        let lease = Lease::begin(attributes.clone(), LEASE_EVERY, LEASE).await?;
        let owner = data.segment().owner().id;
        let answers = node.export("answers", answers_bytes(&LANES), Export::default())?;
        answers.allow(owner, Rights::READ.and(Rights::WRITE)).await?;
        let hello = Hello { clerk: node.id().0, answers: format!("{name}/answers") };
        let Welcome { requests, root, run } = client.call(SERVICE, "hello", &hello).await?;
        let requests = client.import(&requests).await?;
        let asking = Asking::new(requests, answers, LANES)?;
        let control_bytes = AtomicU64::new(0);
        Ok(Self { node, client, data, names, attributes, entries, lease, root, run, asking, control_bytes })
    }

    /// Has the server execute a request: transfers control. An error that is not `unknown` means that it was not executed.
    pub(crate) async fn ask(&self, way: Way, request: &Request) -> Result<Reply, Exception> {
        let asked = async {
            match way {
                Way::Call => self.client.call(SERVICE, "perform", request).await,
                Way::Data | Way::Hybrid => {
                    let request = encode(request);
                    let answer = self.asking.ask(&request, REQUEST_TIMEOUT).await?;
                    let bytes = request.len() + answer.len() + 2 * FRAME_HEAD_BYTES;
                    self.control_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    decode(answer).map_err(Exception::outcome_unknown)
                }
            }
        };
        tokio::select! {
            reply = asked => reply,
            why = self.lease.lost() => Err(why.outcome_unknown()),
        }
    }

    /// Bytes of the requests sent and the answers received in lanes so far, including data transferred with control.
    pub(crate) fn control_bytes(&self) -> u64 {
        self.control_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that crossed its links so far.
    pub(crate) fn traffic(&self) -> u64 {
        let traffic = self.client.traffic();
        traffic.sent_bytes + traffic.received_bytes
    }
}
