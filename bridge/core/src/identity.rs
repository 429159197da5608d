//! The identity under which a bridge acts at a server that knows Unix users (NFS, local files, mail spools).

use std::{fmt, ops::RangeInclusive};

use catena::{ServiceError, from_value};
use serde::{Deserialize, Serialize};

use crate::Caller;

/// The user and group number of "nobody".
pub const NOBODY: u32 = 65_534;
/// Groups that a caller may name besides its first.
const GROUPS_MAX: usize = 64;

/// A caller's credentials, as `RunOptions::credentials` carries them: `{uid, gid, groups}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnixUser {
    /// The user's number at the server.
    pub uid: u32,
    /// The group's.
    pub gid: u32,
    /// Further groups, at most 64; a protocol may carry fewer.
    #[serde(default)]
    pub groups: Vec<u32>,
}

impl fmt::Display for UnixUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}, gid {}", self.uid, self.gid)?;
        if self.groups.is_empty() { Ok(()) } else { write!(f, ", groups {:?}", self.groups) }
    }
}

/// On whose behalf to act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// As the node, whoever calls: everybody who may call it may do whatever the node may.
    Node,
    /// As the caller; a caller without credentials is refused.
    #[default]
    Caller,
    /// As the caller; without credentials, as the node.
    CallerOrNode,
}

/// What to do with a caller that claims user or group 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// It acts as [`NOBODY`].
    #[default]
    Squash,
    /// It is refused.
    Refuse,
    /// It acts as root: only where every caller is trusted with everything.
    Allow,
}

/// The rule of the node's owner: which callers' numbers are accepted. The numbers are only claimed by the callers, so let only trustworthy callers call the
/// node (links are not authenticated: keep the node on loopback or on a network of your own).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// As whom to act. Default: as the caller.
    pub act_as: Who,
    /// Users and groups 0. Default: squashed.
    pub root: Root,
    /// The least user number accepted, root apart. Default: 1.
    pub uid_min: Option<u32>,
    /// The greatest. Default: no bound.
    pub uid_max: Option<u32>,
}

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acting {
    /// The node, with credentials of its own.
    Node,
    /// The caller.
    Caller(UnixUser),
}

impl fmt::Display for Acting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => f.write_str("the node's own credentials"),
            Self::Caller(user) => write!(f, "the caller's credentials ({user})"),
        }
    }
}

impl Identity {
    /// As the node, whoever calls.
    #[must_use]
    pub fn node() -> Self {
        Self { act_as: Who::Node, ..Self::default() }
    }

    /// The identity under which a call acts.
    ///
    /// # Errors
    /// `CredentialsNeeded` without any, `CredentialsRefused` for a number that is not accepted, `BadParameters` if they are not `{uid, gid, groups}`.
    pub fn of(&self, caller: &Caller) -> Result<Acting, ServiceError> {
        let given = match (self.act_as, &caller.credentials) {
            (Who::Node, _) | (Who::CallerOrNode, None) => return Ok(Acting::Node),
            (Who::Caller, None) => {
                let message = "this service acts as its caller, and the caller names nobody; give credentials {uid, gid, groups} with the chain or call";
                return Err(ServiceError::named("CredentialsNeeded", message));
            }
            (_, Some(given)) => given,
        };
        let user: UnixUser = from_value(given)?;
        if user.groups.len() > GROUPS_MAX {
            return Err(refused(&user, format!("{} groups, where {GROUPS_MAX} are the most", user.groups.len())));
        }
        let let_through: RangeInclusive<u32> = self.uid_min.unwrap_or(1)..=self.uid_max.unwrap_or(u32::MAX);
        if user.uid != 0 && !let_through.contains(&user.uid) {
            return Err(refused(&user, format!("users {} to {} are", let_through.start(), let_through.end())));
        }
        self.without_root(user).map(Acting::Caller)
    }

    fn without_root(&self, user: UnixUser) -> Result<UnixUser, ServiceError> {
        let is_root = user.uid == 0 || user.gid == 0 || user.groups.contains(&0);
        match self.root {
            Root::Refuse if is_root => Err(refused(&user, "user and group 0 never are")),
            Root::Squash if is_root => {
                let squash = |number: u32| if number == 0 { NOBODY } else { number };
                // Squashed root keeps none of its groups: only what nobody has is left.
                let groups = if user.uid == 0 { Vec::new() } else { user.groups.into_iter().map(squash).collect() };
                let gid = if user.uid == 0 { NOBODY } else { squash(user.gid) };
                Ok(UnixUser { uid: squash(user.uid), gid, groups })
            }
            _ => Ok(user),
        }
    }
}

