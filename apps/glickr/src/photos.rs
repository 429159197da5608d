//! Photos, made up from a seed: each of a keyword, at a place, with a picture of its own.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{draw::Draw, keywords::KEYWORDS, places::Place};

/// Photos at one place, at most.
const PER_PLACE_MAX: usize = 4;
/// How much more often the first keywords come than the last: a keyword's weight is 1 / (its rank + this).
const EVENNESS: f64 = 30.0;

/// What a search gives of a photo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Photo {
    /// What it says under it.
    pub title: String,
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// The picture: SVG.
    pub picture: String,
}

/// The photos of an engine, by keyword.
#[derive(Clone, Debug, Default)]
pub struct Index {
    photos: HashMap<&'static str, Vec<Photo>>,
}

impl Index {
    /// Takes photos at these places.
    #[must_use]
    pub fn taken_at(places: &[Place], seed: &str) -> Self {
        let weights: Vec<f64> = (0..KEYWORDS.len()).map(|rank| 1.0 / (rank as f64 + EVENNESS)).collect();
        let total: f64 = weights.iter().sum();
        let mut index = Self::default();
        for place in places {
            let mut draw = Draw::of(&[seed, "photos", &place.name, &place.latitude.to_string()]);
            for _ in 0..=draw.below(PER_PLACE_MAX) {
                let mut lot = draw.unit() * total;
                let at = weights.iter().position(|weight| {
                    lot -= weight;
                    lot < 0.0
                });
                let keyword = KEYWORDS[at.unwrap_or_default()];
                index.photos.entry(keyword).or_default().push(photo(keyword, place, &mut draw));
            }
        }
        index
    }

    /// The photos for a keyword, whatever its case.
    #[must_use]
    pub fn search(&self, keyword: &str) -> &[Photo] {
        self.photos.get(keyword.trim().to_lowercase().as_str()).map_or(&[], Vec::as_slice)
    }

    /// All photos.
    #[must_use]
    pub fn count(&self) -> usize {
        self.photos.values().map(Vec::len).sum()
    }
}

fn photo(keyword: &str, place: &Place, draw: &mut Draw) -> Photo {
    // Not all on one spot: within some ten kilometres.
    let mut near = |degrees: f64| degrees + (draw.unit() - 0.5) * 0.2;
    let (latitude, longitude) = (near(place.latitude), near(place.longitude));
    Photo { title: format!("{keyword} at {}", place.name), latitude, longitude, picture: picture(keyword, draw) }
}

/// Sky, a sun or moon, hills, and the keyword's first letter, in colours of its own.
fn picture(keyword: &str, draw: &mut Draw) -> String {
    let hue = draw.below(360);
    let (sun, ridge, second) = (20 + draw.below(60), 34 + draw.below(20), 44 + draw.below(14));
    let letter = keyword.chars().next().unwrap_or(' ').to_ascii_uppercase();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 96 72\"><rect width=\"96\" height=\"72\" fill=\"hsl({hue} 60% 78%)\"/>\
         <circle cx=\"{sun}\" cy=\"20\" r=\"9\" fill=\"hsl({} 90% 90%)\"/>\
         <path d=\"M0 {ridge}Q24 {} 48 {ridge}T96 {ridge}V72H0Z\" fill=\"hsl({} 35% 48%)\"/>\
         <path d=\"M0 {second}Q30 {} 60 {second}T96 {second}V72H0Z\" fill=\"hsl({} 40% 32%)\"/>\
         <text x=\"90\" y=\"66\" text-anchor=\"end\" font-family=\"sans-serif\" font-size=\"15\" fill=\"#fffc\">{letter}</text></svg>",
        (hue + 40) % 360,
        ridge - 16,
        (hue + 150) % 360,
        second - 10,
        (hue + 170) % 360,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_takes_the_same_photos() {
        let place = |index: i32| Place { name: format!("p{index}"), latitude: f64::from(index) / 10.0, longitude: 1.0 };
        let places: Vec<Place> = (0..300).map(place).collect();
        let index = Index::taken_at(&places, "seed");
        assert_eq!(index.search(" Animals "), Index::taken_at(&places, "seed").search("animals"));
        assert_ne!(index.search("animals"), Index::taken_at(&places, "other").search("animals"));
        assert!(KEYWORDS.iter().filter(|keyword| index.search(keyword).is_empty()).count() < 10);
        assert!(index.search("no such word").is_empty() && index.count() > 300);
    }
}
