//! Figure 5's servers, in one process.
#![allow(unreachable_pub)]

use std::sync::Arc;

use catena::{Client, Exception, Fault, Node, NodeBuilder, Place, Sandbox, Service, StartError, Topology, exceptions};
use catena_apps::{
    files,
    replicated::{BACKUP, PRIMARY, REPLICATED, SOURCE, replicated},
};
use catena_files::FileService;

/// A client, a source, a primary and its backup, each a node of its own (rpc-chains section 5.3.2: client in Cambridge, source and primary in
/// Mountain View, backup in Redmond).
pub struct Stage {
    /// Begins the copies.
    pub client: Client,
    /// The nodes `source`, `primary` and `backup`.
    pub nodes: [Node; 3],
}

impl Stage {
    /// Starts all of them, over links as `topology` shapes them.
    ///
    /// # Errors
    /// No port is free.
    pub async fn open(
        sandbox: &Sandbox,
        topology: Option<Arc<Topology>>,
        [source, primary, backup]: [Arc<dyn FileService>; 3],
    ) -> Result<Self, StartError> {
        let source = vec![files::service(SOURCE, source)];
        let primary = vec![files::service(PRIMARY, primary), replicated(REPLICATED, PRIMARY, BACKUP)];
        let backup = vec![files::service(BACKUP, backup)];
        Self::of(sandbox, topology, [source, primary, backup]).await
    }

    /// The same with any services at the three nodes.
    ///
    /// # Errors
    /// As [`Stage::open`], or two services of one node have the same name.
    pub async fn of(
        sandbox: &Sandbox,
        topology: Option<Arc<Topology>>,
        [source, primary, backup]: [Vec<Service>; 3],
    ) -> Result<Self, StartError> {
        let shape = |builder: NodeBuilder, site: &str| {
            let builder = builder.site(site).sandbox(sandbox.clone());
            match &topology {
                Some(topology) => builder.topology(Arc::clone(topology)),
                None => builder,
            }
        };
        let node = async |name: &str, site: &str, services: Vec<Service>, join: &[Place]| {
            let builder = shape(Node::builder(name), site).listen("127.0.0.1:0");
            let builder = services.into_iter().fold(builder, NodeBuilder::service);
            join.iter().cloned().fold(builder, NodeBuilder::join).start().await
        };
        let place = |node: &Node, site: &str| {
            let address = node.address().unwrap_or_default().to_owned();
            Place { address, site: Some(site.to_owned()) }
        };
        let source = node("source", "mtv", source, &[]).await?;
        let mut all = vec![place(&source, "mtv")];
        let primary = node("primary", "mtv", primary, &all).await?;
        all.push(place(&primary, "mtv"));
        let backup = node("backup", "red", backup, &all).await?;
        all.push(place(&backup, "red"));
        let client = all.into_iter().fold(shape(Client::builder("client"), "cam"), NodeBuilder::join);
        Ok(Self { client: client.connect().await?, nodes: [source, primary, backup] })
    }

    /// Puts a file of `bytes` at the source.
    ///
    /// # Errors
    /// What its service says.
    pub async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Exception> {
        use catena_files::{CreateParams, Entry, Stable, WriteParams, WriteResult};
        let create = CreateParams { path: Some(path.to_owned()), size: Some(0), ..CreateParams::default() };
        let made: Entry = self.client.call(SOURCE, "create", &create).await?;
        let mut offset = 0;
        for data in bytes.chunks(256 << 10) {
            let data = serde_bytes::ByteBuf::from(data);
            let write = WriteParams { handle: made.handle.clone(), offset, data, stable: Stable::Unstable };
            let written: WriteResult = self.client.call(SOURCE, "write", &write).await?;
            if written.count as usize != write.data.len() {
                let why = "the source wrote less than it was given; its server restarted";
                return Err(Exception::new(exceptions::SERVICE_FAILED, Fault::Service, why));
            }
            offset += u64::from(written.count);
        }
        Ok(())
    }
}
