//! What the services ask of a database, and how it fails.

mod bounded;
mod maria;
mod sql;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::data::Rows;

pub use bounded::{Bounded, Switch};
pub use maria::{MariaDb, ServerError};
pub use sql::{mariadb, sqlite};

/// A member of a community, and the number to reach them at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Phone {
    /// The site that holds it, by its number in [`crate::sites::SITES`].
    pub site: u32,
    /// The user's number at that site.
    pub user: u32,
    /// Their name.
    pub name: String,
    /// Their phone number.
    pub phone: String,
}

/// A site's database. All its queries are prepared statements.
#[async_trait]
pub trait Database: Send + Sync {
    /// The sites where a community has members, by number.
    async fn sites_of(&self, community: u32) -> Result<Vec<u32>, DatabaseError>;

    /// The numbers of this site's members of a community, as the database finds them. The stream ends after its first error.
    fn phones(&self, community: u32) -> BoxStream<'_, Result<Phone, DatabaseError>>;

    /// Makes the tables, and puts these rows in.
    async fn fill(&self, rows: &Rows) -> Result<(), DatabaseError>;
}

/// Why a database did not answer, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// User or password are wrong.
    #[error("the database refuses the user or the password ({0}): correct them in the site's settings")]
    Refused(String),
    /// It has not got the tables.
    #[error("the database lacks a table ({0}): fill it first")]
    NoTable(String),
    /// It took too long.
    #[error("the database did not answer within {wait_ms} ms: it is stopped, gone or has too much to do")]
    Slow {
        /// How long it was waited for.
        wait_ms: u64,
    },
    /// The connection broke in mid-query.
    #[error("the database was lost in mid-query ({0}): see whether its server still runs")]
    Lost(String),
    /// Anything else that it says.
    #[error("the database failed: {0}")]
    Other(String),
}

impl DatabaseError {
    /// The name by which callers recognize it: that of the exception.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Refused(_) => "DatabaseRefused",
            Self::NoTable(_) => "DatabaseNoTable",
            Self::Slow { .. } => "DatabaseSlow",
            Self::Lost(_) => "DatabaseLost",
            Self::Other(_) => "DatabaseFailed",
        }
    }
}
