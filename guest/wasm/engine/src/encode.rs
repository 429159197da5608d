//! JavaScript values to CBOR, straight into the outbox. ABI.md says what becomes what; typed arrays other than
//! `Uint8Array` have the tags of RFC 8746, a `BigInt` within 64 bits is a plain integer only beyond 2^53.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::Encoder;
use minicbor::data::Tag;

use crate::js::{self, Kind, Name, OwnNames, Pending, Shape, Text, Value};
use crate::outbox::{self, Full, Outbox};

/// How deeply values may be nested.
pub(crate) const DEPTH_MAX: usize = 64;
/// Beyond this, not every integer is a number.
pub(crate) const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// RFC 8746's little-endian tag for each kind of typed array (the engine's numbering); `Uint8Array` is a byte string.
pub(crate) const TYPED_ARRAY_TAGS: [(u32, u64); 11] =
    [(0, 68), (1, 72), (3, 77), (4, 69), (5, 78), (6, 70), (7, 79), (8, 71), (9, 84), (10, 85), (11, 86)];

/// The tag of a blob: a value by reference.
pub(crate) const BLOB_TAG: u64 = 1_128_418_370;

/// Why a value was not written.
pub(crate) enum Trouble {
    /// A getter or a proxy threw.
    Threw(Pending),
    /// The outbox took no more.
    Full(Full),
    /// The value does not travel: where in it (innermost first), and why.
    Unfit(Vec<String>, String),
}

impl From<Pending> for Trouble {
    fn from(pending: Pending) -> Self {
        Trouble::Threw(pending)
    }
}

impl From<minicbor::encode::Error<Full>> for Trouble {
    fn from(error: minicbor::encode::Error<Full>) -> Self {
        Trouble::Full(outbox::full(error))
    }
}

type Step = Result<(), Trouble>;

/// Writes one value.
pub(crate) fn value(out: &mut Outbox, value: &Value) -> Step {
    Walk { to: Encoder::new(out), above: [0; DEPTH_MAX], depth: 0 }.value(value)
}

/// What is told about a value that does not travel: `what` names it, such as `params`.
pub(crate) fn unfit_message(what: &str, path: &[String], why: &str) -> String {
    let mut message = String::from(what);
    for part in path.iter().rev() {
        message.push_str(part);
    }
    message.push(' ');
    message.push_str(why);
    message
}

struct Walk<'a> {
    to: Encoder<&'a mut Outbox>,
    /// The objects around this one, to see cycles.
    above: [usize; DEPTH_MAX],
    depth: usize,
}

fn unfit<T>(why: &str) -> Result<T, Trouble> {
    Err(Trouble::Unfit(Vec::new(), why.to_owned()))
}

/// Adds where we are to the path of a value that does not travel.
fn inside(step: Step, part: impl FnOnce() -> String) -> Step {
    match step {
        Err(Trouble::Unfit(mut path, why)) => {
            path.push(part());
            Err(Trouble::Unfit(path, why))
        }
        other => other,
    }
}

fn property(name: &str) -> String {
    let plain = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
    if name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(plain) {
        format!(".{name}")
    } else {
        format!("[{name:?}]")
    }
}

