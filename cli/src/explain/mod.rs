//! A chain, drawn hop by hop: where it was, and where its time went (rpc-chains section 3.7). From a profile to text; nothing else.
//!
//! Each stay is timed by its own node's clock, and the way there by two clocks: on machines whose clocks differ, network times are off by
//! the difference, and one that would be negative is shown as unknown. A call made from afar is timed by the asking node's clock, and its
//! service by the other's, each by itself: what is left is the network, whatever the clocks say.

mod lanes;

use catena::{BlobBytes, StepTrace};
use serde_json::json;

use self::lanes::{Hop, Lanes, Role};
use crate::output::{Paint, printable};

/// Columns of the timeline.
const BAR_COLUMNS: usize = 40;
/// Longest name shown.
const NAME_CHARS_MAX: usize = 28;
/// Steps drawn; of a longer chain the first and the last ones.
const STEPS_DRAWN_MAX: usize = 120;
/// Of these, how many of the last.
const STEPS_DRAWN_LAST: usize = 20;

/// A profile, laid out along one line of time.
pub(crate) struct Chart<'a> {
    hops: Vec<Hop<'a>>,
    /// The way of the answer to the origin.
    home_us: Option<u64>,
    total_us: u64,
}

impl<'a> Chart<'a> {
    /// Lays a profile out. `ended_at_us`: when the end arrived, microseconds since the Unix epoch by the origin's clock.
    pub(crate) fn new(steps: &'a [StepTrace], ended_at_us: u64) -> Self {
        let Lanes { hops, end_us, left_for_home_at_us } = lanes::place(steps);
        let home_us = left_for_home_at_us.and_then(|left_at_us| ended_at_us.checked_sub(left_at_us));
        Self { hops, home_us, total_us: end_us.saturating_add(home_us.unwrap_or_default()) }
    }

    /// For programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        let steps: Vec<_> = self.hops.iter().map(json_of).collect();
        json!({ "steps": steps, "home_us": self.home_us, "total_us": self.total_us })
    }

    /// For people. `fancy`: with colour and drawing characters, else in plain ASCII.
    pub(crate) fn text(&self, fancy: bool) -> String {
        let pen = Pen { fancy, total_us: self.total_us.max(1) };
        let mut rows = vec![Cells::head(self.is_split(), !self.blobs().is_empty())];
        let last_from = self.hops.len().saturating_sub(STEPS_DRAWN_LAST);
        let folded = self.hops.len() > STEPS_DRAWN_MAX;
        for (index, hop) in self.hops.iter().enumerate() {
            let drawn = !folded || index < STEPS_DRAWN_MAX - STEPS_DRAWN_LAST || index >= last_from;
            if drawn {
                rows.push(Cells::of(hop, &pen));
            } else if index + 1 == last_from {
                let hidden = self.hops.len() - STEPS_DRAWN_MAX;
                rows.push(Cells::note(&format!("... {hidden} more steps: --json has them")));
            }
        }
        if let Some(home_us) = self.home_us {
            rows.push(Cells::home(home_us, self.total_us.saturating_sub(home_us), &pen));
        }
        align(&rows) + &self.summary(&pen)
    }

    fn is_split(&self) -> bool {
        self.hops.iter().any(|hop| !hop.step.branch.is_root())
    }

    /// What all steps read of blobs.
    fn blobs(&self) -> Vec<&BlobBytes> {
        self.hops.iter().filter_map(|hop| hop.step.blobs.as_deref()).collect()
    }

    fn summary(&self, pen: &Pen) -> String {
        let sum = |of: fn(&Hop<'a>) -> u64| self.hops.iter().map(of).fold(0, u64::saturating_add);
        let ways_us = sum(|hop| hop.network_us.unwrap_or_default());
        let network_us = ways_us.saturating_add(self.home_us.unwrap_or_default());
        let service_us = sum(|hop| hop.step.service_us);
        let guest_us = sum(|hop| hop.step.guest_us);
        let count = |of: fn(&Hop<'a>) -> bool| self.hops.iter().filter(|hop| hop.called() && of(hop)).count();
        let (calls, from_afar, in_place) = (count(|_| true), count(Hop::is_from_afar), count(Hop::is_in_place));
        let side_by_side = self.is_split() || network_us.saturating_add(service_us) > self.total_us;
        let blobs = match self.blobs().as_slice() {
            [] => String::new(),
            reads => format!("; blobs read: {}", blobs_text(reads)),
        };
        let part = |kind: Part, name: &str, us: u64| {
            let percent = (us as f64) * 100.0 / (self.total_us.max(1) as f64);
            format!("{} {name} {} ({percent:.0}%)", pen.key(kind), ms(us))
        };
        format!(
            "total {}: {}, {}, {}\n\
             {calls} calls, {} of them by hopping, {from_afar} from afar, {in_place} in place; {} of state carried",
            ms(self.total_us),
            part(Part::Network, "network", network_us),
            part(Part::Service, "service", service_us),
            part(Part::Guest, "guest", guest_us),
            calls - from_afar - in_place,
            bytes(sum(|hop| hop.step.continuation_bytes)),
        ) + &blobs
            + if side_by_side {
                "\nwhat ran side by side is counted each: the times may add up to more than the total"
            } else {
                ""
            }
    }
}

/// One step, as programs get it.
fn json_of(hop: &Hop<'_>) -> serde_json::Value {
    let step = hop.step;
    json!({
        "step": step.step,
        // Of a split: such as `.1.2`; empty for the whole chain.
        "branch": step.branch.to_string(),
        "role": hop.role,
        "node": step.node,
        "served_by": step.served_by,
        "site": step.site,
        "target": hop.target(),
        "begins_us": hop.begins_us,
        "network_us": hop.network_us,
        "stay_us": hop.stay_us,
        "service_us": step.service_us,
        "guest_us": step.guest_us,
        "continuation_bytes": step.continuation_bytes,
        "params_bytes": step.params_bytes,
        "blobs": step.blobs.as_deref().map(blobs_json),
        "in_place": hop.is_in_place(),
    })
}

/// What a piece of time was spent on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    Network,
    Service,
    Guest,
    Waiting,
}

