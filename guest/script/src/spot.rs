//! A place in a text of the user's, shown as compilers show it.

/// The most of a line that is shown, in characters: a bundle may be one line of a megabyte.
const LINE_CHARS_MAX: usize = 120;

/// A place in a file, and the line around it where that is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// As the user named it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The part of the line that is shown, and how many of its characters stand before the caret.
    pub shown: Option<(String, usize)>,
}

impl Spot {
    /// The place of the byte at `offset` of `text`.
    #[must_use]
    pub fn at_byte(file: &str, text: &str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset.min(text.len()));
        let before = text.get(..offset).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self::at_line(file, text, to_u32(line), to_u32(column))
    }

    /// A place that is known by its numbers.
    #[must_use]
    pub fn at_line(file: &str, text: &str, line: u32, column: u32) -> Self {
        let index = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
        let shown = text.split('\n').nth(index).map(|line| part(line.trim_end_matches('\r'), column));
        Self { file: file.to_owned(), line, column: column.max(1), shown }
    }

    /// `FILE:LINE:COLUMN`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}:{}:{}", printable(&self.file), self.line, self.column)
    }

    /// The line with a caret under the place, each line with a line feed before it; nothing if the line is not at hand.
    #[must_use]
    pub fn lines(&self) -> String {
        let Some((text, before)) = &self.shown else { return String::new() };
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // A tab above is a tab below, so the caret stands right whatever a tab's width is.
        let above = text.chars().chain(std::iter::repeat(' ')).take(*before);
        let caret: String = above.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        format!("\n{margin} |\n{number} | {}\n{margin} | {caret}^", printable(text))
    }
}

/// The text with its control characters replaced (the tab and the line feed stay): what came over a network or out of a file must
/// not command a terminal. Bidirectional overrides too: they make a line read as what it is not.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a terminal would do something else than show it.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\t' && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn part(line: &str, column: u32) -> (String, usize) {
    let column = usize::try_from(column).unwrap_or(usize::MAX).saturating_sub(1);
    let skipped = if column < LINE_CHARS_MAX { 0 } else { column - LINE_CHARS_MAX / 2 };
    let shown: String = line.chars().skip(skipped).take(LINE_CHARS_MAX).collect();
    (shown, (column - skipped).min(LINE_CHARS_MAX))
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_cannot_be_commanded() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\nd\u{202e}"), "a\u{fffd}[2Jb\tc\nd\u{fffd}");
    }

    #[test]
    fn a_byte_is_a_line_and_a_column_in_characters() {
        let text = "name = \"é\"\nlisten = 7\n";
        let spot = Spot::at_byte("a.toml", text, text.find('7').unwrap_or_default());
        assert_eq!(spot.name(), "a.toml:2:10");
        assert_eq!(spot.lines(), "\n  |\n2 | listen = 7\n  |          ^");
    }

    #[test]
    fn tabs_keep_the_caret_in_place() {
        assert_eq!(Spot::at_line("a", "\tx = ?", 1, 6).lines(), "\n  |\n1 | \tx = ?\n  | \t    ^");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let spot = Spot::at_line("a", &"x".repeat(10_000), 1, 5_000);
        let (text, before) = spot.shown.unwrap_or_default();
        assert_eq!((text.len(), before), (120, 60));
    }

    #[test]
    fn a_place_beyond_the_text_has_no_line() {
        assert_eq!(Spot::at_line("a", "one", 9, 1).lines(), "");
        assert_eq!(Spot::at_byte("a", "", 9).name(), "a:1:1");
    }
}
