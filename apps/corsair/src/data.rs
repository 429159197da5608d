//! The contents of the databases, drawn from a seed: the same on every machine.

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::sites::COUNT;

/// How much each site has. The default is the paper's (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Users of a site.
    pub users: u32,
    /// Communities that are at home at a site.
    pub communities: u32,
    /// Memberships of a site's users, in its own communities and in those of others.
    pub memberships: u32,
    /// How many of a site's memberships, in percent, are in its own communities. The paper does not say how its random memberships are spread.
    /// With 17 each site of a community has about as many members as its home; with 50, a community has half of its members at home.
    pub at_home_pct: u32,
}

impl Size {
    /// The paper's numbers, and half of a community's members at home.
    pub const PAPER: Self = Self { users: 19_366, communities: 512, memberships: 24_253, at_home_pct: 50 };
    /// The paper's numbers, and members spread evenly over a community's sites.
    pub const EVEN: Self = Self { at_home_pct: 17, ..Self::PAPER };
    /// For tests: there in an instant.
    pub const SMALL: Self = Self { users: 200, communities: 8, memberships: 300, at_home_pct: 50 };
}

/// A community has members at so many sites besides its home: five on average, as in the paper.
const OTHERS: std::ops::RangeInclusive<usize> = 3..=7;

/// A user of one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Unique at the site.
    pub id: u32,
    /// Made up.
    pub name: String,
    /// Made up as well: 555 numbers belong to nobody.
    pub phone: String,
}

/// What one site's database holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Its users. Nobody else holds their numbers.
    pub users: Vec<User>,
    /// Its own communities: number, name. A community's number is unique among all sites.
    pub communities: Vec<(u32, String)>,
    /// Its users' memberships: community, user.
    pub memberships: Vec<(u32, u32)>,
    /// Where communities have members, of all sites: community, site. No personal data, so each site holds it.
    pub branches: Vec<(u32, u32)>,
}

/// The rows of all sites.
#[must_use]
pub fn rows(seed: u64, size: Size) -> Vec<Rows> {
    let mut rng = Rng::with_seed(seed);
    let branches = branches(&mut rng, size);
    (0..COUNT).map(|site| rows_of(site, &mut rng, size, &branches)).collect()
}

/// The first of a site's own communities.
#[must_use]
pub fn first_community(site: usize, size: Size) -> u32 {
    u32::try_from(site).unwrap_or(0) * size.communities
}

fn branches(rng: &mut Rng, size: Size) -> Vec<(u32, u32)> {
    let mut branches = Vec::new();
    for home in 0..COUNT {
        for community in first_community(home, size)..first_community(home + 1, size) {
            let mut others: Vec<_> = (0..COUNT).filter(|site| *site != home).collect();
            rng.shuffle(&mut others);
            others.truncate(rng.usize(OTHERS));
            let sites = std::iter::once(home).chain(others).filter_map(|site| u32::try_from(site).ok());
            branches.extend(sites.map(|site| (community, site)));
        }
    }
    branches
}

fn rows_of(site: usize, rng: &mut Rng, size: Size, branches: &[(u32, u32)]) -> Rows {
    let users = (0..size.users).map(|id| User {
        id,
        name: format!("{} {}", FIRST[rng.usize(..FIRST.len())], LAST[rng.usize(..LAST.len())]),
        phone: format!("+{}-555-{:07}", site + 1, rng.u32(..10_000_000)),
    });
    let users = users.collect();
    let own = first_community(site, size)..first_community(site + 1, size);
    let here = |(_, at): &&(u32, u32)| usize::try_from(*at) == Ok(site);
    let (home, away): (Vec<_>, Vec<_>) =
        branches.iter().filter(here).map(|(community, _)| *community).partition(|community| own.contains(community));
    let at_home = size.memberships * size.at_home_pct / 100;
    let mut memberships = BTreeSet::new();
    draw(&mut memberships, rng, &home, at_home, size.users);
    draw(&mut memberships, rng, &away, size.memberships - at_home, size.users);
    let communities = own.map(|community| (community, format!("community {community}"))).collect();
    Rows { users, communities, memberships: memberships.into_iter().collect(), branches: branches.to_vec() }
}

/// Draws so many more memberships: one in each of these communities, so that every community listed for a site has members there, and the rest at random.
fn draw(memberships: &mut BTreeSet<(u32, u32)>, rng: &mut Rng, communities: &[u32], count: u32, users: u32) {
    let wanted = memberships.len() + usize::try_from(count).unwrap_or(0);
    // At most every user in every community.
    let wanted = wanted.min(memberships.len() + communities.len() * usize::try_from(users).unwrap_or(0));
    memberships.extend(communities.iter().map(|community| (*community, rng.u32(..users))));
    while memberships.len() < wanted {
        memberships.insert((communities[rng.usize(..communities.len())], rng.u32(..users)));
    }
}

const FIRST: [&str; 12] =
    ["Ada", "Bao", "Carmen", "Dmitri", "Emeka", "Fatima", "Goro", "Hana", "Ivo", "Jun", "Kofi", "Lena"];
const LAST: [&str; 10] = ["Abe", "Brandt", "Chen", "Diaz", "Eriksen", "Fofana", "Gupta", "Haas", "Ito", "Jansen"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_the_papers_and_the_same_for_the_same_seed() {
        let all = rows(7, Size::PAPER);
        assert_eq!(all, rows(7, Size::PAPER));
        for rows in &all {
            let counts = (rows.users.len(), rows.communities.len(), rows.memberships.len());
            assert_eq!(counts, (19_366, 512, 24_253));
        }
        let others = all[0].branches.len() as f64 / (COUNT * 512) as f64 - 1.0;
        assert!((4.9..5.1).contains(&others), "a community has members at {others} other sites");
        let home =
            |site: usize| all[site].memberships.iter().filter(|(community, _)| *community / 512 == site as u32).count();
        assert_eq!(home(3), 24_253 / 2);
    }

    #[test]
    fn every_branch_has_a_member() {
        for (site, rows) in rows(1, Size::SMALL).iter().enumerate() {
            let here = rows.branches.iter().filter(|(_, at)| *at == site as u32);
            for (community, _) in here {
                assert!(rows.memberships.iter().any(|(of, _)| of == community), "{community} at {site}");
            }
        }
    }
}
