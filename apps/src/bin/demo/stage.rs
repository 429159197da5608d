//! The processes of the demonstration: `catena dev`, and three more nodes joined to it with `catena up`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use catena::{Client, Place, Topology};
use serde_json::Value as Json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::Failure;

/// How long a process may take until it is ready: the first start compiles the engine.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long all nodes may take to know each other.
const MESH_TIMEOUT: Duration = Duration::from_secs(20);
/// How often to ask.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// The nodes, running. Dropping it ends them.
pub(crate) struct Stage {
    folder: PathBuf,
    entry: Place,
    processes: Vec<Child>,
}

impl Stage {
    pub(crate) async fn open(folder: &Path) -> Result<Self, Failure> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder.join("mtv2"))?;
        let folder = folder.canonicalize()?;
        println!("starting four sites: catena dev");
        let data = folder.join("data");
        std::fs::create_dir_all(&data)?;
        let (dev, ready) = start(&["dev", "--port-base", "0", "--json", "--data", text(&data)?]).await?;
        let address = ready["nodes"][0]["address"].as_str().ok_or("catena dev names no address")?.to_owned();
        let mut stage = Self { entry: Place { address, site: Some("mtv".into()) }, processes: vec![dev], folder };
        stage
            .add(
                "mtv2",
                "mtv",
                &format!("kind = \"files\"\nname = \"files.mtv2\"\nroot = {:?}", stage.folder.join("mtv2")),
            )
            .await?;
        stage.add("storage", "bei", "kind = \"mail\"\nname = \"mail.storage\"").await?;
        stage.add("ads", "bei", "kind = \"ads\"\nname = \"ads\"").await?;
        Ok(stage)
    }

    /// One more node, as anybody would add it.
    async fn add(&mut self, name: &str, site: &str, service: &str) -> Result<(), Failure> {
        println!("starting one more server: catena up {name}.toml");
        let config = format!(
            "name = {name:?}\nsite = {site:?}\nlisten = \"127.0.0.1:0\"\nshaped = \"paper\"\njoin = [{{ address = {:?}, site = \"mtv\" }}]\n\n[[service]]\n{service}\n",
            self.entry.address
        );
        let path = self.folder.join(format!("{name}.toml"));
        std::fs::write(&path, config)?;
        let (process, _) = start(&["up", text(&path)?, "--json"]).await?;
        self.processes.push(process);
        Ok(())
    }

    /// The folder that `files.SITE` serves.
    pub(crate) fn data(&self, site: &str) -> PathBuf {
        self.folder.join("data").join(site)
    }

    /// A client at a site, linked with all nodes, once these services are known.
    pub(crate) async fn client(&self, site: &str, services: &[&str]) -> Result<Client, Failure> {
        let builder = Client::builder(format!("client.{site}")).site(site).topology(Arc::new(Topology::paper()));
        let client = builder.join(self.entry.clone()).connect().await?;
        let known = async {
            loop {
                let known = client.services().await;
                if services.iter().all(|service| known.iter().any(|entry| entry.service == *service)) {
                    return;
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        timeout(MESH_TIMEOUT, known).await.map_err(|_| format!("the nodes do not find {services:?}"))?;
        Ok(client)
    }

    pub(crate) async fn close(mut self) {
        for process in &mut self.processes {
            // Started by this process, so ended by it.
            let _ = process.kill().await;
        }
    }
}

/// Starts the `catena` command that was built beside this one, and waits until it says that it is ready.
async fn start(arguments: &[&str]) -> Result<(Child, Json), Failure> {
    let command = std::env::current_exe()?.with_file_name("catena");
    let mut process = Command::new(&command)
        .args(arguments)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|why| format!("{}: {why}; build it first: cargo build --release", command.display()))?;
    let output = process.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(output).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await? {
            match serde_json::from_str::<Json>(&line) {
                Ok(json) if json["ready"] == true => return Ok(json),
                _ => println!("{line}"),
            }
        }
        Err::<Json, Failure>(format!("catena {} ended before it was ready", arguments[0]).into())
    };
    let ready =
        timeout(READY_TIMEOUT, ready).await.map_err(|_| format!("catena {} does not get ready", arguments[0]))??;
    Ok((process, ready))
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()).into())
}
