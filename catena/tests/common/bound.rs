//! A peer that is an endpoint and nothing else: its port first, so that its hello can name it.

use catena_net::{BoundEndpoint, Endpoint, EndpointConfig};

/// An endpoint that will listen on the loopback, and its address.
pub(crate) async fn bound() -> (BoundEndpoint, String) {
    let config = EndpointConfig { listen: Some(([127, 0, 0, 1], 0).into()), ..EndpointConfig::default() };
    let bound = Endpoint::bind(config).await.expect("a port");
    let address = bound.local_address().expect("it listens").to_string();
    (bound, address)
}
