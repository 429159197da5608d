//! The known name that is nearest to one that is not known.

/// How alike two names must be (Jaro-Winkler, 0 to 1) for one to be offered for the other.
const LIKENESS_MIN: f64 = 0.75;

/// The nearest of the known names, if one is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// `did you mean X?`, or what else to say.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    nearest(name, known).map_or_else(|| otherwise.to_owned(), |known| format!("did you mean {known}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_mended_and_another_word_is_not() {
        assert_eq!(nearest("lisen", ["name", "listen", "site"]), Some("listen"));
        assert_eq!(nearest("zzz", ["name", "listen"]), None);
        assert_eq!(did_you_mean("zzz", ["name"], "see --help"), "see --help");
    }
}
