//! The copy by reference: the source offers parts of the file, the target takes them, and the chain carries references.

use std::time::Duration;

use catena::{Client, Code, Exception, RunOptions, to_value};
use serde::Serialize;

use super::{Copied, Copy, Progress, follow, told::Told};

/// The chain's source.
pub const BLOB_FUNCTION: &str = include_str!("../../functions/copy_blob.ts");

/// Bytes of a part, at least.
const PART_BYTES: u32 = 16 << 20;
/// How long such a copy may take: it is made for large files.
const TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

#[derive(Serialize)]
struct ByParts<'a> {
    from: &'a str,
    source: &'a str,
    to: &'a str,
    target: &'a str,
    part_bytes: u32,
}

/// Loads the chain.
///
/// # Errors
/// Whatever the sandbox says.
pub async fn blob_code(client: &Client) -> Result<Code, Exception> {
    crate::shipped(client, "copy_blob.ts", BLOB_FUNCTION).await
}

/// Copies by a chain, the bytes by reference. After an interruption the copy resumes with the part at which it was. Parts have `part_bytes` (16 MiB if `None`),
/// and more in a file of more than 400 of them.
///
/// # Errors
/// The exception that ended it, with the path of hosts; the half-written target has been removed, or is named.
pub async fn by_blob(
    client: &Client,
    code: &Code,
    copy: &Copy,
    part_bytes: Option<u32>,
    progress: impl Fn(Progress),
) -> Result<Copied, Exception> {
    copy.check()?;
    let mut told = Told::new(client, copy);
    let Copy { from, source, to, target, .. } = copy;
    let input = ByParts { from, source, to, target, part_bytes: part_bytes.unwrap_or(PART_BYTES).max(1) };
    let options = RunOptions { profile: true, timeout: TIMEOUT, ..RunOptions::default() };
    let mut replies = client.run_with(code, &to_value(&input)?, &options)?;
    let followed = follow(&mut replies, &mut told, progress).await;
    let copied = followed.map_err(|why| told.by_chain(why))?;
    Ok(Copied { trace: replies.trace().to_vec(), ..copied })
}
