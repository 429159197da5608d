//! Reading what the user names: files and standard input, with bounds.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use catena_script::Spot;

use crate::{failure::Failure, nearest::nearest};

/// Largest JSON input.
pub(crate) const JSON_BYTES_MAX: u64 = 16 << 20;
/// Largest function.
pub(crate) const FUNCTION_BYTES_MAX: u64 = 16 << 20;
/// Largest configuration file.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The command line's own words, as messages name them.
pub(crate) const ARGUMENT: &str = "argument";
/// Standard input, as messages name it.
pub(crate) const STDIN: &str = "standard input";
/// Names of a folder that are looked at for the one that may be meant.
const NAMES_MAX: usize = 10_000;

/// The whole file.
pub(crate) fn file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let named = path.display();
    if path.is_dir() {
        return Err(Failure::input("IsDirectory", format!("{named} is a directory"), "name a file in it"));
    }
    let opened = File::open(path).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => not_found(path),
        io::ErrorKind::PermissionDenied => {
            Failure::input("Unreadable", format!("{named} may not be read by this user"), "change its permissions")
        }
        _ => unreadable(&named.to_string(), &why),
    })?;
    read(opened, &named.to_string(), bytes_max)
}

/// What an argument says, and what it is called in messages: itself, `@FILE`, or `-` for standard input.
pub(crate) fn argument(given: &str, bytes_max: u64) -> Result<(&str, Vec<u8>), Failure> {
    match given.strip_prefix('@') {
        Some(path) => Ok((path, file(path.as_ref(), bytes_max)?)),
        None if given == "-" => Ok((STDIN, read(io::stdin().lock(), STDIN, bytes_max)?)),
        None => Ok((ARGUMENT, given.into())),
    }
}

fn read(from: impl Read, named: &str, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let count = from.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|why| unreadable(named, &why))?;
    if u64::try_from(count).unwrap_or(u64::MAX) > bytes_max {
        let message = format!("{named} has more than {bytes_max} bytes");
        return Err(Failure::input("TooLarge", message, "make it smaller, or let a service hold the data"));
    }
    Ok(bytes)
}

/// The bytes as text. If one of them is none, `refused` makes the failure out of message and help, and its place is added.
pub(crate) fn text(
    named: &str,
    bytes: Vec<u8>,
    refused: impl FnOnce(&str, &str) -> Failure,
) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|why| {
        let spot = Spot::at_byte(named, &String::from_utf8_lossy(why.as_bytes()), why.utf8_error().valid_up_to());
        refused("this byte is not UTF-8 text", "save it as UTF-8").at(spot)
    })
}

pub(crate) fn unreadable(named: &str, why: &io::Error) -> Failure {
    let help = match why.kind() {
        io::ErrorKind::InvalidData => "save it as UTF-8",
        _ => "name a file that can be read",
    };
    Failure::input("Unreadable", format!("{named} cannot be read: {why}"), help)
}

fn not_found(path: &Path) -> Failure {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Ok(entries) = std::fs::read_dir(folder) else {
        let message = format!("{} does not exist, nor does its folder", path.display());
        return Failure::input("NotFound", message, "name a file that is there");
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<String> = names.take(NAMES_MAX).collect();
    let help = match nearest(&name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}?", path.with_file_name(near).display()),
        None => "name a file that is there".to_owned(),
    };
    Failure::input("NotFound", format!("{} does not exist", path.display()), help)
}
