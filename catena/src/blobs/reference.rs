//! How a blob is encoded: `tag([where, first, size, media type])`. Guests see all of it except `where`, and can neither forge the tag nor mistake another value
//! for it; serde recognises a blob by the tag, too.

use catena_wire::{At, Exception, Fault, NAME_BYTES_MAX, NodeId, NodeRef, names};
use minicbor_serde::tag::Required;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};

/// The tag of a blob: `CBLB` as a number. The engine has the same constant (`guest/ABI.md`).
const TAG: u64 = 0x4342_4c42;

/// A range of bytes in a segment of some node, and the right to read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reference {
    pub(super) owner: NodeRef,
    /// The segment, with its grant; the offset is 0.
    pub(super) at: At,
    /// The segment's size, in bytes.
    pub(super) held: u64,
    pub(super) first: u64,
    pub(super) size: u64,
    pub(super) media_type: String,
}

/// The form on the wire: owner (id, name, address, site), segment (number, generation, grant, size).
#[derive(Serialize, Deserialize)]
struct Where(u64, String, Option<String>, Option<String>, u32, u64, u64, u64);

#[derive(Serialize, Deserialize)]
struct Parts(#[serde(with = "serde_bytes")] Vec<u8>, u64, u64, String);

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let NodeRef { id, name, address, site } = self.owner.clone();
        let At { number, generation, grant, .. } = self.at;
        let place = Where(id.0, name, address, site, number, generation, grant.unwrap_or_default(), self.held);
        let place = minicbor_serde::to_vec(&place).map_err(S::Error::custom)?;
        Required::<TAG, _>::new(Parts(place, self.first, self.size, self.media_type.clone())).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts(place, first, size, media_type) = Required::<TAG, Parts>::deserialize(deserializer)?.into_value();
        let place: Where = minicbor_serde::from_slice(&place).map_err(|_| D::Error::custom("a blob of nowhere"))?;
        let Where(id, name, address, site, number, generation, grant, held) = place;
        let texts = [Some(&name), address.as_ref(), site.as_ref(), Some(&media_type)];
        if texts.into_iter().flatten().any(|text| text.len() > NAME_BYTES_MAX) {
            return Err(D::Error::custom("a blob with a name, address or media type of more than 256 bytes"));
        }
        // Only the owner knows what it really has, but an impossible range can be rejected here.
        if first.checked_add(size).is_none_or(|end| end > held) {
            return Err(D::Error::custom("a blob whose range leaves its bytes"));
        }
        let owner = NodeRef { id: NodeId(id), name, address, site };
        let at = At { number, generation, offset: 0, grant: Some(grant) };
        Ok(Self { owner, at, held, first, size, media_type })
    }
}

impl Reference {
    /// The exception of a READ as it is reported to the blob's user: it names a lost owner.
    pub(super) fn told(&self, why: &Exception) -> Exception {
        let owner = &self.owner.name;
        let (fault, what) = match why.name.as_str() {
            names::OWNER_LOST | names::OWNER_SILENT | names::NODE_UNREACHABLE => {
                (Fault::Network, format!("its owner {owner} is lost ({})", why.message))
            }
            names::SEGMENT_REVOKED | names::SEGMENT_STALE | names::GRANT_VOID => (
                Fault::Caller,
                format!(
                    "its owner {owner} has it no longer: its time is over, it was taken back, or the reference is forged"
                ),
            ),
            _ => return Exception { message: format!("{self}: {}", why.message), ..why.clone() },
        };
        Exception::new(names::BLOB_LOST, fault, format!("{self}: {what}; have it made again"))
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { size, media_type, .. } = self;
        let media_type = if media_type.is_empty() { "no type" } else { media_type };
        write!(f, "the blob ({size} bytes, {media_type})")
    }
}
