//! What browsers may ask for: a list, empty unless somebody fills it.

use std::{fmt, str::FromStr};

use catena::Code;

/// A service's functions that browsers may call: one (`photos/search`), or all (`photos/*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    service: String,
    /// `None`: all.
    function: Option<String>,
}

/// What is no [`Offer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not of the form SERVICE/FUNCTION or SERVICE/*, such as photos/search")]
pub struct OfferError(String);

impl Offer {
    /// Whether it covers this function.
    pub(crate) fn covers(&self, service: &str, function: &str) -> bool {
        self.service == service && self.function.as_deref().is_none_or(|offered| offered == function)
    }

    /// The function that it names, if it names one.
    pub(crate) fn named(&self) -> Option<(&str, &str)> {
        Some((&self.service, self.function.as_deref()?))
    }
}

impl FromStr for Offer {
    type Err = OfferError;

    fn from_str(text: &str) -> Result<Self, OfferError> {
        let wrong = || OfferError(text.to_owned());
        let (service, function) = text.split_once('/').ok_or_else(wrong)?;
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '*']);
        if !is_name(service) || !(function == "*" || is_name(function)) {
            return Err(wrong());
        }
        Ok(Self { service: service.to_owned(), function: (function != "*").then(|| function.to_owned()) })
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.function.as_deref().unwrap_or("*"))
    }
}

/// A function that browsers may run as a chain, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As it is asked for: `/run/NAME`.
    pub name: String,
    /// The function.
    pub code: Code,
}

impl Named {
    /// Whether it is the one asked for, by its name or its hash.
    pub(crate) fn is(&self, asked: &str) -> bool {
        self.name == asked || self.code.hash().to_string() == asked
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_is_named_is_offered() {
        let one: Offer = "photos/search".parse().unwrap();
        assert!(one.covers("photos", "search") && !one.covers("photos", "delete") && !one.covers("photo", "search"));
        let all: Offer = "photos/*".parse().unwrap();
        assert!(all.covers("photos", "delete") && !all.covers("photos.private", "search"));
        for wrong in ["photos", "*", "*/*", "photos/", "/search", "a/b/c", "photos*/search", ""] {
            assert!(wrong.parse::<Offer>().is_err(), "{wrong}");
        }
    }
}
