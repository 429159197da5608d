//! The same statements for SQLite and for MariaDB.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use sqlx::{
    MySql, Pool, QueryBuilder, Sqlite,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{Database, DatabaseError, Phone};
use crate::data::Rows;

const TABLES: [&str; 4] = [
    "CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(64) NOT NULL, phone VARCHAR(32) NOT NULL)",
    "CREATE TABLE communities (id INTEGER PRIMARY KEY, name VARCHAR(64) NOT NULL)",
    "CREATE TABLE memberships (community INTEGER NOT NULL, user INTEGER NOT NULL, PRIMARY KEY (community, user))",
    "CREATE TABLE branches (community INTEGER NOT NULL, site INTEGER NOT NULL, PRIMARY KEY (community, site))",
];
const SITES_OF: &str = "SELECT site FROM branches WHERE community = ?";
const PHONES: &str = "SELECT users.id, users.name, users.phone FROM memberships \
                      JOIN users ON users.id = memberships.user WHERE memberships.community = ?";

/// Connections to one database.
const CONNECTIONS_MAX: u32 = 8;
/// Rows put in with one statement.
const ROWS_A_STATEMENT: usize = 1_000;

/// An embedded database in a file.
///
/// # Errors
/// The file cannot be had.
pub async fn sqlite(site: u32, file: &Path) -> Result<impl Database + use<>, DatabaseError> {
    // No durability needed: after a crash of the machine, the contents are made again from their seed.
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off);
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS_MAX).connect_with(options).await.map_err(told)?;
    Ok(Sql { site, pool })
}

/// A MariaDB (or MySQL) server, connected to on the first request. `wait` does not bound the requests, for which [`super::Bounded`] is used; a connection is
/// tried for twice as long as `wait`.
#[must_use]
pub fn mariadb(site: u32, options: MySqlConnectOptions, wait: Duration) -> impl Database + use<> {
    let pool =
        MySqlPoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(2 * wait).connect_lazy_with(options);
    Sql { site, pool }
}

struct Sql<DB: sqlx::Database> {
    site: u32,
    pool: Pool<DB>,
}

/// A macro, since the trait bounds that sqlx needs for a function generic over both databases are longer than the functions.
macro_rules! database {
    ($kind:ty) => {
        #[async_trait]
        impl Database for Sql<$kind> {
            async fn sites_of(&self, community: u32) -> Result<Vec<u32>, DatabaseError> {
                let sites = sqlx::query_scalar::<_, i64>(SITES_OF).bind(i64::from(community));
                let sites = sites.fetch_all(&self.pool).await.map_err(told)?;
                Ok(sites.into_iter().filter_map(|site| u32::try_from(site).ok()).collect())
            }

            fn phones(&self, community: u32) -> BoxStream<'_, Result<Phone, DatabaseError>> {
                let rows = sqlx::query_as::<_, (i64, String, String)>(PHONES).bind(i64::from(community));
                let phone = |(user, name, phone)| Phone {
                    site: self.site,
                    user: u32::try_from(user).unwrap_or(u32::MAX),
                    name,
                    phone,
                };
                rows.fetch(&self.pool).map_ok(phone).map_err(told).boxed()
            }

            async fn fill(&self, rows: &Rows) -> Result<(), DatabaseError> {
                let mut all = self.pool.begin().await.map_err(told)?;
                for table in TABLES {
                    sqlx::query(table).execute(&mut *all).await.map_err(told)?;
                }
                for part in rows.users.chunks(ROWS_A_STATEMENT) {
                    let mut insert = QueryBuilder::<$kind>::new("INSERT INTO users (id, name, phone) ");
                    insert.push_values(part, |mut row, user| {
                        row.push_bind(user.id).push_bind(user.name.as_str()).push_bind(user.phone.as_str());
                    });
                    insert.build().execute(&mut *all).await.map_err(told)?;
                }
                for part in rows.communities.chunks(ROWS_A_STATEMENT) {
                    let mut insert = QueryBuilder::<$kind>::new("INSERT INTO communities (id, name) ");
                    insert.push_values(part, |mut row, (id, name)| {
                        row.push_bind(*id).push_bind(name.as_str());
                    });
                    insert.build().execute(&mut *all).await.map_err(told)?;
                }
                let pairs = [
                    ("INSERT INTO memberships (community, user) ", &rows.memberships),
                    ("INSERT INTO branches (community, site) ", &rows.branches),
                ];
                for (start, pairs) in pairs {
                    for part in pairs.chunks(ROWS_A_STATEMENT) {
                        let mut insert = QueryBuilder::<$kind>::new(start);
                        insert.push_values(part, |mut row, (one, other)| {
                            row.push_bind(*one).push_bind(*other);
                        });
                        insert.build().execute(&mut *all).await.map_err(told)?;
                    }
                }
                all.commit().await.map_err(told)
            }
        }
    };
}

database!(Sqlite);
database!(MySql);

fn told(why: sqlx::Error) -> DatabaseError {
    let text = why.to_string();
    match why {
        sqlx::Error::Database(why) => match why.code().as_deref() {
            // SQLSTATE: "invalid authorization", which includes "access denied"; "base table not found". SQLite has no code of its own for the latter.
            Some("28000") => DatabaseError::Refused(text),
            Some("42S02") => DatabaseError::NoTable(text),
            _ if text.contains("no such table") => DatabaseError::NoTable(text),
            _ => DatabaseError::Other(text),
        },
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            DatabaseError::Lost(text)
        }
        sqlx::Error::PoolTimedOut => DatabaseError::Lost("no connection could be had".into()),
        _ => DatabaseError::Other(text),
    }
}
