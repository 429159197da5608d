//! `catena segments ls|read|write`.

use std::collections::BTreeSet;

use catena::{Client, NodeBuilder, SegmentEntry};
use clap::{Args, Subcommand, ValueHint};
use serde_json::json;

use crate::{
    config::{RdmaFile, right_words},
    connect::{self, At, Given},
    failure::Failure,
    input,
    output::{Output, printable},
};

/// Bytes that one command may read or write: as many as a terminal or a pipe takes in a moment.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes shown without `--count`.
const SHOWN_BYTES: u64 = 4 << 10;
/// Bytes in one line of a dump.
const LINE_BYTES: usize = 16;

/// See and try segments: memory that nodes export by name
///
/// A segment is named OWNER/NAME; its owner is a node by its name, by a service that it serves, or by its address. Bytes are read and written in the owner's memory without any
/// of its code: in shared memory if it is on this host, else by RDMA if both have it (--rdma), else over the link. A node exports what `[[segment]]` in its file says, and what its program does.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples, beside `catena dev`:\n  catena segments ls\n  catena segments write mtv/scratch hello --offset 8\n  catena segments read mtv/scratch --count 16\n  catena segments read mtv/scratch --raw > copy"
)]
pub(crate) struct Segments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Ls(Ls),
    Read(Read),
    Write(Write),
}

/// List the segments that this command may use, of one node or of all
#[derive(Debug, Args)]
struct Ls {
    /// Only those of this node, given by its name, by a service that it serves, or by its address
    #[arg(value_name = "OWNER", value_hint = ValueHint::Other)]
    owner: Option<String>,
    /// Say by which way each is read from here (shared memory, RDMA or the link), and why by no better one
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    through: Through,
}

/// Read bytes of a segment: a dump, or with --raw the bytes as they are
#[derive(Debug, Args)]
struct Read {
    /// The segment
    #[arg(value_name = "OWNER/NAME", value_hint = ValueHint::Other)]
    segment: String,
    /// The first byte
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    offset: u64,
    /// How many; without it up to the end, and no more than 4096
    #[arg(long, value_name = "BYTES")]
    count: Option<u64>,
    /// Write the bytes themselves to standard output
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    through: Through,
}

/// Write bytes into a segment, and wait until they are there
#[derive(Debug, Args)]
struct Write {
    /// The segment
    #[arg(value_name = "OWNER/NAME", value_hint = ValueHint::Other)]
    segment: String,
    /// What to write: text, @FILE, or - for standard input
    #[arg(value_name = "DATA", value_hint = ValueHint::FilePath, allow_hyphen_values = true)]
    data: String,
    /// Where its first byte goes
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    offset: u64,
    /// DATA is hexadecimal digits, two for each byte
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    through: Through,
}

/// Where the nodes are, and how their memory is reached.
#[derive(Debug, Args)]
struct Through {
    #[command(flatten)]
    at: At,
    /// Reach memory of other hosts by RDMA, where they have it too: through this provider of libfabric, if catena was built with it
    #[arg(long, value_name = "PROVIDER", value_hint = ValueHint::Other)]
    rdma: Option<String>,
    /// With --rdma: this host's own address
    #[arg(long, value_name = "HOST", requires = "rdma", value_hint = ValueHint::Hostname)]
    rdma_address: Option<String>,
}

impl Through {
    async fn connect(&self, output: &Output) -> Result<Client, Failure> {
        let rdma = self.rdma.clone().map(|provider| RdmaFile { provider, address: self.rdma_address.clone() });
        let remote = rdma.map(|rdma| rdma.open()).transpose()?;
        connect::connect(&self.at.connect, |client| client.given(remote, NodeBuilder::remote_memory), output).await
    }
}

pub(crate) async fn run(args: &Segments, output: &Output) -> Result<(), Failure> {
    match &args.verb {
        Verb::Ls(args) => list(args, output).await,
        Verb::Read(args) => read(args, output).await,
        Verb::Write(args) => write(args, output).await,
    }
}

