//! A gateway over a node, and a browser as it is on the wire: bytes over a socket.
#![allow(unreachable_pub, dead_code)]

use std::{net::SocketAddr, time::Duration};

use catena::{Client, Node, NodeBuilder, Place, Service};
use catena_gateway::{Config, Gateway};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
};

/// The longest that anything here may take: nothing waits for it unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compiled modules, from one run of the tests to the next.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");

/// A gateway, with the node that it calls.
pub struct Stage {
    pub gateway: Gateway,
    pub client: Client,
    _node: Node,
}

impl Stage {
    /// These services, behind a gateway as `set` has it.
    pub async fn open(services: Vec<Service>, set: impl FnOnce(&mut Config)) -> Self {
        Self::open_beside(Node::builder("far"), services, set).await
    }

    /// The same, with a node that is built like this.
    pub async fn open_beside(far: NodeBuilder, services: Vec<Service>, set: impl FnOnce(&mut Config)) -> Self {
        let builder = far.listen("127.0.0.1:0");
        let node = services.into_iter().fold(builder, |builder, service| builder.service(service));
        let node = node.start().await.unwrap();
        let client = Client::builder("gateway").join(Place::new(node.address().unwrap())).cache_dir(CACHE);
        let client = client.connect().await.unwrap();
        let mut config = Config::default();
        set(&mut config);
        let gateway = Gateway::open(client.clone(), config).await.unwrap();
        Self { gateway, client, _node: node }
    }

    pub fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Until the gateway has so many connections and calls under way.
    pub async fn load(&self, expected: (usize, usize)) {
        while self.gateway.load() != expected {
            tokio::task::yield_now().await;
        }
    }

    pub async fn browser(&self) -> Browser {
        Browser::connect(self.address()).await
    }

    /// One request over a connection of its own.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut browser = self.browser().await;
        browser.post(path, headers, body).await;
        browser.answer().await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.browser().await.get(path, &[]).await
    }
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// It is this problem, and says whose fault it is and what to do.
    #[track_caller]
    pub fn is_problem(&self, status: u16, name: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["name"].as_str()), (status, Some(name)), "{problem}");
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        for key in ["detail", "fault", "help"] {
            assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{key} is missing: {problem}");
        }
        problem
    }
}

/// An event of a stream.
#[derive(Debug, PartialEq)]
pub struct Event {
    pub name: String,
    pub data: Value,
}

impl Event {
    pub fn reply(data: impl Into<Value>) -> Self {
        Self { name: "reply".into(), data: data.into() }
    }
}

/// A connection.
pub struct Browser {
    stream: BufReader<TcpStream>,
    host: SocketAddr,
    /// Of a stream of events: text that has come and is not yet an event.
    text: String,
}

impl Browser {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self { stream: BufReader::new(stream), host: address, text: String::new() }
    }

    /// One at another address of the loopback network.
    pub async fn from(from: &str, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let stream = socket.connect(address).await.unwrap();
        Self { stream: BufReader::new(stream), host: address, text: String::new() }
    }

    pub async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask_for("GET", path, headers).await;
        self.answer().await
    }

    /// A request without a body.
    pub async fn ask_for(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.send(format!("{head}\r\n").as_bytes()).await;
    }

    /// One for whom the system takes in next to nothing.
    pub async fn narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let stream = socket.connect(address).await.unwrap();
        Self { stream: BufReader::new(stream), host: address, text: String::new() }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).await.unwrap();
    }

    pub async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
        let defaults = [("host", self.host.to_string()), ("content-type", "application/json".to_owned())];
        for (name, value) in &defaults {
            if !headers.iter().any(|(given, _)| given == name) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.send(format!("{head}\r\n{body}").as_bytes()).await;
    }

    /// Asks for events.
    pub async fn ask(&mut self, path: &str, body: &str) {
        self.post(path, &[("accept", "text/event-stream")], body).await;
    }

    /// Up to the blank line, with what stands before it.
    pub async fn head(&mut self) -> (u16, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = patient(self.stream.read_line(&mut head)).await.unwrap();
            assert!(read > 0, "the connection ended within a head: {head:?}");
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{head}")), head)
    }

    /// A whole response.
    pub async fn answer(&mut self) -> Answer {
        let (status, head) = self.head().await;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = Vec::new();
        if let Some(length) = length {
            body.resize(length.parse().unwrap(), 0);
            patient(self.stream.read_exact(&mut body)).await.unwrap();
        } else if status != 204 {
            while let Some(chunk) = self.chunk().await {
                body.extend_from_slice(&chunk);
            }
        }
        Answer { status, head, body }
    }

    /// A chunk (RFC 9112 section 7.1); `None` after the last.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut size = String::new();
        patient(self.stream.read_line(&mut size)).await.unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|why| panic!("{why}: {size:?}"));
        let mut chunk = vec![0; size + 2];
        patient(self.stream.read_exact(&mut chunk)).await.unwrap();
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// The next event; `None` after the end of the stream. Comments are passed over.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                    return Some(Event { name: name.to_owned(), data: serde_json::from_str(data).unwrap() });
                }
            } else {
                let chunk = self.chunk().await?;
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        }
    }

    /// How many replies came until the end of the stream, and its last event.
    pub async fn count(&mut self) -> (usize, String) {
        let mut replies = 0;
        while let Some(chunk) = self.chunk().await {
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            let whole = self.text.rfind("\n\n").map_or(0, |end| end + 2);
            replies += self.text[..whole].matches("event: reply\n").count();
            if self.text[..whole].contains("event: end\n") {
                break;
            }
            self.text.drain(..whole);
        }
        let end = self.text.find("event: end\n").map(|at| self.text[at..].to_owned());
        (replies, end.expect("the stream has an end"))
    }

    /// Whether an answer came with 200, rather than a refusal or an end.
    pub async fn rest_or_answer(&mut self) -> bool {
        let mut line = String::new();
        let _ = patient(self.stream.read_line(&mut line)).await;
        line.starts_with("HTTP/1.1 200")
    }

    /// Reads until the other side closes; whatever came.
    pub async fn rest(&mut self) -> Vec<u8> {
        let (mut rest, mut buffer) = (Vec::new(), [0; 4 << 10]);
        // A reset is an end too.
        while let Ok(bytes @ 1..) = patient(self.stream.read(&mut buffer)).await {
            rest.extend_from_slice(&buffer[..bytes]);
        }
        rest
    }
}

/// Waits, but not for ever.
pub async fn patient<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.expect("nothing happened for a minute")
}
