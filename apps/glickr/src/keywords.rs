//! What people look for: 100 common nouns among the tags of photos (Quatrain section 5.3).

/// The keywords.
#[rustfmt::skip]
pub const KEYWORDS: [&str; 100] = [
    "animals", "architecture", "art", "autumn", "baby", "band", "beach", "bike", "bird", "boat",
    "bridge", "building", "butterfly", "cake", "car", "castle", "cat", "child", "church", "city",
    "clouds", "coast", "concert", "dance", "desert", "dog", "family", "farm", "fashion", "festival",
    "field", "fire", "fish", "flower", "food", "forest", "friends", "fruit", "garden", "girl",
    "glass", "graffiti", "grass", "harbour", "hat", "hill", "holiday", "home", "horse", "house",
    "insect", "island", "kids", "lake", "landscape", "leaf", "light", "machine", "man", "market",
    "model", "moon", "mountain", "museum", "music", "nature", "night", "ocean", "park", "party",
    "people", "plant", "portrait", "rain", "reflection", "river", "road", "rock", "roof", "sea",
    "ship", "sign", "sky", "snow", "spring", "street", "summer", "sun", "sunset", "tower",
    "train", "tree", "valley", "village", "water", "waterfall", "wedding", "window", "winter", "zoo",
];
