//! What a real MariaDB server does to whoever asks it: Debian's, installed by `tools/bootstrap.sh tests`.
#![allow(clippy::unwrap_used)]

use std::{path::Path, time::Duration};

use catena_corsair::{
    data::{self, Rows, Size},
    database::{Bounded, Database, DatabaseError, MariaDb, Phone, Switch, mariadb},
};
use futures_util::TryStreamExt;
use sqlx::{Connection, MySqlConnection, mysql::MySqlConnectOptions};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

struct Stage {
    server: MariaDb,
    rows: Rows,
    _folder: TempDir,
}

impl Stage {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = MariaDb::start(&folder.path().join("data")).await.unwrap();
        let rows = data::rows(3, Size::SMALL).swap_remove(0);
        bounded(server.options(), LONG).fill(&rows).await.unwrap();
        Self { server, rows, _folder: folder }
    }

    async fn other(&self) -> MySqlConnection {
        MySqlConnection::connect_with(&self.server.options()).await.unwrap()
    }
}

fn bounded(options: MySqlConnectOptions, wait: Duration) -> Bounded {
    Bounded::new(mariadb(0, options, wait), wait, Switch::default())
}

async fn phones(database: &Bounded) -> Result<Vec<Phone>, DatabaseError> {
    database.phones(0).try_collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_answers_what_the_rows_say() {
    let stage = Stage::open().await;
    let database = bounded(stage.server.options(), LONG);
    let members = stage.rows.memberships.iter().filter(|(community, _)| *community == 0).count();
    let phones = phones(&database).await.unwrap();
    assert_eq!(phones.len(), members);
    assert!(phones.iter().all(|phone| stage.rows.users[phone.user as usize].phone == phone.phone));
    let sites = stage.rows.branches.iter().filter(|(community, _)| *community == 0).map(|(_, site)| *site);
    let (mut expected, mut found) = (sites.collect::<Vec<_>>(), database.sites_of(0).await.unwrap());
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_missing_table_are_told_at_once() {
    let stage = Stage::open().await;
    let refused = phones(&bounded(stage.server.options().password("guessed"), LONG)).await.unwrap_err();
    assert_eq!(refused.name(), "DatabaseRefused", "{refused}");
    sqlx::raw_sql("DROP TABLE users").execute(&mut stage.other().await).await.unwrap();
    let missing = phones(&bounded(stage.server.options(), LONG)).await.unwrap_err();
    assert_eq!(missing.name(), "DatabaseNoTable", "{missing}");
    assert!(missing.to_string().contains("users"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_and_a_stopped_server_are_waited_for_so_long_and_no_longer() {
    let stage = Stage::open().await;
    let database = bounded(stage.server.options(), SHORT);
    assert!(!phones(&bounded(stage.server.options(), LONG)).await.unwrap().is_empty());
    let mut other = stage.other().await;
    sqlx::raw_sql("LOCK TABLES users WRITE").execute(&mut other).await.unwrap();
    assert_eq!(phones(&database).await, Err(DatabaseError::Slow { wait_ms: 300 }));
    other.close().await.unwrap();
    stage.server.stop();
    assert_eq!(phones(&database).await, Err(DatabaseError::Slow { wait_ms: 300 }));
    stage.server.go_on();
    assert!(!phones(&bounded(stage.server.options(), LONG)).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mysql"), "in the way").unwrap();
    let why = MariaDb::start(Path::new(folder.path())).await.err().unwrap();
    assert!(why.to_string().contains("does not get ready"), "{why}");
}
