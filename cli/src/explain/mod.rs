//! A chain, drawn hop by hop: where it was, and where its time went (rpc-chains section 3.7). From a profile to text; nothing else.
//!
//! Each stay is timed by its own node's clock, and the way there by two clocks: on machines whose clocks differ, network times are off by
//! the difference, and one that would be negative is shown as unknown. A call made from afar is timed by the asking node's clock, and its
//! service by the other's, each by itself: what is left is the network, whatever the clocks say.

mod blobs;
mod lanes;

use catena::StepTrace;
use serde::Serialize;

use self::{
    blobs::Blobs,
    lanes::{Placed, Role, calls_nothing},
};
use crate::output::{Paint, printable};

/// Columns of the timeline.
const BAR_COLUMNS: usize = 40;
/// Longest name shown.
const NAME_CHARS_MAX: usize = 28;
/// Steps drawn; of a longer chain the first and the last ones.
const STEPS_DRAWN_MAX: usize = 120;
/// Of these, how many of the last.
const STEPS_DRAWN_LAST: usize = 20;

/// One step, as it is drawn and as programs get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hop {
    step: u32,
    /// Of a split: such as `.1.2`; empty for the whole chain.
    branch: String,
    /// `call`, `branch` (one begins), `merge` (they have ended, and their parent goes on) or `back` (the next node did not take the chain).
    role: &'static str,
    /// Where the chain was.
    node: String,
    /// The node that served the call, if the chain was not there and stayed where it was.
    served_by: Option<String>,
    /// Of `node`.
    site: Option<String>,
    /// Empty for the origin's own turn and for the way home.
    target: String,
    /// From the chain's beginning.
    begins_us: u64,
    /// On the way there, and for a call that another node served there and back; null where nothing travelled, or where the nodes'
    /// clocks disagree.
    network_us: Option<u64>,
    stay_us: u64,
    service_us: u64,
    guest_us: u64,
    continuation_bytes: u64,
    params_bytes: u64,
    /// What the service function read of blobs, by the way by which the bytes came; null: nothing.
    blobs: Option<Blobs>,
    /// A call to the node where the chain was.
    in_place: bool,
}

impl Hop {
    fn called(&self) -> bool {
        self.step > 0 && self.role == CALL
    }

    /// The chain stayed where it was, and another node served the call.
    const fn is_from_afar(&self) -> bool {
        self.served_by.is_some()
    }
}

/// The role of most steps.
const CALL: &str = "call";

/// A profile, laid out along one line of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    hops: Vec<Hop>,
    /// The way of the answer to the origin.
    home_us: Option<u64>,
    total_us: u64,
}

impl Chart {
    /// Lays a profile out. `ended_at_us`: when the end arrived, microseconds since the Unix epoch by the origin's clock.
    pub(crate) fn new(steps: &[StepTrace], ended_at_us: u64) -> Self {
        let lanes = lanes::place(steps);
        let hops: Vec<Hop> = lanes.placed.iter().map(hop).collect();
        let home_us = lanes.left_for_home_at_us.and_then(|left_at_us| ended_at_us.checked_sub(left_at_us));
        Self { hops, home_us, total_us: lanes.end_us.saturating_add(home_us.unwrap_or_default()) }
    }

    /// For programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({ "steps": self.hops, "home_us": self.home_us, "total_us": self.total_us })
    }

    /// For people. `fancy`: with colour and drawing characters, else in plain ASCII.
    pub(crate) fn text(&self, fancy: bool) -> String {
        let pen = Pen { fancy, total_us: self.total_us.max(1) };
        let mut rows = vec![Cells::head(self.is_split(), self.blobs().is_some())];
        let last_from = self.hops.len().saturating_sub(STEPS_DRAWN_LAST);
        let folded = self.hops.len() > STEPS_DRAWN_MAX;
        for (index, hop) in self.hops.iter().enumerate() {
            let drawn = !folded || index < STEPS_DRAWN_MAX - STEPS_DRAWN_LAST || index >= last_from;
            if drawn {
                rows.push(Cells::of(hop, &pen));
            } else if index + 1 == last_from {
                let hidden = self.hops.len() - STEPS_DRAWN_MAX;
                rows.push(Cells::note(format!("... {hidden} more steps: --json has them")));
            }
        }
        if let Some(home_us) = self.home_us {
            rows.push(Cells::home(home_us, self.total_us.saturating_sub(home_us), &pen));
        }
        align(&rows) + &self.summary(&pen)
    }

    fn is_split(&self) -> bool {
        self.hops.iter().any(|hop| !hop.branch.is_empty())
    }

    /// What all steps read of blobs.
    fn blobs(&self) -> Option<Blobs> {
        self.hops.iter().filter_map(|hop| hop.blobs).reduce(Blobs::plus)
    }

    fn summary(&self, pen: &Pen) -> String {
        let sum = |of: fn(&Hop) -> u64| self.hops.iter().map(of).fold(0, u64::saturating_add);
        let ways_us = sum(|hop| hop.network_us.unwrap_or_default());
        let network_us = ways_us.saturating_add(self.home_us.unwrap_or_default());
        let service_us = sum(|hop| hop.service_us);
        let guest_us = sum(|hop| hop.guest_us);
        let count = |of: fn(&Hop) -> bool| self.hops.iter().filter(|hop| hop.called() && of(hop)).count();
        let (calls, from_afar, in_place) = (count(|_| true), count(Hop::is_from_afar), count(|hop| hop.in_place));
        let side_by_side = self.is_split() || network_us.saturating_add(service_us) > self.total_us;
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
            bytes(sum(|hop| hop.continuation_bytes)),
        ) + &self.blobs().map(|read| format!("; blobs read: {}", read.text())).unwrap_or_default()
            + if side_by_side {
                "\nwhat ran side by side is counted each: the times may add up to more than the total"
            } else {
                ""
            }
    }
}

