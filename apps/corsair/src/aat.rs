//! Asking for a community's numbers both ways, and when each of them arrives: the average arrival time (AAT) is the paper's measure (section 5).

use std::time::{Duration, Instant};

use catena::{Client, Exception};

use crate::{
    database::Phone,
    service::{Ask, Gathered, Missing, name},
};

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Standard parallel calls: the baseline.
    Standard,
    /// Replies as they come.
    Replies,
}

/// What came of a request.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Each number with when it arrived, since the request.
    pub phones: Vec<(Duration, Phone)>,
    /// What is missing, and why.
    pub missing: Vec<Missing>,
    /// When it was known that nothing more would come.
    pub took: Duration,
}

impl Asked {
    /// The average arrival time in milliseconds; none if nothing came.
    #[must_use]
    pub fn aat_ms(&self) -> Option<f64> {
        let sum: f64 = self.phones.iter().map(|(at, _)| at.as_secs_f64() * 1e3).sum();
        (!self.phones.is_empty()).then(|| sum / self.phones.len() as f64)
    }
}

/// Asks a site for a community's numbers; `came` is called with each one as it arrives.
///
/// # Errors
/// Nothing came. What is missing beside what has come is no error.
pub async fn ask(
    client: &Client,
    site: usize,
    community: u32,
    way: Way,
    mut came: impl FnMut(Duration, &Phone),
) -> Result<Asked, Exception> {
    let (began, ask, mut asked) = (Instant::now(), Ask { community }, Asked::default());
    let mut take = |asked: &mut Asked, phone: Phone| {
        let at = began.elapsed();
        came(at, &phone);
        asked.phones.push((at, phone));
    };
    match way {
        Way::Standard => {
            let gathered: Gathered = client.call(&name(site), "gather", &ask).await?;
            gathered.phones.into_iter().for_each(|phone| take(&mut asked, phone));
            asked.missing = gathered.missing;
        }
        Way::Replies => {
            let mut replies = client.replies(&format!("{}/phones", name(site)), &ask).await?;
            let mut ended = None;
            while let Some(reply) = replies.next().await {
                match reply {
                    Ok(phone) => take(&mut asked, phone.decode()?),
                    Err(why) => ended = Some(why),
                }
            }
            // One exception stands for everything that is missing; the reply set has one for each missing branch.
            asked.missing = replies.missing().iter().map(|missing| missing.why.clone().into()).collect();
            match ended {
                Some(why) if asked.phones.is_empty() => return Err(why),
                Some(why) if asked.missing.is_empty() => asked.missing.push(why.into()),
                _ => {}
            }
        }
    }
    asked.took = began.elapsed();
    Ok(asked)
}