impl Walk<'_> {
    fn value(&mut self, value: &Value) -> Step {
        match value.kind() {
            Kind::Undefined => self.to.undefined()?.ok()?,
            Kind::Null => self.to.null()?.ok()?,
            Kind::Bool(b) => self.to.bool(b)?.ok()?,
            Kind::Int(n) => self.to.i32(n)?.ok()?,
            Kind::Float(n) => self.float(n)?,
            Kind::String => self.to.str(&value.to_text()?.get())?.ok()?,
            Kind::BigInt => self.big_int(value)?,
            Kind::Symbol => return unfit("is a symbol, and symbols do not travel"),
            Kind::Object => return self.object(value),
        }
        Ok(())
    }

    fn float(&mut self, n: f64) -> Step {
        let whole = n as i64;
        if whole as f64 == n && n.abs() <= SAFE_INTEGER_MAX && !(n == 0.0 && n.is_sign_negative()) {
            self.to.i64(whole)?;
        } else {
            self.to.f64(n)?;
        }
        Ok(())
    }

    fn big_int(&mut self, value: &Value) -> Step {
        let text = value.call_method(js::name(|n| &n.to_string), &[Value::int(16)])?.to_text()?;
        let text = text.get();
        let (negative, hex) = match text.strip_prefix('-') {
            Some(hex) => (true, hex),
            None => (false, &*text),
        };
        let magnitude = u64::from_str_radix(hex, 16).ok();
        match magnitude {
            // Smaller ones would come back as numbers.
            Some(m) if m > SAFE_INTEGER_MAX as u64 && !negative => self.to.u64(m)?.ok()?,
            Some(m) if m > SAFE_INTEGER_MAX as u64 && m <= 1 << 63 => self.to.i64((m as i64).wrapping_neg())?.ok()?,
            _ => {
                // Tag 3 holds -1 - n.
                let mut bytes = bytes_of_hex(hex);
                if negative {
                    decrement(&mut bytes);
                }
                let first = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len());
                self.to.tag(Tag::new(if negative { 3 } else { 2 }))?.bytes(&bytes[first..])?;
            }
        }
        Ok(())
    }

    fn object(&mut self, value: &Value) -> Step {
        let identity = value.identity();
        if self.above[..self.depth].contains(&identity) {
            return unfit("holds itself, and a cycle does not travel as a value");
        }
        if self.depth == DEPTH_MAX {
            return unfit("is nested more than 64 deep");
        }
        self.above[self.depth] = identity;
        self.depth += 1;
        let step = self.shaped(value);
        self.depth -= 1;
        step
    }

    fn shaped(&mut self, value: &Value) -> Step {
        match value.shape() {
            Shape::Plain => self.plain(value),
            Shape::Array => self.array(value),
            Shape::Bytes => {
                let written = value.with_bytes(|bytes| self.to.bytes(bytes).map(|_| ()))?;
                Ok(written?)
            }
            Shape::Typed(kind) => self.typed(kind, value),
            Shape::Date => {
                let ms = value.call_method(js::name(|n| &n.get_time), &[])?.to_number()?;
                self.to.tag(Tag::new(1))?;
                self.float(ms / 1000.0)
            }
            Shape::Map => self.map(value),
            Shape::Set => {
                self.to.tag(Tag::new(258))?;
                self.array(&value.to_array()?)
            }
            Shape::Error => self.error(value),
            Shape::Function => unfit("is a function, and functions do not travel"),
            Shape::Promise => unfit("is a promise: await it first"),
            Shape::Opaque => self.opaque(value),
        }
    }

    fn plain(&mut self, object: &Value) -> Step {
        let names = OwnNames::of(object)?;
        self.to.map(u64::from(names.len()))?;
        self.properties(object, &names)
    }

    fn properties(&mut self, object: &Value, names: &OwnNames) -> Step {
        for i in 0..names.len() {
            let name = names.get(i);
            self.key(name)?;
            let held = object.get(name)?;
            inside(self.value(&held), || Text::of_name(name).map(|t| property(&t.get())).unwrap_or_default())?;
        }
        Ok(())
    }

    fn key(&mut self, name: Name) -> Step {
        self.to.str(&Text::of_name(name)?.get())?;
        Ok(())
    }

    fn array(&mut self, array: &Value) -> Step {
        let len = u32::try_from(array.len()?).unwrap_or(u32::MAX);
        self.to.array(u64::from(len))?;
        for i in 0..len {
            let item = array.get_index(i)?;
            inside(self.value(&item), || format!("[{i}]"))?;
        }
        Ok(())
    }

    fn map(&mut self, map: &Value) -> Step {
        let entries = map.to_array()?;
        let len = u32::try_from(entries.len()?).unwrap_or(u32::MAX);
        self.to.map(u64::from(len))?;
        for i in 0..len {
            let entry = entries.get_index(i)?;
            let (key, held) = (entry.get_index(0)?, entry.get_index(1)?);
            inside(self.value(&key), || format!(".keys()[{i}]"))?;
            inside(self.value(&held), || match key.to_text() {
                Ok(text) => format!(".get({:?})", text.get()),
                Err(_) => String::new(),
            })?;
        }
        Ok(())
    }

    fn typed(&mut self, kind: u32, value: &Value) -> Step {
        let Some((_, tag)) = TYPED_ARRAY_TAGS.iter().find(|(k, _)| *k == kind) else {
            return unfit("is a typed array of an unknown kind");
        };
        self.to.tag(Tag::new(*tag))?;
        let written = value.with_bytes(|bytes| self.to.bytes(bytes).map(|_| ()))?;
        Ok(written?)
    }

    /// An error inside a value: its name, its message, and what else it shows.
    fn error(&mut self, error: &Value) -> Step {
        let names = OwnNames::of(error)?;
        self.to.map(u64::from(names.len()) + 2)?;
        for name in [js::name(|n| &n.name), js::name(|n| &n.message)] {
            self.key(name)?;
            self.value(&error.get(name)?)?;
        }
        self.properties(error, &names)
    }

    fn opaque(&mut self, value: &Value) -> Step {
        let class = value.class_name()?;
        let class = class.get();
        match &*class {
            // Primitive values in an object's clothes.
            "Number" | "String" | "Boolean" | "BigInt" => {
                let inner = value.call_method(js::name(|n| &n.value_of), &[])?;
                if inner.is_object() { unfit("is an object around itself") } else { self.value(&inner) }
            }
            "Arguments" | "Module" | "Object" => self.plain(value),
            js::BLOB_CLASS => {
                self.to.tag(Tag::new(BLOB_TAG))?;
                self.value(&value.get(js::name(|n| &n.parts))?)
            }
            _ => unfit(&format!("is a {class}, and such an object does not travel as a value")),
        }
    }
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
    let mut bytes: Vec<u8> =
        hex.as_bytes().rchunks(2).map(|pair| pair.iter().fold(0, |n, b| n << 4 | digit(*b))).collect();
    bytes.reverse();
    bytes
}

/// Subtracts one from a big-endian number that is not zero.
fn decrement(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().rev() {
        let (less, borrowed) = byte.overflowing_sub(1);
        *byte = less;
        if !borrowed {
            return;
        }
    }
}