/// Describes for people under which identity a service acts.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.act_as {
            Who::Node => return f.write_str("acts as the node, whoever calls"),
            Who::Caller => "acts as its caller, and refuses callers without credentials",
            Who::CallerOrNode => "acts as its caller, and as the node for callers without credentials",
        })?;
        write!(f, "; lets users from {}", self.uid_min.unwrap_or(1))?;
        if let Some(uid_max) = self.uid_max {
            write!(f, " to {uid_max}")?;
        }
        match self.root {
            Root::Squash => write!(f, " through; user and group 0 become {NOBODY} (nobody)"),
            Root::Refuse => f.write_str(" through; user and group 0 are refused"),
            Root::Allow => f.write_str(" through; user and group 0 act as root"),
        }
    }
}

fn refused(user: &UnixUser, why: impl fmt::Display) -> ServiceError {
    ServiceError::named("CredentialsRefused", format!("{user} is not let through by this node: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        let user = UnixUser { uid, gid, groups: groups.to_vec() };
        Caller { credentials: Some(catena::to_value(&user).unwrap()), ..Caller::default() }
    }

    /// User, group, further groups.
    type Ids<'a> = (u32, u32, &'a [u32]);

    fn check(identity: &Identity, caller: &Caller, expected: Result<Option<Ids<'_>>, &str>) {
        let got = match identity.of(caller) {
            Ok(Acting::Node) => Ok(None),
            Ok(Acting::Caller(user)) => Ok(Some(user)),
            Err(why) => Err(format!("{why:?}")),
        };
        match (got, expected) {
            (Ok(got), Ok(expected)) => {
                let expected = expected.map(|(uid, gid, groups)| UnixUser { uid, gid, groups: groups.to_vec() });
                assert_eq!(got, expected, "{identity:?} {caller:?}");
            }
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{got}"),
            (got, expected) => panic!("{identity:?} {caller:?}: {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_rule_is_told_in_words() {
        let told = |identity: Identity| identity.to_string();
        assert_eq!(
            told(Identity::default()),
            "acts as its caller, and refuses callers without credentials; lets users from 1 through; user and group 0 become 65534 (nobody)"
        );
        let bounded = Identity { root: Root::Refuse, uid_min: Some(1000), uid_max: Some(1999), ..Identity::default() };
        assert!(told(bounded).ends_with("lets users from 1000 to 1999 through; user and group 0 are refused"));
        assert_eq!(told(Identity::node()), "acts as the node, whoever calls");
    }

    #[test]
    fn the_owner_says_who_is_let_through() {
        let default = Identity::default();
        let nobody = Caller::default();
        check(&default, &caller(7, 8, &[9]), Ok(Some((7, 8, &[9]))));
        check(&default, &nobody, Err("CredentialsNeeded"));
        check(&default, &caller(0, 0, &[0, 5]), Ok(Some((NOBODY, NOBODY, &[]))));
        check(&default, &caller(7, 0, &[0, 5]), Ok(Some((7, NOBODY, &[NOBODY, 5]))));
        check(
            &default,
            &Caller { credentials: Some(catena::to_value("root").unwrap()), ..nobody.clone() },
            Err("BadParameters"),
        );
        check(&default, &caller(7, 8, &[1; 65]), Err("65 groups"));
        let refuses = Identity { root: Root::Refuse, uid_min: Some(1000), uid_max: Some(1999), ..Identity::default() };
        check(&refuses, &caller(0, 0, &[]), Err("CredentialsRefused"));
        check(&refuses, &caller(1000, 8, &[0]), Err("CredentialsRefused"));
        check(&refuses, &caller(999, 8, &[]), Err("users 1000 to 1999"));
        check(&refuses, &caller(1999, 8, &[]), Ok(Some((1999, 8, &[]))));
        check(&Identity { root: Root::Allow, ..Identity::default() }, &caller(0, 0, &[]), Ok(Some((0, 0, &[]))));
        check(&Identity::node(), &caller(7, 8, &[]), Ok(None));
        let either = Identity { act_as: Who::CallerOrNode, ..Identity::default() };
        check(&either, &nobody, Ok(None));
        check(&either, &caller(7, 8, &[]), Ok(Some((7, 8, &[]))));
    }
}
