//! All of Glickr's nodes in one process: twelve engines, and the front that they join.

use std::{path::Path, sync::Arc, time::Duration};

use catena::{Client, Node, Place, StartError};

use crate::{
    ENGINES,
    engine::Wait,
    front,
    photos::Index,
    places::{self, PlacesError},
    times,
};

/// Places of each engine.
const PLACES_PER_ENGINE: usize = 400;
/// How often to look whether the nodes know each other.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The nodes, running.
pub struct Stage {
    /// The front.
    pub front: Node,
    /// The engines, in the order of [`ENGINES`].
    pub engines: Vec<Node>,
}

/// The indexes of all engines, over places from this file.
///
/// # Errors
/// There are no places.
pub fn indexes(places: &Path, seed: &str) -> Result<Vec<Index>, PlacesError> {
    let countries = ENGINES.map(|engine| engine.country);
    let places = places::read(places, seed, &countries, PLACES_PER_ENGINE)?;
    Ok(places.iter().map(|places| Index::taken_at(places, seed)).collect())
}

/// Engines that take as long as the paper's, times `scale`.
#[must_use]
pub fn as_the_paper(seed: &str, scale: f64) -> Wait {
    let seed = seed.to_owned();
    Arc::new(move |engine, keyword| {
        let ms = times::response_ms(&seed, keyword, engine.id) * scale;
        Box::pin(tokio::time::sleep(Duration::from_secs_f64(ms / 1e3)))
    })
}

impl Stage {
    /// Starts them, on loopback ports that the system chooses, and waits until they know each other.
    ///
    /// # Errors
    /// No port is free.
    pub async fn open(indexes: Vec<Index>, wait: Wait) -> Result<Self, StartError> {
        let front = Node::builder("front").listen("127.0.0.1:0").service(front::service()).start().await?;
        let address = front.address().unwrap_or_default().to_owned();
        let mut engines = Vec::with_capacity(ENGINES.len());
        for (engine, index) in ENGINES.into_iter().zip(indexes) {
            let builder = Node::builder(engine.id).listen("127.0.0.1:0").join(Place::new(&address));
            engines.push(builder.service(engine.service(index, Arc::clone(&wait))).start().await?);
        }
        let stage = Self { front, engines };
        while stage.front.client().services().await.len() <= stage.engines.len() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(stage)
    }

    /// A client at a place of its own, over a link.
    ///
    /// # Errors
    /// The front cannot be reached.
    pub async fn client(&self) -> Result<Client, StartError> {
        Client::connect(self.front.address().unwrap_or_default()).await
    }

    /// Closes all nodes, sending first what is queued.
    pub async fn close(self) {
        for node in self.engines.into_iter().chain([self.front]) {
            node.close(Duration::from_millis(200)).await;
        }
    }
}
