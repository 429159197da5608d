//! Glickr (Quatrain sections 4.2 and 5.3): photos of a keyword on a globe, from twelve local search engines.
//!
//! The engines are services of nodes of their own, each with an index of its country and response times of its own. A front service asks all of them. In
//! *multi-return* mode it passes each engine's photos on as they come; in *standard* mode it waits for all, and answers once.
#![forbid(unsafe_code)]

mod draw;
pub mod engine;
pub mod figures;
pub mod front;
pub mod keywords;
pub mod photos;
pub mod places;
pub mod stage;
pub mod times;

use engine::Engine;

/// The seed of everything that is made up, unless another is given.
pub const SEED: &str = "glickr";

/// The local search engines.
pub const ENGINES: [Engine; 12] = [
    Engine { id: "us", name: "United States", country: "US" },
    Engine { id: "ca", name: "Canada", country: "CA" },
    Engine { id: "mx", name: "Mexico", country: "MX" },
    Engine { id: "br", name: "Brazil", country: "BR" },
    Engine { id: "gb", name: "United Kingdom", country: "GB" },
    Engine { id: "fr", name: "France", country: "FR" },
    Engine { id: "de", name: "Germany", country: "DE" },
    Engine { id: "za", name: "South Africa", country: "ZA" },
    Engine { id: "in", name: "India", country: "IN" },
    Engine { id: "cn", name: "China", country: "CN" },
    Engine { id: "jp", name: "Japan", country: "JP" },
    Engine { id: "au", name: "Australia", country: "AU" },
];
