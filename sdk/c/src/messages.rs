//! Messages between service IDs: short ones, long ones that stay with their sender until they are read, and answers in return buffers.
#![allow(unsafe_code)]

use std::{
    ffi::{c_char, c_void},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catena::{Answer, Buffered, Carrier, Long, Mailbox, Question, Received};

use crate::{
    abi::{CATENA_TIMED_OUT, CATENA_TOO_SMALL, Done, Failure, guarded},
    handles::{Answered, Object, held, other, wait},
    party::client,
    raw::{CatenaBytes, CatenaPart, give, items, many, put_text, room, set, set_if_wanted, text},
};

/// An answer that came in one frame.
pub const CATENA_SHORT: i32 = 0;
/// One that its server wrote into the return buffer.
pub const CATENA_RETURNED: i32 = 1;
/// One that was read from its server.
pub const CATENA_LONG: i32 = 2;

const fn carried(carrier: Carrier) -> i32 {
    match carrier {
        Carrier::Short => CATENA_SHORT,
        Carrier::Returned => CATENA_RETURNED,
        Carrier::Long => CATENA_LONG,
    }
}

fn mailbox(number: u64) -> Done<Arc<Mailbox>> {
    match held(number)? {
        Object::Mailbox(mailbox) => Ok(mailbox),
        object => Err(other(number, &object, "mailbox")),
    }
}

fn message(number: u64) -> Done<Arc<Received>> {
    match held(number)? {
        Object::Message(message) => Ok(message),
        object => Err(other(number, &object, "message")),
    }
}

fn buffer(message: &Received, index: usize) -> Done<Buffered> {
    let buffers = message.buffers();
    let count = buffers.len();
    buffers.into_iter().nth(index).ok_or_else(|| Failure::argument(format!("there is no buffer {index} of {count}")))
}

/// The next message, within so many milliseconds.
fn next(from: u64, timeout_ms: u64) -> Done<Received> {
    let mailbox = mailbox(from)?;
    // One that is there costs no timer.
    if let Some(came) = mailbox.try_receive() {
        return Ok(came);
    }
    let time = Duration::from_millis(timeout_ms);
    let came = wait(async { tokio::time::timeout(time, mailbox.receive()).await })?;
    came.map_err(|_| Failure::new(CATENA_TIMED_OUT, "TimedOut", "no message came in time"))
}

/// Takes messages for a service ID from now on. Whoever sends finds it wherever it is.
///
/// # Safety
/// `service` is null or ends in a zero; `mailbox` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_mailbox_open(party: u64, service: *const c_char, mailbox: *mut u64) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let service = unsafe { text(service, "service") }?;
        let client = client(party)?;
        // It tells others from a task.
        let _inside = crate::handles::runtime()?.enter();
        let opened = Object::Mailbox(Arc::new(client.mailbox(service)?));
        // SAFETY: as the caller says.
        unsafe { give(mailbox, opened, "mailbox") }
    })
}

/// Waits for the next message, so many milliseconds: CATENA_TIMED_OUT if none came.
///
/// # Safety
/// `message` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_receive(from: u64, timeout_ms: u64, message: *mut u64) -> i32 {
    guarded(|| {
        let came = next(from, timeout_ms)?;
        // SAFETY: as the caller says.
        unsafe { give(message, Object::Message(Arc::new(came)), "message") }
    })
}

/// As catena_receive(), with what there is to know of the message in one call: `node` (it may be null) as of catena_message_from(), and its items, of which the first `capacity` are put to `all`,
/// where they stay until the message is closed; `count` is set to how many it has.
///
/// # Safety
/// `message` points to a handle; `all` has room for `capacity` items; `node` and `count` are null or point to numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_receive_items(
    from: u64,
    timeout_ms: u64,
    message: *mut u64,
    node: *mut u64,
    all: *mut CatenaBytes,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    guarded(|| {
        let came = next(from, timeout_ms)?;
        // SAFETY: as the caller says.
        unsafe {
            for (at, item) in came.items().iter().take(capacity).enumerate() {
                set(all.wrapping_add(at), CatenaBytes { bytes: item.as_ptr().cast(), count: item.len() }, "all")?;
            }
            set_if_wanted(node, came.node().id.0)?;
            set_if_wanted(count, came.items().len())?;
            give(message, Object::Message(Arc::new(came)), "message")
        }
    })
}