struct Pen {
    fancy: bool,
    total_us: u64,
}

impl Pen {
    fn key(&self, part: Part) -> String {
        self.keys(&[part])
    }

    /// Columns of one kind, painted in one go.
    fn keys(&self, run: &[Part]) -> String {
        let part = run.first().copied().unwrap_or(Part::Nothing);
        let (plain, drawn, paint) = match part {
            Part::Nothing => (" ", " ", None),
            Part::Network => ("-", "─", Some(Paint::Blue)),
            Part::Service => ("#", "█", Some(Paint::Green)),
            Part::Guest => ("=", "▓", Some(Paint::Yellow)),
            Part::Waiting => (".", "·", Some(Paint::Dim)),
        };
        match (self.fancy, paint) {
            (false, _) => plain.repeat(run.len()),
            (true, None) => drawn.repeat(run.len()),
            (true, Some(paint)) => paint.on(&drawn.repeat(run.len())),
        }
    }

    fn column(&self, at_us: u64) -> usize {
        let column = u128::from(at_us) * BAR_COLUMNS as u128 / u128::from(self.total_us);
        usize::try_from(column).unwrap_or(BAR_COLUMNS).min(BAR_COLUMNS)
    }

    fn bar_of(&self, hop: &Hop<'_>) -> String {
        let Hop { begins_us, stay_us, step: &StepTrace { service_us, guest_us, .. }, .. } = *hop;
        let network_us = hop.network_us.unwrap_or_default();
        if hop.is_from_afar() {
            let there_us = network_us / 2;
            let stay = [(Part::Network, there_us), (Part::Service, service_us), (Part::Network, network_us - there_us)];
            return self.bar(begins_us, 0, stay);
        }
        let rest_us = stay_us.saturating_sub(guest_us);
        let service_us = if hop.is_in_place() { service_us.max(rest_us) } else { service_us };
        let waiting_us = rest_us.saturating_sub(service_us);
        let stay = [(Part::Service, service_us), (Part::Waiting, waiting_us), (Part::Guest, guest_us)];
        self.bar(begins_us, network_us, stay)
    }

    /// Draws the pieces one after the other, from `begins_us` on. A stay too short for a column of its own gets one for its greatest piece.
    fn bar(&self, begins_us: u64, network_us: u64, stay: [(Part, u64); 3]) -> String {
        let mut columns = [Part::Nothing; BAR_COLUMNS];
        let mut fill = |from_us: u64, to_us: u64, part| {
            columns[self.column(from_us)..self.column(to_us)].fill(part);
        };
        fill(begins_us.saturating_sub(network_us), begins_us, Part::Network);
        let mut at_us = begins_us;
        for (part, us) in stay {
            let next_us = at_us.saturating_add(us);
            fill(at_us, next_us, part);
            at_us = next_us;
        }
        let greatest = stay.iter().max_by_key(|(_, us)| *us).filter(|(_, us)| *us > 0);
        if let Some((part, _)) = greatest
            && self.column(begins_us) == self.column(at_us)
        {
            columns[self.column(begins_us).min(BAR_COLUMNS - 1)] = *part;
        }
        let end = columns.iter().rposition(|part| *part != Part::Nothing).map_or(0, |last| last + 1);
        columns[..end].chunk_by(|a, b| a == b).map(|run| self.keys(run)).collect()
    }
}

