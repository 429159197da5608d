//! What people use today: calls with tonic, over TCP without TLS.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, transport::Channel};

use crate::{Failure, mesh::NAMES, replies::as_they_come, server::Server};

#[allow(clippy::all, unreachable_pub, missing_docs)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/catena.bench.Noop.rs"));
}

use generated::noop_client::NoopClient;
use generated::noop_server::{Noop, NoopServer};

/// What goes there and back.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) data: Bytes,
}

/// More is taken, and not sent back.
const ECHOED_BYTES_MAX: usize = 64 << 10;
/// By default tonic takes 4 MiB.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// What a stream brings, as often as its request says.
const STREAMED: [u8; 64] = [7; 64];

pub(crate) type Client = NoopClient<Channel>;
type Streamed = Pin<Box<dyn Stream<Item = Result<Payload, Status>> + Send>>;

struct Noops;

#[tonic::async_trait]
impl Noop for Noops {
    async fn call(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let Payload { data } = request.into_inner();
        // What is long is taken, not sent back.
        let answer = if data.len() > ECHOED_BYTES_MAX { Bytes::new() } else { data };
        Ok(Response::new(Payload { data: answer }))
    }

    type ManyStream = Streamed;

    async fn many(&self, request: Request<Payload>) -> Result<Response<Streamed>, Status> {
        let count = <[u8; 9]>::try_from(&request.get_ref().data[..]);
        let [burst, count @ ..] = count.map_err(|_| Status::invalid_argument("at once, and how many?"))?;
        let all =
            stream::iter((0..u64::from_be_bytes(count)).map(|_| Ok(Payload { data: Bytes::from_static(&STREAMED) })));
        Ok(Response::new(if burst == 1 { all.boxed() } else { as_they_come(all).boxed() }))
    }
}

/// Four servers, and a client of each.
pub(crate) struct Grpc {
    clients: Vec<Client>,
    pub(crate) servers: Vec<Server>,
}

impl Grpc {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        for _ in NAMES {
            let server = Server::start(&["tonic"]).await?;
            clients.push(connect(&server).await?);
            servers.push(server);
        }
        Ok(Self { clients, servers })
    }

    /// One call to each of the four, one after the other.
    pub(crate) async fn four(&self) -> Result<(), Failure> {
        let mut payload = Payload { data: Bytes::from_static(&[0xf6]) };
        for client in &self.clients {
            payload = client.clone().call(payload).await?.into_inner();
        }
        Ok(())
    }

    /// One call to the first.
    pub(crate) async fn one(&self) -> Result<(), Failure> {
        self.clients[0].clone().call(Payload { data: Bytes::from_static(&[0xf6]) }).await?;
        Ok(())
    }
}

pub(crate) async fn connect(server: &Server) -> Result<Client, Failure> {
    let channel = Channel::from_shared(server.address.clone())?.tcp_nodelay(true).connect().await?;
    Ok(NoopClient::new(channel))
}

pub(crate) async fn serve() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tonic::transport::Server::builder()
        .add_service(NoopServer::new(Noops).max_decoding_message_size(MESSAGE_BYTES_MAX));
    tokio::spawn(server.serve_with_incoming(incoming));
    Ok(address)
}
