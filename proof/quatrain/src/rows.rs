//! Tables as the applications write them: a line of names, then lines of values, no quotes.

use std::path::Path;

use crate::Failure;

/// A table.
pub(crate) struct Rows {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// `None` if there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let names = lines.next().ok_or_else(|| format!("{} is empty", path.display()))?;
        Ok(Some(Self { names, rows: lines.collect() }))
    }

    /// A column's texts.
    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        let at = self.names.iter().position(|one| one == name);
        self.rows.iter().map(|row| at.and_then(|at| row.get(at)).map_or("", String::as_str)).collect()
    }

    /// A column's numbers; none where there is no number.
    pub(crate) fn numbers(&self, name: &str) -> Vec<Option<f64>> {
        self.texts(name).iter().map(|text| text.parse().ok().filter(|number: &f64| number.is_finite())).collect()
    }
}