/// Columns of the table, without the bar.
const COLUMNS: usize = 10;

/// The column that says what was called.
const CALLING: usize = 4;
/// The column that says how long that took on the network.
const NETWORK: usize = 5;

/// One row of the table. The bar comes last, since its colours have no width.
#[derive(Default)]
struct Cells {
    cells: [String; COLUMNS],
    bar: String,
}

impl Cells {
    /// The head of the table; a column that no step fills has no name.
    fn head(split: bool, reads_blobs: bool) -> Self {
        let (branch, blobs) = (if split { "branch" } else { "" }, if reads_blobs { "blobs" } else { "" });
        let cells = ["step", branch, "node", "site", "calling", "network", "service", "guest", "state", blobs];
        Self { cells: cells.map(str::to_owned), bar: String::new() }
    }

    fn of(hop: &Hop<'_>, pen: &Pen) -> Self {
        let step = hop.step;
        let calling = match hop.role {
            Role::Branch => "(branch begins)",
            Role::Merge => "(branches merge)",
            Role::Back => "(goes on here)",
            Role::Call if step.step == 0 => "(begins here)",
            Role::Call => hop.target(),
        };
        let network = match hop.network_us {
            Some(us) => ms(us),
            None if hop.is_in_place() => "in place".to_owned(),
            None if !hop.called() => String::new(),
            None => "?".to_owned(),
        };
        let some_ms = |us: u64| if us == 0 { String::new() } else { ms(us) };
        let state = if step.continuation_bytes == 0 { String::new() } else { bytes(step.continuation_bytes) };
        Self {
            cells: [
                if matches!(hop.role, Role::Merge | Role::Back) { String::new() } else { step.step.to_string() },
                short(&step.branch.to_string()),
                short(step.served_by.as_ref().unwrap_or(&step.node)),
                short(step.site.as_deref().filter(|_| !hop.is_from_afar()).unwrap_or_default()),
                short(calling),
                network,
                some_ms(step.service_us),
                some_ms(step.guest_us),
                state,
                step.blobs.as_deref().map(|read| blobs_text(&[read])).unwrap_or_default(),
            ],
            bar: pen.bar_of(hop),
        }
    }

    fn home(home_us: u64, begins_us: u64, pen: &Pen) -> Self {
        let mut row = Self::note("(answer to the origin)");
        row.cells[NETWORK] = ms(home_us);
        row.bar = pen.bar(begins_us.saturating_add(home_us), home_us, [(Part::Nothing, 0); 3]);
        row
    }

    fn note(note: &str) -> Self {
        let mut row = Self::default();
        row.cells[CALLING] = note.to_owned();
        row
    }
}

/// Numbers to the right, names to the left, the timeline at the end.
fn align(rows: &[Cells]) -> String {
    const RIGHT: [bool; COLUMNS] = [true, false, false, false, false, true, true, true, true, false];
    let width = |column: usize| rows.iter().map(|row| row.cells[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), right) in row.cells.iter().zip(widths).zip(RIGHT) {
            if width == 0 {
                continue;
            }
            line += &if right { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
        }
        line += &row.bar;
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn short(name: &str) -> String {
    let name = printable(name).replace(['\n', '\t'], " ");
    if name.chars().count() <= NAME_CHARS_MAX {
        return name;
    }
    name.chars().take(NAME_CHARS_MAX - 2).collect::<String>() + ".."
}

fn ms(us: u64) -> String {
    let ms = us as f64 / 1_000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.1} ms") }
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// A way by which bytes of blobs come: its key for programs, its words for people, and the bytes that came by it.
type BlobWay = (&'static str, &'static str, fn(&BlobBytes) -> u64);

const BLOB_WAYS: [BlobWay; 5] = [
    ("own", "from here", |read| read.own),
    ("shared_memory", "by shared memory", |read| read.shared_memory),
    ("rdma", "by RDMA", |read| read.rdma),
    ("link", "by link", |read| read.link),
    ("pushed", "pushed", |read| read.pushed),
];

fn blobs_json(read: &BlobBytes) -> serde_json::Value {
    BLOB_WAYS.iter().map(|(key, _, by)| ((*key).to_owned(), by(read).into())).collect::<serde_json::Map<_, _>>().into()
}

/// What was read of blobs, by which way: such as `45.8 MB by link + 4.2 MB pushed`; empty where nothing was read.
fn blobs_text(reads: &[&BlobBytes]) -> String {
    let sum = |by: &fn(&BlobBytes) -> u64| reads.iter().map(|read| by(read)).fold(0, u64::saturating_add);
    let ways = BLOB_WAYS.iter().map(|(_, words, by)| (words, sum(by))).filter(|(_, count)| *count > 0);
    ways.map(|(words, count)| format!("{} {words}", bytes(count))).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests;
