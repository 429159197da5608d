//! What the proxy takes of one connection, and for how long; and how many it has.

use super::*;

/// A limit of time that a test waits for.
const SHORT: Duration = Duration::from_millis(200);
/// By then it has long been over.
const LONG: Duration = Duration::from_secs(20);

/// A door to the application `shop`.
async fn door(node: &Node, limits: ProxyLimits) -> Proxy {
    Proxy::open(fetcher(node).await, "shop", "127.0.0.1:0", limits).await.unwrap()
}

/// A request whose body is echoed, and as much of that as is there.
fn echo(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /echo HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{fields}\r\n\r\n{body}").into_bytes()
}

/// What is answered to it before long.
async fn answer(proxy: &Proxy, request: &[u8]) -> String {
    tokio::time::timeout(LONG, raw(proxy, request)).await.expect("it is not waited for")
}

/// Asks for a body that does not end, and waits for its head: from then on the place is taken until this is dropped.
async fn holds(proxy: &Proxy) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, stream.read_u8()).await.expect("it has a place").unwrap(), b'H');
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_bounds_heads_bodies_and_connections() {
    let node = node(true).await;
    let _mounted = mount(&node, "shop", TowerToHyperService::new(application()), Limits::default()).unwrap();
    let unbounded = || ProxyLimits { head_time_max: 2 * LONG, request_time_max: 2 * LONG, ..ProxyLimits::default() };

    let proxy = door(&node, ProxyLimits { head_time_max: SHORT, ..unbounded() }).await;
    for head in [&b""[..], b"GET / HTTP/1.1\r\nhost: loc"] {
        assert_eq!(answer(&proxy, head).await, "", "it is closed");
    }

    let proxy = door(&node, ProxyLimits { request_time_max: SHORT, ..unbounded() }).await;
    for (fields, body) in [("content-length: 10", "hello"), ("transfer-encoding: chunked", "5\r\nhello\r\n")] {
        let answer = answer(&proxy, &echo(fields, body)).await;
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("in its time"), "{fields}: {answer}");
    }

    let proxy = door(&node, ProxyLimits { request_bytes_max: 1_000, ..unbounded() }).await;
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    let whole = answer(&proxy, &echo("transfer-encoding: chunked", &format!("{chunk}{chunk}0\r\n\r\n"))).await;
    assert!(whole.starts_with("HTTP/1.1 200 ") && whole.ends_with(&"x".repeat(1_000)), "{whole}");
    // Nobody waits for its end.
    let beyond = answer(&proxy, &echo("transfer-encoding: chunked", &format!("{chunk}{chunk}1\r\nx\r\n"))).await;
    assert!(beyond.starts_with("HTTP/1.1 413 "), "{beyond}");

    let proxy = door(&node, ProxyLimits { connections_max: 2, ..unbounded() }).await;
    let (first, _second) = (holds(&proxy).await, holds(&proxy).await);
    let request = echo("content-length: 5", "hello");
    let mut third = std::pin::pin!(answer(&proxy, &request));
    assert!(tokio::time::timeout(SHORT, &mut third).await.is_err(), "there are two");
    drop(first);
    assert!(third.await.ends_with("\r\n\r\nhello"));
}
