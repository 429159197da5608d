//! `[[segment]]`: memory that the node exports.

use catena::{Export, Rights, SegmentPolicy};
use serde::Deserialize;
use toml::Spanned;

use super::{NAME_BYTES_MAX, mistake::Text};
use crate::failure::Failure;

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SegmentTable {
    name: Spanned<String>,
    bytes: Spanned<u64>,
    #[serde(default)]
    anyone: Vec<Right>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Right {
    Read,
    Write,
    Cas,
}

/// A segment, checked but not exported.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) how: Export,
}

impl SegmentFile {
    pub(super) fn meaning(&self) -> String {
        let words = right_words(self.how.anyone).join(", ");
        let may = if words.is_empty() { "nobody may use it".to_owned() } else { format!("anyone may {words}") };
        format!("{} bytes; {may}", self.bytes)
    }
}

/// These rights as a node's file names them.
pub(crate) fn right_words(rights: Rights) -> Vec<&'static str> {
    let all = [(Rights::READ, "read"), (Rights::WRITE, "write"), (Rights::CAS, "cas")];
    all.into_iter().filter(|(right, _)| rights.include(*right)).map(|(_, word)| word).collect()
}

impl SegmentTable {
    pub(super) fn checked(self, before: &[SegmentFile], text: &Text) -> Result<SegmentFile, Failure> {
        let (name, span) = (self.name.get_ref().clone(), self.name.span());
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let message = format!("a segment's name has 1 to {NAME_BYTES_MAX} bytes");
            return Err(text.mistake(span, message, "such as name = \"loads\""));
        }
        if before.iter().any(|other| other.name == name) {
            return Err(text.mistake(span, format!("the segment {name} is there twice"), "give it another name"));
        }
        let (bytes, most) = (*self.bytes.get_ref(), SegmentPolicy::default().segment_bytes_max);
        if bytes == 0 || bytes > most {
            let message = format!("the segment {name} cannot have {bytes} bytes");
            return Err(text.mistake(self.bytes.span(), message, format!("1 to {most}")));
        }
        let right = |right| match right {
            Right::Read => Rights::READ,
            Right::Write => Rights::WRITE,
            Right::Cas => Rights::CAS,
        };
        let anyone = self.anyone.into_iter().map(right).fold(Rights::NONE, Rights::and);
        Ok(SegmentFile { name, bytes, how: Export { anyone, ..Export::default() } })
    }
}
