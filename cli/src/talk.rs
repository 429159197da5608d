//! What the nodes of this process warn of, on standard error.

use std::fmt::{Debug, Write as _};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::output::{Output, printable};

/// Listens from now on, for the whole process.
pub(crate) fn listen(output: &Output) {
    // A second listener changes nothing: the first goes on.
    let _ = tracing::subscriber::set_global_default(Talk { output: *output });
}

/// Passes warnings and errors on as lines. Spans are of no use to people.
struct Talk {
    output: Output,
}

impl Subscriber for Talk {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.is_event() && metadata.target().starts_with("catena")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.output.warn(&printable(&(line.message + &line.fields)));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "; {name}: {value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