/// Lists all segments, each with the way by which it is read.
pub(crate) async fn explain_all(at: &At, output: &Output) -> Result<(), Failure> {
    let through = Through { at: at.clone(), rdma: None, rdma_address: None };
    list(&Ls { owner: None, explain: true, through }, output).await
}

async fn list(args: &Ls, output: &Output) -> Result<(), Failure> {
    let asked = connect::ask(args.through.connect(output), "asking the nodes", output, async |client| {
        let mut listed = listed(client, args, output).await?;
        if args.explain {
            for one in &mut listed {
                one.way = Some(way_to(client, one).await);
            }
        }
        Ok(listed)
    });
    let listed = asked.await?;
    if output.json {
        let all: Vec<_> = listed.iter().map(as_json).collect();
        return output.json_line(&json!({ "segments": all }));
    }
    if listed.is_empty() {
        output.talk("no node that can be reached from there exports a segment to this command");
        return Ok(());
    }
    let cells = |one: &Listed| {
        let SegmentEntry { bytes, rights, .. } = &one.entry;
        [one.name(), bytes.to_string(), right_words(*rights).join(" ")]
    };
    if args.explain {
        let rows = listed.iter().map(|one| {
            let [segment, bytes, rights] = cells(one);
            let (way, why) = one.way.clone().unwrap_or_default();
            [segment, bytes, rights, way, why]
        });
        return output.table(["segment", "bytes", "rights", "by", "because"], rows);
    }
    let rows = listed.iter().map(|one| {
        let [segment, bytes, rights] = cells(one);
        [segment, bytes, rights, one.entry.generation.to_string()]
    });
    output.table(["segment", "bytes", "rights", "generation"], rows)
}

/// A segment; if asked for, also the way by which it is read from here, and why.
struct Listed {
    owner: String,
    entry: SegmentEntry,
    way: Option<(String, String)>,
}

impl Listed {
    fn all<'a>(owner: &'a str, entries: Vec<SegmentEntry>) -> impl Iterator<Item = Self> + use<'a> {
        entries.into_iter().map(|entry| Self { owner: owner.to_owned(), entry, way: None })
    }

    fn name(&self) -> String {
        format!("{}/{}", self.owner, self.entry.name)
    }
}

/// Imports the segment, and asks which way a READ would take, and why.
async fn way_to(client: &Client, one: &Listed) -> (String, String) {
    match client.import(&one.name()).await {
        Ok(imported) => {
            let (way, why) = imported.explain().await;
            (way.to_string(), why)
        }
        Err(why) => ("none".to_owned(), why.message),
    }
}

async fn listed(client: &Client, args: &Ls, output: &Output) -> Result<Vec<Listed>, Failure> {
    if let Some(owner) = args.owner.as_deref() {
        return Ok(Listed::all(owner, client.segments(owner).await.map_err(Failure::threw)?).collect());
    }
    let mut nodes: BTreeSet<String> = client.services().await.into_iter().map(|entry| entry.node.name).collect();
    if nodes.is_empty() {
        // The node that we connect to serves nothing, but may export segments.
        nodes.insert(args.through.at.connect.clone());
    }
    let mut all = Vec::new();
    for node in nodes {
        match client.segments(&node).await {
            Ok(entries) => all.extend(Listed::all(&node, entries)),
            Err(why) => output.talk(&printable(&format!("{node} is left out: {}", why.message))),
        }
    }
    Ok(all)
}