/// The service that sent a message; empty: one that takes none. `node` (it may be null) is set to the catena_id() of where it came from.
///
/// # Safety
/// `out` has room for `capacity` bytes; `length` and `node` are null or point to numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_message_from(
    from: u64,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
    node: *mut u64,
) -> i32 {
    guarded(|| {
        let message = message(from)?;
        // SAFETY: as the caller says.
        unsafe {
            set_if_wanted(node, message.node().id.0)?;
            put_text(message.from(), out, capacity, length)
        }
    })
}

/// How many items and buffers a message has. Both may be null.
///
/// # Safety
/// `items` and `buffers` are null or point to numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_message_counts(of: u64, items: *mut usize, buffers: *mut usize) -> i32 {
    guarded(|| {
        let message = message(of)?;
        // SAFETY: as the caller says.
        unsafe {
            set_if_wanted(items, message.items().len())?;
            set_if_wanted(buffers, message.buffers().len())
        }
    })
}

/// An item of a message. The bytes stay where they are until the message is closed.
///
/// # Safety
/// `bytes` and `count` point to what they are set to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_message_item(
    of: u64,
    index: usize,
    bytes: *mut *const c_void,
    count: *mut usize,
) -> i32 {
    guarded(|| {
        let message = message(of)?;
        let item = message.items().get(index);
        let item = item.ok_or_else(|| Failure::argument(format!("there is no item {index}")))?;
        // SAFETY: as the caller says.
        unsafe {
            set(bytes, item.as_ptr().cast(), "bytes")?;
            set(count, item.len(), "count")
        }
    })
}

/// How many bytes a buffer of a long message has, as its sender says.
///
/// # Safety
/// `bytes` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_message_buffer_bytes(of: u64, index: usize, bytes: *mut u64) -> i32 {
    // SAFETY: as the caller says.
    guarded(|| unsafe { set(bytes, buffer(&*message(of)?, index)?.bytes(), "bytes") })
}

/// Reads so many bytes of a buffer, from `offset` on, from its sender.
///
/// # Safety
/// `out` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_message_buffer_read(
    of: u64,
    index: usize,
    offset: u64,
    out: *mut c_void,
    count: usize,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let out = unsafe { room(out, count, "out") }?;
        let message = message(of)?;
        out.copy_from_slice(&wait(buffer(&message, index)?.read(offset, count as u64))??);
        Ok(())
    })
}

/// Answers a message: in one frame if the answer fits, else in the asker's return buffer, else left here to be read. `carrier` (it may be null) is set to CATENA_SHORT, CATENA_RETURNED or CATENA_LONG.
///
/// # Safety
/// `bytes` points to `count` bytes; `carrier` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_message_answer(to: u64, bytes: *const c_void, count: usize, carrier: *mut i32) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let bytes = unsafe { many(bytes.cast::<u8>(), count, "bytes") }?;
        let way = wait(message(to)?.answer(bytes.to_vec()))??;
        // SAFETY: as the caller says.
        unsafe { set_if_wanted(carrier, carried(way)) }
    })
}

/// Sends a short message of at most 64 items of 12 KiB together, which may be lost. `from` is the service ID that it comes from; it may be empty.
///
/// # Safety
/// Texts are null or end in a zero; `all` points to `count` items.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_send_short(
    party: u64,
    from: *const c_char,
    to: *const c_char,
    all: *const CatenaBytes,
    count: usize,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let (from, to, items) = unsafe { (text(from, "from")?, text(to, "to")?, items(all, count)?) };
        Ok(wait(client(party)?.send_short(from, to, items))??)
    })
}

