//! All sites in one process: a node and a database for each, and links between them as long as those between the real places.

use std::{path::Path, sync::Arc, time::Duration};

use catena::{Client, Node, Place, StartError, Topology};
use tempfile::TempDir;

use crate::{
    data::{self, Size},
    database::{self, Bounded, Database, DatabaseError, MariaDb, ServerError, Switch},
    service::{name, service},
    sites::SITES,
};

/// How long it may take until all sites know each other.
const MESH_TIMEOUT: Duration = Duration::from_secs(30);
/// How often to ask whether they do.
const MESH_ASK_EVERY: Duration = Duration::from_millis(20);

/// Which database each site has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Embedded: nothing to install.
    Sqlite,
    /// A real server for each site, as in the paper. Debian: `mariadb-server-core`.
    MariaDb,
    /// A real server at this site, and embedded databases at the others.
    MariaDbAt(usize),
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The databases.
    pub engine: Engine,
    /// What is in them.
    pub size: Size,
    /// Drawn from this.
    pub seed: u64,
    /// How long a database is waited for. The paper's requests to a dead one time out after 8 s.
    pub wait: Duration,
    /// How far the sites are apart.
    pub topology: Option<Arc<Topology>>,
}

/// Why the sites do not run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A database server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A database.
    #[error("{place}: {why}")]
    Database {
        /// Where.
        place: &'static str,
        /// Why.
        why: DatabaseError,
    },
    /// A node.
    #[error(transparent)]
    Node(#[from] StartError),
    /// No folder for the data.
    #[error("no folder for the databases can be made: {0}")]
    Folder(#[from] std::io::Error),
    /// They do not find each other.
    #[error("the sites do not find each other within {} s", MESH_TIMEOUT.as_secs())]
    Apart,
}

/// The sites, running until this is dropped.
pub struct Federation {
    sites: Vec<Running>,
    topology: Option<Arc<Topology>>,
    /// Removed at the end, after the servers have gone.
    _folder: TempDir,
}

struct Running {
    node: Node,
    switch: Switch,
    server: Option<MariaDb>,
}

impl Federation {
    /// Starts and fills all databases, and the nodes over them.
    ///
    /// # Errors
    /// What of it did not work.
    pub async fn open(plan: &Plan) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("corsair-").tempdir()?;
        let rows = data::rows(plan.seed, plan.size);
        let mut federation = Self { sites: Vec::new(), topology: plan.topology.clone(), _folder: folder };
        for (site, rows) in rows.iter().enumerate() {
            let failed = |why| Failure::Database { place: SITES[site].place, why };
            let folder = federation._folder.path().join(SITES[site].id);
            let (database, switch, server) = start(site, plan, &folder).await?;
            database.fill(rows).await.map_err(failed)?;
            federation.add(site, database, switch, server).await?;
        }
        federation.meet().await?;
        Ok(federation)
    }

    async fn add(
        &mut self,
        site: usize,
        database: Arc<dyn Database>,
        switch: Switch,
        server: Option<MariaDb>,
    ) -> Result<(), StartError> {
        let builder = Node::builder(SITES[site].id).site(SITES[site].id).listen("127.0.0.1:0");
        let builder = match &self.topology {
            Some(topology) => builder.topology(Arc::clone(topology)),
            None => builder,
        };
        // Each node joins all earlier ones, so that everybody knows everybody at once.
        let builder = (0..self.sites.len()).fold(builder, |builder, other| builder.join(self.place(other)));
        let node = builder.service(service(site, database)).start().await?;
        self.sites.push(Running { node, switch, server });
        Ok(())
    }

    /// Waits until each node knows the services of all others.
    async fn meet(&self) -> Result<(), Failure> {
        let met = async {
            for (site, running) in self.sites.iter().enumerate() {
                let client = running.node.client();
                let knows = |other| client.known_services().iter().any(|known| known.service == name(other));
                while !(0..SITES.len()).all(|other| other == site || knows(other)) {
                    tokio::time::sleep(MESH_ASK_EVERY).await;
                }
            }
        };
        tokio::time::timeout(MESH_TIMEOUT, met).await.map_err(|_| Failure::Apart)
    }

    fn place(&self, site: usize) -> Place {
        let address = self.sites[site].node.address().unwrap_or_default().to_owned();
        Place { address, site: Some(SITES[site].id.into()) }
    }

    /// A client at a site, linked with that site's node.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub async fn client(&self, site: usize) -> Result<Client, StartError> {
        let id = SITES[site].id;
        let builder = Client::builder(format!("client.{id}")).site(id).join(self.place(site));
        match &self.topology {
            Some(topology) => builder.topology(Arc::clone(topology)).connect().await,
            None => builder.connect().await,
        }
    }

    /// Stops a site's database as if its machine stood still, or has it go on.
    pub fn run_database(&self, site: usize, runs: bool) {
        match &self.sites[site].server {
            Some(server) if runs => server.go_on(),
            Some(server) => server.stop(),
            None => self.sites[site].switch.set(runs),
        }
    }

    /// A site's database server, if it has one of its own.
    pub fn server(&mut self, site: usize) -> Option<&mut MariaDb> {
        self.sites[site].server.as_mut()
    }
}

async fn start(
    site: usize,
    plan: &Plan,
    folder: &Path,
) -> Result<(Arc<dyn Database>, Switch, Option<MariaDb>), Failure> {
    let failed = |why| Failure::Database { place: SITES[site].place, why };
    let (number, switch) = (u32::try_from(site).unwrap_or(0), Switch::default());
    let bounded = |database: Bounded| -> Arc<dyn Database> { Arc::new(database) };
    let real = match plan.engine {
        Engine::Sqlite => false,
        Engine::MariaDb => true,
        Engine::MariaDbAt(at) => at == site,
    };
    Ok(match real {
        false => {
            let file = folder.with_extension("sqlite");
            let database = database::sqlite(number, &file).await.map_err(failed)?;
            (bounded(Bounded::new(database, plan.wait, switch.clone())), switch, None)
        }
        true => {
            let server = MariaDb::start(folder).await?;
            let database = database::mariadb(number, server.options(), plan.wait);
            (bounded(Bounded::new(database, plan.wait, switch.clone())), switch, Some(server))
        }
    })
}
