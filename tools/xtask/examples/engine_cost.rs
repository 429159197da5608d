//! What the engine costs: time of a turn, and how much of the memory it changes.
//! `cargo run --release -p xtask --example engine_cost`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    missing_docs,
    clippy::print_stdout
)]

#[path = "../tests/engine/host.rs"]
mod host;

use std::time::Instant;

use host::{Guest, Rules, cbor};

const MAIL: &str = r#"import { call, emit } from "catena";
export default async function openMail({ user, id }) {
  const mail = await call("mail.storage/get", { user, id });
  if (mail.size > 1e6) emit({ subject: mail.subject });
  const ad = await call("ads/pick", { text: mail.body });
  return { ...mail, ad };
}
"#;

fn main() {
    let five_kb = five_kb();
    println!("source of {} bytes", five_kb.len());
    let mut base = Guest::new(Rules::default());
    let image = base.memory();
    let mut loads = Vec::new();
    for _ in 0..30 {
        let mut guest = Guest::new(Rules::default());
        let began = Instant::now();
        let events = guest.load("mail.js", &five_kb);
        loads.push(began.elapsed().as_secs_f64() * 1e6);
        assert_eq!(events[0].text, "[7]", "{events:?}");
    }
    println!("load: {}", spread(&mut loads));
    let mut guest = Guest::new(Rules::default());
    guest.load("mail.js", &five_kb);
    println!("load changes {}", changes(&image, &guest.memory()));
    println!("pages before {} after {}", image.len() / 65536, guest.memory().len() / 65536);

    let loaded = {
        let mut g = Guest::with(MAIL);
        println!("load of the small one changes {}", changes(&image, &g.memory()));
        g.memory()
    };
    let mail = format!(r#"{{"size": 2000, "subject": "hello", "body": "{}"}}"#, "b".repeat(150));
    let (mut starts, mut resumes, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let (input, mail, ad) = (cbor(r#"{"user": "ann", "id": 7}"#), cbor(&mail), cbor(r#""an ad""#));
    for round in 0..300 {
        let mut guest = Guest::with(MAIL);
        let mut timed = |times: &mut Vec<f64>, f: &mut dyn FnMut(&mut Guest)| {
            let began = Instant::now();
            f(&mut guest);
            times.push(began.elapsed().as_secs_f64() * 1e6);
            if round == 0 {
                println!("  then {}", changes(&loaded, &guest.memory()));
            }
        };
        timed(&mut starts, &mut |g| {
            g.quick("catena_start", &host::start_event(&input, 1 << 20));
        });
        timed(&mut resumes, &mut |g| {
            g.quick("catena_resume", &host::resume_event(0, true, &mail, 1 << 20));
        });
        timed(&mut ends, &mut |g| {
            g.quick("catena_resume", &host::resume_event(1, true, &ad, 1 << 20));
        });
    }
    println!("cold: start {}", spread(&mut starts));
    println!("cold: resume to the next await {}", spread(&mut resumes));
    println!("cold: resume to the end {}", spread(&mut ends));

    warm(
        "await echo in a loop",
        r#"import { call } from "catena";
export default async function f() { for (let i = 0; ; i++) { const r = await call("a.b/c", { i, s: "x" }); if (r.stop) return; } }"#,
        &mail,
    );
    warm(
        "call without await location",
        r#"import { call } from "catena";
export default async function f() { for (let i = 0; ; i++) { await call("a.b/c", 0); await call("a.b/c", 0); await call("a.b/c", 0); } }"#,
        &cbor("0"),
    );
    warm(
        "two calls per turn",
        r#"import { call } from "catena";
export default async function f() { for (let i = 0; ; i++) { await Promise.race([call("a.b/c", 0), call("a.b/c", 0)]); } }"#,
        &cbor("0"),
    );
}

/// Resumes one instance again and again: pages are there already.
fn warm(what: &str, source: &str, value: &[u8]) {
    let mut guest = Guest::with(source);
    guest.quick("catena_start", &host::start_event(&cbor("null"), 1 << 20));
    let mut times = Vec::new();
    for i in 0..5000 {
        let event = host::resume_event(i, true, value, 1 << 20);
        let began = Instant::now();
        guest.quick("catena_resume", &event);
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    println!("warm: {what}: {}", spread(&mut times[1000..].to_vec()));
}

fn spread(times: &mut [f64]) -> String {
    times.sort_by(f64::total_cmp);
    let at = |p: usize| times[(times.len() - 1) * p / 100];
    format!("p10 {:.1} us, p50 {:.1} us, p90 {:.1} us", at(10), at(50), at(90))
}

fn changes(before: &[u8], after: &[u8]) -> String {
    let mut before = before.to_vec();
    before.resize(after.len(), 0);
    let bytes = before.iter().zip(after).filter(|(a, b)| a != b).count();
    let pages = before.chunks(4096).zip(after.chunks(4096)).filter(|(a, b)| a != b).count();
    // Runs as a continuation has them: gaps below 8 bytes belong to the run, 3 bytes of head each.
    let (mut runs, mut shipped, mut last) = (0usize, 0usize, usize::MAX);
    for (i, (a, b)) in before.iter().zip(after).enumerate() {
        if a != b {
            if last == usize::MAX || i - last > 8 {
                runs += 1;
                shipped += 4;
            } else {
                shipped += i - last - 1;
            }
            shipped += 1;
            last = i;
        }
    }
    format!("{bytes} bytes in {pages} pages; {runs} runs, {shipped} bytes as runs")
}

fn five_kb() -> String {
    let mut source = String::from(MAIL);
    let mut i = 0;
    while source.len() < 5000 {
        source.push_str(&format!(
            r#"
/** Sorts the mails of folder {i} by the given key, newest first. */
function sortFolder{i}(mails, key = "date") {{
  const kept = mails.filter((mail) => !mail.deleted && mail.folder === {i});
  const weigh = (mail) => (mail.flags ?? []).reduce((sum, flag) => sum + flag.length, 0);
  for (const mail of kept) {{
    if (mail.subject?.startsWith("Re: ")) mail.thread = mail.subject.slice(4).trim();
    else mail.thread = `${{mail.subject}}-{i}`;
  }}
  return kept.sort((a, b) => (a[key] < b[key] ? 1 : a[key] > b[key] ? -1 : weigh(b) - weigh(a)));
}}
"#
        ));
        i += 1;
    }
    source
}
