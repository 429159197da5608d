//! Who accesses memory of whom, and what that is compared with. The owner, and tonic's server, are processes of their own.

use bytes::Bytes;
use catena::{Client, Imported, Long, Mailbox, Place, Wish};
use serde_bytes::ByteBuf;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Mutex,
};

use super::owner::{BULK, BULK_BYTES, LONG_BYTES, OWNER, POST, SMALL_BYTES, STORE, SWAPPED_AT, WORDS};
use crate::{
    Failure,
    grpc::{self, Payload},
    mesh,
    server::Server,
};

/// Bytes of a small WRITE: what the paper's cell holds.
pub(crate) const CELL_BYTES: usize = 40;

/// One small access, or what it is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// 64 bytes there and back over raw TCP.
    Raw,
    /// READ of 64 bytes by the link.
    Read,
    /// WRITE of 40 bytes by the link, until a flush says that it is done.
    WriteFlush,
    /// CAS of 8 bytes by the link.
    Cas,
    /// A plain call that brings 64 bytes.
    Call,
    /// A gRPC call that brings 64 bytes.
    Tonic,
    /// A short message of 64 bytes there, and one back.
    Short,
    /// A long message of 1 MiB, until it is known to have been read.
    Long,
    /// The same between nodes that share memory.
    LongNear,
    /// A gRPC call that takes 1 MiB there.
    TonicLong,
}

/// An access in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shared {
    /// READ of 64 bytes.
    Read,
    /// WRITE of 40 bytes.
    Write,
    /// CAS of 8 bytes.
    Cas,
}

/// Everybody who takes part.
pub(crate) struct Peers {
    owner: Server,
    tonic: Server,
    grpc: grpc::Client,
    /// Does not share memory: everything goes by the link.
    pub(crate) far: Client,
    pub(crate) words: Imported,
    pub(crate) bulk: Imported,
    pub(crate) words_shared: Imported,
    pub(crate) bulk_shared: Imported,
    _near: Client,
    post: Mailbox,
    post_near: Mailbox,
    long: Bytes,
    echo: Mutex<TcpStream>,
    sink: Mutex<TcpStream>,
}

impl Peers {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let owner = Server::start(&["owner"]).await?;
        let [node, echo, sink] = owner.address.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("the owner said {:?}", owner.address).into());
        };
        let client =
            |name: &str| Ok::<_, Failure>(Client::builder(name).sandbox(mesh::sandbox()?).join(Place::new(node)));
        let far = client("far")?.without_shared_memory().connect().await?;
        let near = client("near")?.connect().await?;
        let raw = async |address: &str| {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok::<_, Failure>(Mutex::new(stream))
        };
        let (echo, sink) = (raw(echo).await?, raw(sink).await?);
        let named = |name: &str| format!("{OWNER}/{name}");
        let (words, bulk) = (far.import(&named(WORDS)).await?, far.import(&named(BULK)).await?);
        let (words_shared, bulk_shared) = (near.import(&named(WORDS)).await?, near.import(&named(BULK)).await?);
        let (post, post_near) = (far.mailbox("far post")?, near.mailbox("near post")?);
        let long = Bytes::from(vec![7; LONG_BYTES]);
        let tonic = Server::start(&["tonic"]).await?;
        let grpc = grpc::connect(&tonic).await?;
        Ok(Self {
            owner,
            tonic,
            grpc,
            far,
            words,
            bulk,
            words_shared,
            bulk_shared,
            _near: near,
            post,
            post_near,
            long,
            echo,
            sink,
        })
    }

    /// Where the owner's node listens.
    pub(crate) fn node(&self) -> &str {
        self.owner.address.split(' ').next().unwrap_or_default()
    }

    /// Of both servers.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        [&self.owner, &self.tonic].into_iter().filter_map(Server::process)
    }

    /// Processor time that the one who is asked has taken, in seconds.
    pub(crate) async fn cpu_s(&self, job: Job) -> Result<f64, Failure> {
        match job {
            Job::Tonic | Job::TonicLong => self.tonic.cpu_s().await,
            _ => self.owner_cpu_s().await,
        }
    }

    pub(crate) async fn owner_cpu_s(&self) -> Result<f64, Failure> {
        self.owner.cpu_s().await
    }

    pub(crate) async fn once(&self, job: Job) -> Result<(), Failure> {
        match job {
            Job::Raw => {
                let mut message = [7; SMALL_BYTES];
                let mut echo = self.echo.lock().await;
                echo.write_all(&message).await?;
                echo.read_exact(&mut message).await?;
            }
            Job::Read => drop(self.words.read(0, SMALL_BYTES as u64).await?),
            Job::WriteFlush => {
                self.words.write(0, Bytes::from_static(&[7; CELL_BYTES])).await?;
                self.words.flush().await?;
            }
            Job::Cas => drop(self.words.cas(SWAPPED_AT, 0, 0).await?),
            Job::Call => {
                self.far.call::<_, ByteBuf>(STORE, "read", &(0, SMALL_BYTES)).await?;
            }
            Job::Tonic => drop(self.grpc.clone().call(Payload { data: Bytes::from_static(&[7; SMALL_BYTES]) }).await?),
            Job::Short => {
                self.post.send(POST, [Bytes::from_static(&[7; SMALL_BYTES])]).await?;
                drop(self.post.receive().await);
            }
            Job::Long => self.post.send_long(POST, Long::of(self.long.clone())).await?.completed().await?,
            Job::LongNear => self.post_near.send_long(POST, Long::of(self.long.clone())).await?.completed().await?,
            Job::TonicLong => drop(self.grpc.clone().call(Payload { data: self.long.clone() }).await?),
        }
        Ok(())
    }

    /// So many accesses in shared memory, one behind the other.
    pub(crate) async fn repeat(&self, access: Shared, count: usize) -> Result<(), Failure> {
        let memory = &self.words_shared;
        match access {
            Shared::Read => {
                for _ in 0..count {
                    let mut out = [0; SMALL_BYTES];
                    memory.read_into(0, &mut out).await?;
                    std::hint::black_box(&out);
                }
            }
            Shared::Write => {
                for _ in 0..count {
                    memory.write(0, Bytes::from_static(&[7; CELL_BYTES])).await?;
                }
            }
            Shared::Cas => {
                for _ in 0..count {
                    std::hint::black_box(memory.cas(SWAPPED_AT, 0, 0).await?);
                }
            }
        }
        Ok(())
    }

    /// Writes so many blocks, one behind the other, and waits until all are there.
    pub(crate) async fn write_blocks(&self, to: &Imported, block: &Bytes, blocks: usize) -> Result<(), Failure> {
        for number in 0..blocks {
            let at = (number * block.len()) as u64 % BULK_BYTES;
            to.write_as(at, block.clone(), Wish::default()).await?;
        }
        Ok(to.flush().await?)
    }

    /// The same to a raw TCP connection.
    pub(crate) async fn stream_blocks(&self, block: &Bytes, blocks: usize) -> Result<(), Failure> {
        let mut sink = self.sink.lock().await;
        sink.write_u64((blocks * block.len()) as u64).await?;
        for _ in 0..blocks {
            sink.write_all(block).await?;
        }
        sink.read_u8().await?;
        Ok(())
    }
}