async fn read(args: &Read, output: &Output) -> Result<(), Failure> {
    let read = connect::ask(args.through.connect(output), "reading", output, async |client| {
        let segment = client.import(&args.segment).await.map_err(Failure::threw)?;
        let count = args.count.unwrap_or_else(|| segment.bytes().saturating_sub(args.offset).min(SHOWN_BYTES));
        within(count)?;
        let bytes = segment.read(args.offset, count).await.map_err(Failure::threw)?;
        Ok((bytes, segment.way()))
    });
    let (bytes, way) = read.await?;
    if output.json {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (segment, offset, count, way) = (&args.segment, args.offset, bytes.len(), way.to_string());
        let read = json!({ "segment": segment, "offset": offset, "count": count, "way": way, "hex": hex });
        return output.json_line(&read);
    }
    if args.raw {
        return output.bytes(&bytes);
    }
    output.talk(&format!("{} bytes, by {}", bytes.len(), way));
    output.data(dump(args.offset, &bytes).trim_end())
}

async fn write(args: &Write, output: &Output) -> Result<(), Failure> {
    let (_, data) = input::argument(&args.data, BYTES_MAX)?;
    let data = if args.hex { from_hex(&data)? } else { data };
    let count = data.len();
    let written = connect::ask(args.through.connect(output), "writing", output, async |client| {
        let segment = client.import(&args.segment).await.map_err(Failure::threw)?;
        segment.write(args.offset, data).await.map_err(Failure::threw)?;
        // A WRITE is known to be done, or refused, only after a flush.
        segment.flush().await.map_err(Failure::threw)?;
        Ok(segment.way())
    });
    let way = written.await?.to_string();
    let json = || json!({ "segment": args.segment, "offset": args.offset, "count": count, "way": way });
    output.say(json, || format!("{count} bytes, by {way}"))
}

fn from_hex(digits: &[u8]) -> Result<Vec<u8>, Failure> {
    let digits = digits.trim_ascii();
    let byte = |pair: &[u8]| {
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        match pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        }
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.ok_or_else(|| {
        let message = "DATA is not hexadecimal: two digits for each byte";
        Failure::input("BadHex", message, "such as 00ff7f; without --hex it is taken as text")
    })
}

fn within(count: u64) -> Result<(), Failure> {
    if count <= BYTES_MAX {
        return Ok(());
    }
    let message = format!("--count {count} is more than one command reads");
    Err(Failure::input("BadUsage", message, format!("at most {BYTES_MAX}; read parts with --offset")))
}

fn as_json(Listed { owner, entry, way }: &Listed) -> serde_json::Value {
    let SegmentEntry { name, bytes, generation, rights, .. } = entry;
    let mut shown = json!({ "owner": owner, "name": name, "bytes": bytes, "generation": generation, "rights": right_words(*rights) });
    if let Some((way, why)) = way {
        shown["way"] = json!(way);
        shown["because"] = json!(why);
    }
    shown
}

/// A hex dump: offset, bytes, and the printable characters among them.
fn dump(offset: u64, bytes: &[u8]) -> String {
    let line = |(at, line): (usize, &[u8])| {
        let hex: String = line.iter().map(|byte| format!("{byte:02x} ")).collect();
        let text: String =
            line.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' }).collect();
        format!("{:08x}  {hex:<width$} {text}\n", offset + (at * LINE_BYTES) as u64, width = 3 * LINE_BYTES)
    };
    bytes.chunks(LINE_BYTES).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_shows_where_what_and_text() {
        let shown = dump(8, b"hello, segments\0\xff");
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], "00000008  68 65 6c 6c 6f 2c 20 73 65 67 6d 65 6e 74 73 00  hello, segments.");
        assert!(lines[1].starts_with("00000018  ff ") && lines[1].ends_with(" ."), "{shown}");
    }

    #[test]
    fn hexadecimal_is_read_or_refused() {
        assert_eq!(from_hex(b"00fF7f\n").ok().as_deref(), Some(&[0, 255, 127][..]));
        assert_eq!(from_hex(b"").ok().as_deref(), Some(&[][..]));
        for wrong in [&b"0"[..], b"0g", b"00 11", "0é".as_bytes()] {
            assert!(from_hex(wrong).is_err(), "{wrong:?}");
        }
    }
}
