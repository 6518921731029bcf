//! Degradations of the connections of either side.

use braid::QueuePair;
use serde::{Deserialize, Serialize};

/// Maximum number of degradations reported to the other side.
const MOST: usize = 16;

/// A degradation of a side's connections.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Degraded {
    pub(crate) side: DegradedSide,
    pub(crate) rail: usize,
    /// [`braid::Degradation::name`].
    pub(crate) name: String,
    pub(crate) why: String,
}

/// The side whose connections are degraded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DegradedSide {
    Client,
    Server,
}

impl DegradedSide {
    fn name(self) -> &'static str {
        match self {
            DegradedSide::Client => "client",
            DegradedSide::Server => "server",
        }
    }
}

/// Returns the degradations of a side. All its connections lead to one peer, and have the same.
pub(crate) fn of(side: DegradedSide, qps: &[QueuePair]) -> Vec<Degraded> {
    let all = qps.first().map(QueuePair::degradations).unwrap_or_default();
    let told = all.iter().take(MOST).map(|one| Degraded {
        side,
        rail: one.rail(),
        name: one.name().to_owned(),
        why: one.to_string(),
    });
    told.collect()
}

/// Adds or replaces degradations, compared without their counts.
pub(crate) fn merge(all: &mut Vec<Degraded>, more: &[Degraded]) {
    for one in more {
        let is_same = |other: &&mut Degraded| {
            (other.side, other.rail, &other.name) == (one.side, one.rail, &one.name)
        };
        match all.iter_mut().find(is_same) {
            Some(known) => known.why.clone_from(&one.why),
            None => all.push(one.clone()),
        }
    }
}

/// Formats a degradation as a line of the summary.
pub(crate) fn line(Degraded { side, name, why, .. }: &Degraded) -> String {
    format!(" degraded at the {}: {name}: {why}\n", side.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_report_of_each_stays() {
        let one = |side, why: &str| Degraded {
            side,
            rail: 0,
            name: "path-mtu".to_owned(),
            why: why.to_owned(),
        };
        let mut all = vec![one(DegradedSide::Client, "1400")];
        merge(&mut all, &[one(DegradedSide::Client, "1300"), one(DegradedSide::Server, "1200")]);
        assert_eq!(all, [one(DegradedSide::Client, "1300"), one(DegradedSide::Server, "1200")]);
        assert_eq!(line(&all[1]), " degraded at the server: path-mtu: 1200\n");
    }
}
