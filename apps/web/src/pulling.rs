//! A body that is pulled part by part: the next part is on its way while one is being read.

use bytes::Bytes;
use catena::{Imported, NodeId};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{
    fetch::{Declared, FetchError, Fetcher},
    frame::{Part, Range},
};

/// A part, and the node that sent it.
type Came = (Part, Option<NodeId>);

/// Bytes of a body, wherever they are.
pub(crate) enum Piece {
    /// These.
    Here(Bytes),
    /// In a segment, until the next piece is asked for.
    Lies(Imported, Range),
}

impl Piece {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::Lies(_, range) => range.bytes,
        }
    }

    /// A copy of them, if they are not here.
    pub(crate) async fn read(self) -> Result<Bytes, FetchError> {
        match self {
            Self::Here(bytes) => Ok(bytes),
            Self::Lies(far, range) => Ok(far.read(range.offset, range.bytes).await?),
        }
    }

    /// Copies them to where there is room for exactly so many.
    pub(crate) async fn read_into(self, out: &mut [u8]) -> Result<(), FetchError> {
        match self {
            Self::Here(bytes) => out.copy_from_slice(&bytes),
            Self::Lies(far, range) => far.read_into(range.offset, out).await?,
        }
        Ok(())
    }
}

/// What is pulled of one body.
pub(crate) struct Pulling {
    fetcher: Fetcher,
    site: Box<str>,
    number: u64,
    declared: Declared,
    /// Bytes so far.
    came: u64,
    /// The next part, on its way.
    asked: Option<BoxFuture<'static, Result<Came, FetchError>>>,
    /// The segment of the last piece, if it lay in one; it may have been read since.
    read: Option<Imported>,
    /// Some part lay in a segment, which the server keeps for this body.
    lay: bool,
    over: bool,
}

impl Pulling {
    pub(crate) fn new(fetcher: &Fetcher, site: &str, number: u64, declared: Declared) -> Self {
        let fetcher = fetcher.clone();
        Self { fetcher, site: site.into(), number, declared, came: 0, asked: None, read: None, lay: false, over: false }
    }

    /// A body whose first part came with the head.
    pub(crate) fn begun(fetcher: &Fetcher, site: &str, number: u64, declared: Declared, first: Came) -> Self {
        let mut pulling = Self::new(fetcher, site, number, declared);
        pulling.lay = matches!(first.0, Part::Lies { .. });
        pulling.asked = Some(Box::pin(std::future::ready(Ok(first))));
        pulling
    }

    pub(crate) const fn declared(&self) -> Declared {
        self.declared
    }

    fn ask(&self) -> BoxFuture<'static, Result<Came, FetchError>> {
        let (fetcher, site, number) = (self.fetcher.clone(), self.site.clone(), self.number);
        Box::pin(async move { fetcher.part(&site, number).await })
    }

    /// The next piece. The previous one must not be read any more.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, FetchError> {
        if let Some(far) = self.read.take() {
            self.fetcher.note(&self.site, &far);
        }
        while !self.over {
            let asked = self.asked.take().unwrap_or_else(|| self.ask());
            let (part, node) = asked.await?;
            let piece = match part {
                Part::Failed(why) => {
                    self.over = true;
                    self.leave();
                    return Err(FetchError::BrokeOff(why));
                }
                Part::Here { bytes, last } => {
                    self.go_on(last)?;
                    Piece::Here(bytes)
                }
                Part::Lies { range, last } => {
                    self.lay = true;
                    if range.bytes > self.fetcher.part_bytes_max() {
                        return Err(FetchError::Protocol("a part of its body is too long"));
                    }
                    self.go_on(last)?;
                    let far = self.fetcher.place(&range, node).await?;
                    self.read = Some(far.clone());
                    Piece::Lies(far, range)
                }
            };
            if piece.bytes() > 0 {
                self.came += piece.bytes();
                self.declared.allows(self.came).inspect_err(|_| self.leave())?;
                return Ok(Some(piece));
            }
        }
        self.leave();
        self.declared.is(self.came)?;
        Ok(None)
    }

    /// Sends the next question, if there is another part, and does not wait.
    fn go_on(&mut self, last: bool) -> Result<(), FetchError> {
        self.over = last;
        if last {
            return Ok(());
        }
        let mut asking = self.ask();
        self.asked = Some(match asking.as_mut().now_or_never() {
            Some(answered) => Box::pin(std::future::ready(Ok(answered?))),
            None => asking,
        });
        Ok(())
    }

    /// Tells the server that no more of the body is wanted: once, and only if the server does not know it yet.
    fn leave(&mut self) {
        // The request made ahead is given up first.
        self.asked = None;
        if !self.over || std::mem::take(&mut self.lay) {
            self.over = true;
            self.lay = false;
            self.fetcher.leave(&self.site, self.number);
        }
    }
}

impl Drop for Pulling {
    fn drop(&mut self) {
        self.leave();
    }
}
