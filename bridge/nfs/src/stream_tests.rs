#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use tokio::net::TcpListener;

/// A connection whose other end has sent `bytes` and gone away.
async fn sent(bytes: &[u8]) -> RecordStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    far.write_all(bytes).await.unwrap();
    RecordStream::new(near)
}

fn fragment(last: bool, body: &[u8]) -> Vec<u8> {
    let mut bytes = (u32::try_from(body.len()).unwrap() | if last { LAST_FRAGMENT } else { 0 }).to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads one answer the way the library does.
async fn answer(stream: &mut RecordStream) -> Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.async_read_exact(&mut header).await?;
    let header = u32::from_be_bytes(header);
    assert!(header & LAST_FRAGMENT != 0);
    let mut body = vec![0; (header & !LAST_FRAGMENT) as usize];
    stream.async_read_exact(&mut body).await?;
    Ok(body)
}

#[tokio::test]
async fn answers_in_one_or_many_fragments_come_whole() {
    let mut bytes = fragment(true, b"one");
    bytes.extend(fragment(false, b"tw"));
    bytes.extend(fragment(false, b""));
    bytes.extend(fragment(true, b"o"));
    bytes.extend(fragment(true, b""));
    bytes.extend(fragment(true, b"three"));
    let mut stream = sent(&bytes).await;
    for expected in ["one", "two", "", "three"] {
        assert_eq!(answer(&mut stream).await.unwrap(), expected.as_bytes());
    }
    assert_eq!(answer(&mut stream).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_connection_that_ends_within_an_answer_is_an_error() {
    let whole = fragment(true, b"answer");
    for cut in 0..whole.len() {
        let mut stream = sent(&whole[..cut]).await;
        assert_eq!(answer(&mut stream).await.unwrap_err().kind(), ErrorKind::UnexpectedEof, "after {cut} bytes");
    }
}

#[tokio::test]
async fn a_huge_answer_is_refused_before_memory_is_taken() {
    for header in [u32::MAX, LAST_FRAGMENT - 1, LAST_FRAGMENT | (2 << 20)] {
        let mut stream = sent(&header.to_be_bytes()).await;
        let error = answer(&mut stream).await.unwrap_err();
        assert!(error.to_string().contains("reply_bytes_max"), "{header:#x}: {error}");
    }
    let mut many = Vec::new();
    for _ in 0..=FRAGMENTS_MAX {
        many.extend(fragment(false, b""));
    }
    assert!(answer(&mut sent(&many).await).await.unwrap_err().to_string().contains("fragments_max"));
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_noticed() {
    let stream = sent(b"").await;
    stream.tcp.readable().await.unwrap();
    assert!(!stream.is_alive());
}
