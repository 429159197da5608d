//! `catena gateway`: the browser's door, as a process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use support::{Server, catena, example, world};

/// One request as it is on the wire, to `HOST:PORT`; the whole answer.
fn ask(host: &str, path: &str, accept: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\naccept: {accept}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_gateway_offers_what_it_is_told_to_and_closes_when_asked() {
    let (address, tour) = (&world().address, format!("tour={}", example("tour.ts")));
    let connected = ["gateway", "--connect", address, "--listen", "127.0.0.1:0", "--json"];
    let gateway = Server::start(&[&connected[..], &["--offer", "probe.mtv/echo", "--function", &tour]].concat());
    let ready = gateway.ready();
    let host = ready["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let echoed = ask(&host, "/call/probe.mtv/echo", "text/event-stream", "\"hello\"");
    assert!(echoed.contains("event: reply\ndata: \"hello\"\n\n") && echoed.contains("\"complete\":true"), "{echoed}");
    let toured = ask(&host, "/run/tour", "text/event-stream", "null");
    assert!(toured.matches("event: reply\n").count() > 1 && toured.contains("\"result\""), "{toured}");
    assert!(ask(&host, "/call/probe.mtv/where", "*/*", "{}").contains("\"NotOffered\""));
    assert_eq!(gateway.end_by("TERM"), Some(0));
}

#[test]
fn what_a_gateway_is_told_wrongly_is_refused_before_it_opens() {
    let cases: [(&[&str], &str); 5] = [
        (&["--origin", "*"], "never all of them"),
        (&["--offer", "photos"], "SERVICE/FUNCTION"),
        (&["--function", "tour.ts"], "NAME=FILE"),
        (&["--limit", "reply_bytes=1"], "reply_bytes_max"),
        (&["--listen", "7480"], "HOST:PORT"),
    ];
    for (arguments, said) in cases {
        catena(&[&["gateway"], arguments].concat()).failed(2, &[said]);
    }
}
