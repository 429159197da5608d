//! Catena: chains of remote calls. The node and the client
