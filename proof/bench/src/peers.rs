//! Ours and what it is compared with. Every server is a process of its own; the clients are this one.

use tokio::sync::Mutex;

use catena::Sandbox;

use crate::{Failure, grpc::Grpc, mesh::Mesh, ring::Ring, server::Server};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// Once around a ring of four raw TCP connections.
    Ring,
    /// A chain through four services, compiled.
    ChainWasm,
    /// The same between nodes that keep no custody, in the same processes.
    ChainBare,
    /// The same in JavaScript.
    ChainJs,
    /// Four unary gRPC calls, one after the other.
    Tonic4,
    /// One of them.
    Tonic1,
    /// One plain call of a service.
    Call,
    /// The same between nodes that know that they are on one host, in the same processes.
    CallNear,
    /// The chain in JavaScript between those.
    ChainNear,
}

/// Everybody who is asked.
pub(crate) struct Peers {
    nodes: Vec<Server>,
    mesh: Mesh,
    bare: Mesh,
    near: Mesh,
    grpc: Grpc,
    ring: Mutex<Ring>,
    ring_servers: Vec<Server>,
}

impl Peers {
    pub(crate) async fn start(sandbox: &Sandbox) -> Result<Self, Failure> {
        let (nodes, [mesh, bare, near]) = Mesh::start(sandbox).await?;
        let (ring, ring_servers) = Ring::start().await?;
        Ok(Self { nodes, mesh, bare, near, grpc: Grpc::start().await?, ring: Mutex::new(ring), ring_servers })
    }

    /// Processor time that everybody has taken who takes part in a job, in seconds.
    pub(crate) async fn cpu_s(&self, job: Job) -> Result<f64, Failure> {
        let servers = match job {
            Job::Tonic4 | Job::Tonic1 => &self.grpc.servers,
            _ => &self.nodes,
        };
        let each = futures_util::future::try_join_all(servers.iter().map(Server::cpu_s)).await?;
        Ok(each.into_iter().sum())
    }

    /// All servers in two halves: gRPC's, which this process calls, in the second; neighbours in a chain or a ring in different ones.
    pub(crate) fn processes(&self) -> [Vec<u32>; 2] {
        let mut parted = [Vec::new(), self.grpc.servers.iter().filter_map(Server::process).collect()];
        for servers in [&self.nodes, &self.ring_servers] {
            for (at, server) in servers.iter().enumerate() {
                parted[(at + 1) % 2].extend(server.process());
            }
        }
        parted
    }

    pub(crate) async fn once(&self, job: Job) -> Result<(), Failure> {
        match job {
            Job::Ring => self.ring.lock().await.round().await,
            Job::ChainWasm => self.mesh.chain_wasm().await,
            Job::ChainBare => self.bare.chain_wasm().await,
            Job::ChainJs => self.mesh.chain_js().await,
            Job::Tonic4 => self.grpc.four().await,
            Job::Tonic1 => self.grpc.one().await,
            Job::Call => self.mesh.call().await,
            Job::CallNear => self.near.call().await,
            Job::ChainNear => self.near.chain_js().await,
        }
    }
}
