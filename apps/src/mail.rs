//! Web mail (rpc-chains section 4.2): a mail from its storage, with an advertisement that suits it.

use catena::{Client, Code, Exception, Service, ServiceError};
use serde::{Deserialize, Serialize};

/// The chain's source.
pub const FUNCTION: &str = include_str!("../functions/mail.ts");

/// Bytes of the body of each mail in the demonstration's mailbox.
const BODY_BYTES: usize = 8_000;
/// Mails per user.
const MAILS: u32 = 100;

/// Which mail.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Open {
    /// Whose.
    pub user: String,
    /// Which, from 0.
    pub id: u32,
}

/// A mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub body: String,
    /// Bytes of its text.
    pub size: usize,
    /// The advertisement, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ad: Option<Ad>,
}

/// An advertisement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ad {
    /// What it is for.
    pub about: String,
    /// What it says.
    pub text: String,
}

/// What the ads are picked by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pick {
    /// The text that the ad should suit.
    pub text: String,
}

/// Topics, each with the words of its mails.
const TOPICS: [(&str, &str); 4] = [
    ("sailing", "the wind was fair and the harbour quiet when we hoisted the sails "),
    ("coffee", "the beans had been roasted on Monday and the kitchen smelled of it "),
    ("cycling", "the road climbed for an hour and then the valley opened below us "),
    ("gardens", "the tomatoes came late this year but the roses would not stop "),
];

/// Where the mails are.
#[must_use]
pub fn storage_service(name: &str) -> Service {
    Service::new(name).function("get", async |open: Open| {
        if open.id >= MAILS {
            return Err(ServiceError::named("NoSuchMail", format!("{} has mails 0 to {}", open.user, MAILS - 1)));
        }
        let (topic, words) = TOPICS[open.id as usize % TOPICS.len()];
        let body: String = words.chars().cycle().take(BODY_BYTES).collect();
        Ok(Mail { subject: format!("{topic}, no. {}", open.id), size: body.len(), body, ad: None })
    })
}

/// Where the ads are.
#[must_use]
pub fn ads_service(name: &str) -> Service {
    Service::new(name).function("pick", async |pick: Pick| {
        let hits = |(_, words): &&(&str, &str)| pick.text.matches(words.trim()).count();
        let best = TOPICS.iter().max_by_key(hits).unwrap_or(&TOPICS[0]);
        Ok(Ad { about: best.0.to_owned(), text: format!("Everything for {}: today only.", best.0) })
    })
}

/// Loads the chain.
///
/// # Errors
/// Whatever the sandbox says.
pub async fn code(client: &Client) -> Result<Code, Exception> {
    crate::shipped(client, "mail.ts", FUNCTION).await
}

/// The same by plain calls: to the storage and back, to the ads and back. `fetched` is told when the mail has come.
///
/// # Errors
/// Whatever went wrong, by name.
pub async fn open_by_rpc(client: &Client, open: &Open, fetched: impl FnOnce()) -> Result<Mail, Exception> {
    let mail: Mail = client.call("mail.storage", "get", open).await?;
    fetched();
    let ad: Ad = client.call("ads", "pick", &Pick { text: mail.body.clone() }).await?;
    Ok(Mail { ad: Some(ad), ..mail })
}