/// Sends a long message from a mailbox: items that come with it, and up to 16 parts of segments, which stay where they are and are read when the receiver likes, for `lasts_ms` at most.
/// `sent` may be null; else it is a handle for catena_sent_wait().
///
/// # Safety
/// `to` is null or ends in a zero; `all` points to `count` items, `parts` to `part_count` parts; `sent` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_send_long(
    from: u64,
    to: *const c_char,
    all: *const CatenaBytes,
    count: usize,
    parts: *const CatenaPart,
    part_count: usize,
    lasts_ms: u64,
    sent: *mut u64,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let (to, items, parts) = unsafe { (text(to, "to")?, items(all, count)?, many(parts, part_count, "parts")?) };
        let long = Long::default().lasts(Duration::from_millis(lasts_ms));
        let mut long = items.into_iter().fold(long, Long::item);
        for part in parts {
            long = match held(part.segment)? {
                Object::Segment(segment) => long.and_part(&segment, part.offset, part.count),
                object => return Err(other(part.segment, &object, "segment")),
            };
        }
        let under_way = wait(mailbox(from)?.send_long(to, long))??;
        if sent.is_null() {
            return Ok(());
        }
        // SAFETY: as the caller says.
        unsafe { give(sent, Object::Sent(Arc::new(Mutex::new(Some(under_way)))), "sent") }
    })
}

/// Waits until a long message was read, or its time is over (CATENA_UNKNOWN). Once.
#[unsafe(no_mangle)]
pub extern "C" fn catena_sent_wait(sent: u64) -> i32 {
    guarded(|| match held(sent)? {
        Object::Sent(under_way) => {
            let under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner).take();
            let under_way = under_way.ok_or_else(|| Failure::argument("it was waited for already"))?;
            Ok(wait(under_way.completed())??)
        }
        object => Err(other(sent, &object, "sent message")),
    })
}

/// Asks a service, and waits so many milliseconds for its answer, of at most `bytes_max` bytes; `room` is the size of the return buffer, 0: none.
///
/// # Safety
/// `to` is null or ends in a zero; `all` points to `count` items; `answer` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_ask(
    party: u64,
    to: *const c_char,
    all: *const CatenaBytes,
    count: usize,
    room: u64,
    bytes_max: u64,
    timeout_ms: u64,
    answer: *mut u64,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let (to, items) = unsafe { (text(to, "to")?, items(all, count)?) };
        let question = Question::new(items).timeout(Duration::from_millis(timeout_ms));
        let question = if room == 0 { question } else { question.room(room) };
        let client = client(party)?;
        let answered = wait(async {
            Ok::<_, catena::Exception>(match client.ask(to, question).await? {
                Answer::Returned(bytes) => Answered { carrier: CATENA_RETURNED, bytes, node: None },
                Answer::Short(message) => {
                    let (bytes, node) = (message.items().first().cloned().unwrap_or_default(), message.node().id);
                    Answered { carrier: CATENA_SHORT, bytes, node: Some(node) }
                }
                Answer::Long(message) => {
                    let bytes = match message.buffers().first() {
                        Some(buffer) => buffer.fetch(bytes_max).await?,
                        None => bytes::Bytes::new(),
                    };
                    Answered { carrier: CATENA_LONG, bytes, node: Some(message.node().id) }
                }
            })
        })?;
        let answered = answered?;
        let count = answered.bytes.len();
        if count as u64 > bytes_max {
            let why = format!("the answer has {count} bytes, and {bytes_max} are wanted at most");
            return Err(Failure::new(CATENA_TOO_SMALL, "TooSmall", why));
        }
        // SAFETY: as the caller says.
        unsafe { give(answer, Object::Answer(Arc::new(answered)), "answer") }
    })
}

/// The bytes of an answer, which stay where they are until it is closed, and how it came (`carrier` may be null).
///
/// # Safety
/// `bytes` and `count` point to what they are set to; `carrier` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_answer_bytes(
    answer: u64,
    bytes: *mut *const c_void,
    count: *mut usize,
    carrier: *mut i32,
) -> i32 {
    guarded(|| match held(answer)? {
        // SAFETY: as the caller says.
        Object::Answer(answered) => unsafe {
            set_if_wanted(carrier, answered.carrier)?;
            set(bytes, answered.bytes.as_ptr().cast(), "bytes")?;
            set(count, answered.bytes.len(), "count")
        },
        object => Err(other(answer, &object, "answer")),
    })
}

/// Who answered: its catena_id(); 0: it wrote into the return buffer, which does not say who it was.
///
/// # Safety
/// `node` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn catena_answer_from(answer: u64, node: *mut u64) -> i32 {
    guarded(|| match held(answer)? {
        // SAFETY: as the caller says.
        Object::Answer(answered) => unsafe { set(node, answered.node.map_or(0, |node| node.0), "node") },
        object => Err(other(answer, &object, "answer")),
    })
}
