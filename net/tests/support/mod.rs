//! A handler that records, and a transport in memory that runs in virtual time.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use catena_net::transport::{Connection, Listener, Opening, Transport};
use catena_net::{
    Endpoint, EndpointConfig, Frame, Handler, Identity, Incoming, Link, LinkError, Measured, NetError, Place,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

#[derive(Debug)]
pub enum Event {
    Up(Arc<Link>),
    Message(Incoming),
    Lost(LinkError),
    Refused(LinkError),
}

/// Tells everything to the test; answers nothing.
pub struct Recorder(mpsc::Sender<Event>);

/// More than any test causes.
const EVENTS_MAX: usize = 100_000;
const CALLERS_MAX: usize = 64;

impl Recorder {
    fn tell(&self, event: Event) {
        if let Err(mpsc::error::TrySendError::Full(event)) = self.0.try_send(event) {
            panic!("more than {EVENTS_MAX} events: {event:?}");
        }
    }
}

impl Handler for Recorder {
    fn on_link(&self, peer: &Arc<Link>) {
        assert!(peer.identity().is_some());
        self.tell(Event::Up(peer.clone()));
    }
    fn on_message(&self, _: &Arc<Link>, incoming: Incoming) {
        self.tell(Event::Message(incoming));
    }
    fn on_link_lost(&self, peer: &Arc<Link>, why: &LinkError) {
        assert_eq!(peer.ended(), Some(why));
        self.tell(Event::Lost(why.clone()));
    }
    fn on_refused(&self, why: &LinkError) {
        self.tell(Event::Refused(why.clone()));
    }
}

/// What an endpoint saw, in order.
pub struct Events(mpsc::Receiver<Event>);

impl Events {
    pub async fn next(&mut self) -> Event {
        let next = tokio::time::timeout(Duration::from_secs(60), self.0.recv());
        next.await.expect("an event should have come within 60 s").expect("the endpoint lives")
    }
    pub async fn up(&mut self) -> Arc<Link> {
        match self.next().await {
            Event::Up(link) => link,
            other => panic!("expected a link, got {other:?}"),
        }
    }
    pub async fn message(&mut self) -> Incoming {
        match self.next().await {
            Event::Message(incoming) => incoming,
            other => panic!("expected a message, got {other:?}"),
        }
    }
    pub async fn lost(&mut self) -> LinkError {
        match self.next().await {
            Event::Lost(why) => why,
            other => panic!("expected a lost link, got {other:?}"),
        }
    }
    pub async fn refused(&mut self) -> LinkError {
        match self.next().await {
            Event::Refused(why) => why,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub fn identity(node: u64, site: Option<&str>) -> Identity {
    let hello = Bytes::from(format!("node {node}"));
    Identity { node, site: site.map(str::to_owned), hello }
}

pub async fn try_bind(config: EndpointConfig, identity: Identity) -> Result<(Endpoint, Events), NetError> {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let endpoint = Endpoint::bind(config).await?.start(identity, Arc::new(Recorder(sender)))?;
    Ok((endpoint, Events(receiver)))
}

pub async fn bind(config: EndpointConfig, identity: Identity) -> (Endpoint, Events) {
    try_bind(config, identity).await.unwrap_or_else(|error| panic!("{error}"))
}

pub fn loopback() -> Option<SocketAddr> {
    Some(([127, 0, 0, 1], 0).into())
}

pub fn place_of(endpoint: &Endpoint) -> Place {
    Place::new(endpoint.local_address().unwrap().to_string())
}

/// Streams in memory: every listener has its own port, and each stream holds `buffer_bytes` each way.
#[derive(Clone)]
pub struct Memory {
    buffer_bytes: usize,
    ports: Arc<Mutex<HashMap<SocketAddr, mpsc::Sender<DuplexStream>>>>,
}

impl Memory {
    pub fn new(buffer_bytes: usize) -> Self {
        Self { buffer_bytes, ports: Arc::default() }
    }
    pub fn config(&self, port: Option<u16>) -> EndpointConfig {
        EndpointConfig {
            listen: port.map(|port| ([127, 0, 0, 1], port).into()),
            transport: Arc::new(self.clone()),
            // The tests of shapes are in virtual time.
            sharp_shaping: false,
            ..EndpointConfig::default()
        }
    }
    /// The raw end of a connection to a listener.
    pub fn connect(&self, port: u16) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(self.buffer_bytes);
        let address = ([127, 0, 0, 1], port).into();
        self.ports.lock().unwrap()[&address].try_send(theirs).unwrap();
        ours
    }
    /// A listener that hands out the raw ends of what is dialled.
    pub fn raw_listener(&self, port: u16) -> mpsc::Receiver<DuplexStream> {
        let (sender, receiver) = mpsc::channel(CALLERS_MAX);
        self.ports.lock().unwrap().insert(([127, 0, 0, 1], port).into(), sender);
        receiver
    }
    pub fn place(&self, port: u16) -> Place {
        Place::new(format!("127.0.0.1:{port}"))
    }
}

fn connection(stream: DuplexStream, peer: String) -> Connection {
    let (reader, writer) = tokio::io::split(stream);
    Connection { reader: Box::new(reader), writer: Box::new(writer), peer, host: None }
}

#[async_trait]
impl Transport for Memory {
    async fn dial(&self, address: &str) -> io::Result<Connection> {
        let key: SocketAddr = address.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        let (ours, theirs) = tokio::io::duplex(self.buffer_bytes);
        let port = self.ports.lock().unwrap().get(&key).cloned().ok_or(io::ErrorKind::ConnectionRefused)?;
        port.try_send(theirs).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(connection(ours, address.to_owned()))
    }
    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let callers = self.raw_listener(address.port());
        Ok(Box::new(MemoryCallers { address, callers }))
    }
}

struct MemoryCallers {
    address: SocketAddr,
    callers: mpsc::Receiver<DuplexStream>,
}

#[async_trait]
impl Listener for MemoryCallers {
    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
    async fn accept(&mut self) -> io::Result<(String, Opening)> {
        let stream = self.callers.recv().await.ok_or(io::ErrorKind::BrokenPipe)?;
        let opening = async move { Ok(connection(stream, "caller".to_owned())) };
        Ok(("caller".to_owned(), Box::pin(opening)))
    }
}

/// Writes a correct hello and reads the listener's, and nothing of what follows it.
pub async fn shake_hands(stream: &mut DuplexStream, node: u64) {
    let hello =
        catena_net::Hello { identity: identity(node, None), limits: catena_net::Limits::default(), taken: false };
    stream.write_all(&catena_net::encode_hello(&hello)).await.unwrap();
    let mut bytes = vec![0; 12];
    stream.read_exact(&mut bytes).await.expect("closed before its hello");
    bytes.resize(12 + u32::from_le_bytes(*bytes.last_chunk().unwrap()) as usize, 0);
    stream.read_exact(&mut bytes[12..]).await.expect("closed in its hello");
    assert!(catena_net::decode_hello(&mut bytes::BytesMut::from(&bytes[..]), 1 << 20).unwrap().is_some());
}

/// What is measured of a link once that is something else than `seen`.
pub async fn measured_beyond(link: &Link, seen: Measured) -> Measured {
    let waited = tokio::time::timeout(Duration::from_secs(60), link.measured_beyond(seen)).await;
    waited.expect("something should have been measured within 60 s").expect("the link lives")
}

/// Takes every complete frame from the front of `bytes`.
pub fn decode_frames(bytes: &mut bytes::BytesMut) -> Result<Vec<Frame>, catena_net::FrameError> {
    let mut frames = Vec::new();
    while let Some(frame) = Frame::decode(bytes, &catena_net::Limits::default())? {
        frames.push(frame);
    }
    Ok(frames)
}

/// The frames that lie there, else the next.
pub async fn read_frames(stream: &mut DuplexStream) -> Vec<Frame> {
    let (mut bytes, mut frames) = (bytes::BytesMut::with_capacity(1 << 20), Vec::new());
    loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed");
        frames.extend(decode_frames(&mut bytes).unwrap());
        if bytes.is_empty() {
            return frames;
        }
    }
}

/// Everything until the peer closes, at most 1 MiB, within 5 s.
pub async fn read_to_close(stream: &mut DuplexStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut limited = stream.take(1 << 20);
    let reading = async { while limited.read_buf(&mut all).await.unwrap() > 0 {} };
    tokio::time::timeout(Duration::from_secs(5), reading).await.expect("the stream must be closed");
    all
}
