//! Whose code runs at the node: `runs_guests`, `chaining_proxy` and `hosts_chains_for_others` (rpc-chains section 7.3).

use std::fmt;

use catena::{NodeBuilder, Policy};

use super::{file::File, mistake::Text};
use crate::failure::Failure;

/// Whose code runs at the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Guests {
    /// Code of chains that call a service of this node.
    Own,
    /// Also code of chains that call services of other nodes: this node is their chaining proxy.
    ForOthers,
    /// Nobody's: chains run at the proxy with this address if there is one, else they make their calls from where they are.
    Nobodys { proxy: Option<String> },
}

impl Guests {
    pub(super) fn checked(file: &File, text: &Text) -> Result<Self, Failure> {
        let proxy = file.chaining_proxy.clone();
        let runs = file.runs_guests.as_ref().map_or(proxy.is_none(), |flag| *flag.get_ref());
        let for_others = file.hosts_chains_for_others.as_ref().filter(|flag| *flag.get_ref());
        match (&file.runs_guests, for_others) {
            (Some(at), _) if runs && proxy.is_some() => {
                let message = "a node with a chaining proxy runs no foreign code: its chains run at the proxy";
                Err(text.mistake(at.span(), message, "take out `runs_guests`, or `chaining_proxy`"))
            }
            (_, Some(at)) if !runs => {
                let message = "this node runs no foreign code, so it cannot host chains for others";
                let help = "take out `hosts_chains_for_others`, or `runs_guests` and `chaining_proxy`";
                Err(text.mistake(at.span(), message, help))
            }
            (_, Some(_)) => Ok(Self::ForOthers),
            (_, None) if runs => Ok(Self::Own),
            (_, None) => Ok(Self::Nobodys { proxy }),
        }
    }

    /// Applies this to the node's builder, together with the policy, which holds a part of it.
    pub(crate) fn given_to(self, node: NodeBuilder, mut policy: Policy) -> NodeBuilder {
        policy.runs_guests = !matches!(self, Self::Nobodys { .. });
        let node = node.policy(policy);
        match self {
            Self::Own | Self::Nobodys { proxy: None } => node,
            Self::ForOthers => node.hosts_chains_for_others(),
            Self::Nobodys { proxy: Some(address) } => node.chaining_proxy(address),
        }
    }
}

/// In words, for `catena check`.
impl fmt::Display for Guests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("chains that call its services run their code here"),
            Self::ForOthers => {
                f.write_str("chains that call its services, or those of other nodes, run their code here")
            }
            Self::Nobodys { proxy: None } => f.write_str("no foreign code runs here: chains call from where they are"),
            Self::Nobodys { proxy: Some(address) } => {
                write!(f, "no foreign code runs here: chains run theirs at {address}, ")?;
                f.write_str("or where they are while it cannot be reached")
            }
        }
    }
}