fn hop(placed: &Placed<'_>) -> Hop {
    let Placed { step, role, begins_us, network_us, stay_us } = *placed;
    Hop {
        step: step.step,
        branch: step.branch.to_string(),
        role: match role {
            Role::Call => CALL,
            Role::Branch => "branch",
            Role::Merge => "merge",
            Role::Back => "back",
        },
        node: step.node.clone(),
        served_by: step.served_by.clone(),
        site: step.site.clone(),
        target: if calls_nothing(step) { String::new() } else { step.target.clone() },
        begins_us,
        network_us,
        stay_us,
        service_us: step.service_us,
        guest_us: step.guest_us,
        continuation_bytes: step.continuation_bytes,
        params_bytes: step.params_bytes,
        blobs: step.blobs.as_deref().map(Blobs::of),
        in_place: step.in_place && step.served_by.is_none(),
    }
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

    fn bar_of(&self, hop: &Hop) -> String {
        let Hop { begins_us, service_us, guest_us, stay_us, .. } = *hop;
        let network_us = hop.network_us.unwrap_or_default();
        if hop.is_from_afar() {
            let there_us = network_us / 2;
            let stay = [(Part::Network, there_us), (Part::Service, service_us), (Part::Network, network_us - there_us)];
            return self.bar(begins_us, 0, stay);
        }
        let rest_us = stay_us.saturating_sub(guest_us);
        let service_us = if hop.in_place { service_us.max(rest_us) } else { service_us };
        let waiting_us = rest_us.saturating_sub(service_us);
        let stay = [(Part::Service, service_us), (Part::Waiting, waiting_us), (Part::Guest, guest_us)];
        self.bar(begins_us, network_us, stay)
    }

    /// The pieces one after the other, from `begins_us` on. A stay too short for a column of its own gets one for its greatest piece.
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

/// One row of the table. The bar comes last, since its colours have no width.
struct Cells {
    cells: [String; COLUMNS],
    bar: String,
}

impl Cells {
    /// What no step has, no column is named for.
    fn head(split: bool, reads_blobs: bool) -> Self {
        let (branch, blobs) = (if split { "branch" } else { "" }, if reads_blobs { "blobs" } else { "" });
        let cells = ["step", branch, "node", "site", "calling", "network", "service", "guest", "state", blobs];
        let cells = cells.map(str::to_owned);
        Self { cells, bar: String::new() }
    }

    fn of(hop: &Hop, pen: &Pen) -> Self {
        let calling = match hop.role {
            "branch" => "(branch begins)",
            "merge" => "(branches merge)",
            "back" => "(goes on here)",
            _ if hop.step == 0 => "(begins here)",
            _ => hop.target.as_str(),
        };
        let network = match hop.network_us {
            Some(us) => ms(us),
            None if hop.in_place => "in place".to_owned(),
            None if !hop.called() => String::new(),
            None => "?".to_owned(),
        };
        let some_ms = |us: u64| if us == 0 { String::new() } else { ms(us) };
        let state = if hop.continuation_bytes == 0 { String::new() } else { bytes(hop.continuation_bytes) };
        Self {
            cells: [
                if matches!(hop.role, "merge" | "back") { String::new() } else { hop.step.to_string() },
                short(&hop.branch),
                short(hop.served_by.as_ref().unwrap_or(&hop.node)),
                short(hop.site.as_deref().filter(|_| !hop.is_from_afar()).unwrap_or_default()),
                short(calling),
                network,
                some_ms(hop.service_us),
                some_ms(hop.guest_us),
                state,
                hop.blobs.map(Blobs::text).unwrap_or_default(),
            ],
            bar: pen.bar_of(hop),
        }
    }

    fn home(home_us: u64, begins_us: u64, pen: &Pen) -> Self {
        let mut cells: [String; COLUMNS] = Default::default();
        cells[4] = "(answer to the origin)".to_owned();
        cells[5] = ms(home_us);
        Self { cells, bar: pen.bar(begins_us.saturating_add(home_us), home_us, [(Part::Nothing, 0); 3]) }
    }

    fn note(note: String) -> Self {
        let mut cells: [String; COLUMNS] = Default::default();
        cells[4] = note;
        Self { cells, bar: String::new() }
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

#[cfg(test)]
mod tests;
