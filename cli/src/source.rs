//! A function, from its file to what a sandbox takes in.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use catena::{Client, Code, Exception, FunctionKind, Sandbox};
use catena_guest::Image;
use catena_script::{FoundCall, ScriptError, Spot};

use crate::{
    advice,
    failure::Failure,
    input::{self, FUNCTION_BYTES_MAX},
};

/// A function at hand.
pub(crate) struct Source {
    path: PathBuf,
    /// Its name everywhere: without folders, so that its hash does not depend on where it lies.
    pub(crate) name: String,
    pub(crate) kind: FunctionKind,
    /// What the sandbox takes in.
    pub(crate) bytes: Vec<u8>,
    /// As it was written, for the lines of exceptions; empty for compiled functions.
    text: String,
    pub(crate) calls: Vec<FoundCall>,
}

impl Source {
    /// Reads it; what JavaScript and TypeScript can be told about without running is told.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Self::of(path, input::file(path, FUNCTION_BYTES_MAX)?)
    }

    /// What such a file would hold.
    pub(crate) fn of(path: &Path, bytes: Vec<u8>) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let (kind, text, calls) = (FunctionKind::Wasm, String::new(), Vec::new());
            return Ok(Self { path: path.to_owned(), name, kind, bytes, text, calls });
        }
        let script = catena_script::prepare_bytes(&path.to_string_lossy(), &bytes).map_err(mistake)?;
        Ok(Self {
            path: path.to_owned(),
            name,
            kind: FunctionKind::JavaScript,
            bytes: script.source.into_bytes(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            calls: script.calls,
        })
    }

    /// The path, as the user gave it.
    pub(crate) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// Where an exception happened, if it says so and the source is at hand.
    pub(crate) fn spot(&self, why: &Exception) -> Option<Spot> {
        self.at(why.line, why.column)
    }

    /// The exception with which it ended, as a failure of the command.
    pub(crate) fn threw(&self, exception: Exception) -> Failure {
        let spot = self.spot(&exception);
        Failure::threw(exception).at(spot)
    }

    /// A place in it, if it is known and the source is at hand.
    pub(crate) fn at(&self, line: u32, column: u32) -> Option<Spot> {
        let known = line > 0 && !self.text.is_empty();
        known.then(|| Spot::at_line(&self.shown(), &self.text, line, column))
    }

    /// As it was written; `None` for compiled functions.
    pub(crate) fn text(&self) -> Option<&str> {
        (self.kind == FunctionKind::JavaScript).then_some(&self.text)
    }

    /// Gives the function to a client.
    pub(crate) async fn load(&self, client: &Client) -> Result<Code, Failure> {
        let loaded = match (self.kind, std::str::from_utf8(&self.bytes)) {
            (FunctionKind::JavaScript, Ok(source)) => client.javascript(&self.name, source).await,
            _ => client.wasm(&self.name, &self.bytes).await,
        };
        loaded.map_err(|why| self.refused(&why))
    }

    /// Loads it into a sandbox, as any node would.
    pub(crate) async fn image(&self, sandbox: &Sandbox) -> Result<Arc<Image>, Failure> {
        let function = sandbox.function(self.kind, &self.name, self.bytes.clone());
        let loaded = sandbox.load(function.hash(), &function.encode()).await;
        loaded.map_err(|why| self.refused(&why))
    }

    /// The sandbox does not take it.
    fn refused(&self, why: &Exception) -> Failure {
        let help = advice::instead(why).unwrap_or("correct the function: no node would take it either");
        let named = if self.spot(why).is_none() { format!("{}: ", self.shown()) } else { String::new() };
        Failure::input("BadFunction", format!("{named}{}: {}", why.name, why.message), help).at(self.spot(why))
    }
}

fn mistake(why: ScriptError) -> Failure {
    let message = match why.spot {
        Some(_) => why.message,
        None => format!("{}: {}", why.file, why.message),
    };
    Failure::input(why.kind.name(), message, why.help).at(why.spot)
}
