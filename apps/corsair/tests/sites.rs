//! Ten sites with embedded databases, and one of them with a real server.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeSet, time::Duration};

use catena_corsair::{
    aat::{Asked, Way, ask},
    data::{self, Size, first_community},
    database::Phone,
    federation::{Engine, Federation, Plan},
    sites::{COUNT, SITES},
};
use tokio::sync::Notify;

const SEED: u64 = 11;
const LONDON: usize = 7;
const SINGAPORE: usize = 3;

fn plan(engine: Engine, wait: Duration) -> Plan {
    Plan { engine, size: Size::SMALL, seed: SEED, wait, topology: None }
}

/// What the rows say: the members of a community at each site.
fn members(community: u32) -> Vec<BTreeSet<Phone>> {
    let all = data::rows(SEED, Size::SMALL);
    let of = |(site, rows): (usize, &data::Rows)| {
        let users =
            rows.memberships.iter().filter(|(of, _)| *of == community).map(|(_, user)| &rows.users[*user as usize]);
        users
            .map(|user| Phone { site: site as u32, user: user.id, name: user.name.clone(), phone: user.phone.clone() })
            .collect()
    };
    all.iter().enumerate().map(of).collect()
}

/// One of London's own communities that has members in Singapore.
fn community() -> u32 {
    let own = first_community(LONDON, Size::SMALL)..first_community(LONDON + 1, Size::SMALL);
    own.into_iter().find(|community| !members(*community)[SINGAPORE].is_empty()).unwrap()
}

fn came(asked: &Asked) -> BTreeSet<Phone> {
    asked.phones.iter().map(|(_, phone)| phone.clone()).collect()
}

fn all_but(site: usize, community: u32) -> BTreeSet<Phone> {
    members(community)
        .into_iter()
        .enumerate()
        .filter(|(other, _)| *other != site)
        .flat_map(|(_, phones)| phones)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn asked_at_any_site_both_ways_bring_every_member_once() {
    let federation = Federation::open(&plan(Engine::Sqlite, Duration::from_secs(30))).await.unwrap();
    for (site, of) in SITES.iter().enumerate() {
        let client = federation.client(site).await.unwrap();
        for way in [Way::Standard, Way::Replies] {
            let asked = ask(&client, site, community(), way, |_, _| {}).await.unwrap();
            assert_eq!(came(&asked), all_but(COUNT, community()), "{way:?} at {}", of.place);
            assert_eq!((asked.phones.len(), asked.missing.len()), (came(&asked).len(), 0));
        }
    }
    let client = federation.client(LONDON).await.unwrap();
    for way in [Way::Standard, Way::Replies] {
        let why = ask(&client, LONDON, 1_000_000, way, |_, _| {}).await.unwrap_err();
        assert_eq!(why.name, "NoCommunity", "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_database_costs_its_own_numbers_and_is_named() {
    let federation = Federation::open(&plan(Engine::Sqlite, Duration::from_millis(300))).await.unwrap();
    let client = federation.client(LONDON).await.unwrap();
    federation.run_database(SINGAPORE, false);
    for way in [Way::Standard, Way::Replies] {
        let asked = ask(&client, LONDON, community(), way, |_, _| {}).await.unwrap();
        assert_eq!(came(&asked), all_but(SINGAPORE, community()), "{way:?}");
        let [missing] = asked.missing.as_slice() else { panic!("{way:?}: {:?}", asked.missing) };
        assert_eq!(missing.name, "DatabaseSlow");
        assert!(missing.message.contains("Singapore"), "{}", missing.message);
    }
    federation.run_database(SINGAPORE, true);
    let asked = ask(&client, LONDON, community(), Way::Replies, |_, _| {}).await.unwrap();
    assert_eq!((came(&asked), asked.missing.len()), (all_but(COUNT, community()), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_killed_in_mid_query_costs_its_own_numbers_and_nothing_that_had_come() {
    let mut federation = Federation::open(&plan(Engine::MariaDbAt(SINGAPORE), Duration::from_secs(30))).await.unwrap();
    let client = federation.client(LONDON).await.unwrap();
    let server = federation.server(SINGAPORE).unwrap();
    // Whoever asks for its users waits, in mid-query.
    let mut other = <sqlx::MySqlConnection as sqlx::Connection>::connect_with(&server.options()).await.unwrap();
    sqlx::raw_sql("LOCK TABLES users WRITE").execute(&mut other).await.unwrap();

    let (others, all_came) = (all_but(SINGAPORE, community()), Notify::new());
    let mut count = 0;
    let asking = ask(&client, LONDON, community(), Way::Replies, |_, _| {
        count += 1;
        if count == others.len() {
            all_came.notify_one();
        }
    });
    let killing = async {
        all_came.notified().await;
        server.kill().await.unwrap();
    };
    let (asked, ()) = tokio::join!(asking, killing);
    let asked = asked.unwrap();
    assert_eq!(came(&asked), others);
    let [missing] = asked.missing.as_slice() else { panic!("{:?}", asked.missing) };
    assert_eq!(missing.name, "DatabaseLost");
    assert!(missing.message.contains("Singapore"), "{}", missing.message);
}
