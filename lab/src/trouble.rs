//! Troubles of a spine or of one of its links.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{FabricError, Plan, Rate};

/// A spine, or one of its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Where {
    /// The spine.
    pub spine: usize,
    /// The leaf at the other end of one link, or none for the spine with all its links.
    pub leaf: Option<usize>,
}

/// One kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trouble {
    /// The link is down at both ends.
    Cut,
    /// The link is up and every packet on it vanishes.
    Blackhole,
    /// [`Trouble::Blackhole`] from this second on, in Unix time. The programs that set it up have
    /// ended by then.
    BlackholeFrom(u64),
    /// This percentage of the packets vanishes at random.
    Lossy(f64),
    /// The link has this rate if it is lower than that of the fabric.
    Slow(Rate),
}

/// All troubles of a fabric, at most one per place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Troubles(Vec<(Where, Trouble)>);

/// The condition of one link, from its troubles and those of its spine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// Down at both ends.
    pub cut: bool,
    /// Up, but nothing passes.
    pub blackhole: bool,
    /// Percentage of the packets that the spine loses, from any link.
    pub spine_loss: f64,
    /// Percentage of the packets that this link loses, in each direction.
    pub link_loss: f64,
    /// The rate in each direction.
    pub rate: Rate,
    /// Whether the rate is lower than that of the fabric.
    pub slow: bool,
}

impl Troubles {
    /// Sets the trouble of a place, in place of an earlier one.
    pub(crate) fn set(&mut self, at: Where, what: Trouble) {
        self.0.retain(|(place, _)| *place != at);
        self.0.push((at, what));
    }

    /// Clears the trouble of a place and, for a spine, of its links. Returns false if there was
    /// none.
    pub(crate) fn clear(&mut self, at: Where) -> bool {
        let before = self.0.len();
        self.0.retain(|(place, _)| *place != at && !(at.leaf.is_none() && place.spine == at.spine));
        self.0.len() < before
    }

    pub(crate) fn at(&self, at: Where) -> Option<Trouble> {
        self.0.iter().find(|(place, _)| *place == at).map(|(_, what)| *what)
    }

    pub(crate) fn condition(&self, plan: &Plan, leaf: usize, spine: usize) -> Condition {
        let of_spine = self.at(Where { spine, leaf: None });
        let of_link = self.at(Where { spine, leaf: Some(leaf) });
        let either =
            |what: fn(Trouble) -> bool| [of_spine, of_link].into_iter().flatten().any(what);
        let loss = |trouble| match trouble {
            Some(Trouble::Lossy(percent)) => percent,
            _ => 0.0,
        };
        let slowest = [of_spine, of_link].into_iter().filter_map(|trouble| match trouble {
            Some(Trouble::Slow(rate)) => Some(rate),
            _ => None,
        });
        let rate = slowest.fold(plan.rate, Rate::min);
        Condition {
            cut: either(|trouble| trouble == Trouble::Cut),
            blackhole: either(|trouble| {
                matches!(trouble, Trouble::Blackhole | Trouble::BlackholeFrom(_))
            }),
            spine_loss: loss(of_spine),
            link_loss: loss(of_link),
            rate,
            slow: rate < plan.rate,
        }
    }

    /// Whether packets of this spine must be dropped one by one, not batch by batch.
    pub(crate) fn any_loss(&self, spine: usize) -> bool {
        self.0.iter().any(|(at, what)| at.spine == spine && matches!(what, Trouble::Lossy(_)))
    }

    pub(crate) fn check(&self, plan: &Plan) -> Result<(), FabricError> {
        self.0.iter().try_for_each(|(at, what)| {
            at.check(plan)?;
            what.check()
        })
    }
}

impl Where {
    pub(crate) fn check(self, plan: &Plan) -> Result<(), FabricError> {
        if self.spine >= plan.spines {
            let accepted = format!("0 to {}", plan.spines - 1);
            return Err(FabricError::argument("spine", self.spine, accepted));
        }
        match self.leaf {
            Some(leaf) if leaf >= plan.leaves => {
                let accepted = format!("0 to {}", plan.leaves - 1);
                Err(FabricError::argument("leaf", leaf, accepted))
            }
            _ => Ok(()),
        }
    }
}

impl Trouble {
    pub(crate) fn check(self) -> Result<(), FabricError> {
        match self {
            Self::Lossy(percent) if !(0.01..=100.0).contains(&percent) => {
                Err(FabricError::argument("loss", percent, "0.01 to 100 percent"))
            }
            Self::Slow(rate) => rate.check("rate"),
            _ => Ok(()),
        }
    }
}

impl FromStr for Where {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Self, FabricError> {
        let bad = |_| FabricError::argument("place", text, "SPINE or SPINE:LEAF: 2 or 2:0");
        let (spine, leaf) = match text.split_once(':') {
            Some((spine, leaf)) => (spine, Some(leaf.parse().map_err(bad)?)),
            None => (text, None),
        };
        Ok(Self { spine: spine.parse().map_err(bad)?, leaf })
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.leaf {
            Some(leaf) => write!(f, "{}:{leaf}", self.spine),
            None => write!(f, "{}", self.spine),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loss =
            |percent, where_| (percent > 0.0).then(|| format!("lossy {percent} % ({where_})"));
        let words = [
            self.cut.then(|| "cut".to_owned()),
            self.blackhole.then(|| "blackhole".to_owned()),
            loss(self.spine_loss, "spine"),
            loss(self.link_loss, "link"),
            self.slow.then(|| "slow".to_owned()),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        f.pad(&if words.is_empty() { "ok".to_owned() } else { words.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPINE: Where = Where { spine: 1, leaf: None };
    const LINK: Where = Where { spine: 1, leaf: Some(0) };

    #[test]
    fn places_are_read_and_written() {
        assert_eq!("1".parse::<Where>().expect("a spine"), SPINE);
        assert_eq!("1:0".parse::<Where>().expect("a link"), LINK);
        assert_eq!(LINK.to_string(), "1:0");
        for text in ["", "x", "1:", ":1", "-1", "1:0:2"] {
            assert!(text.parse::<Where>().is_err(), "{text}");
        }
    }

    #[test]
    fn places_outside_the_plan_are_named() {
        let plan = Plan::default();
        let failure = Where { spine: 4, leaf: None }.check(&plan).expect_err("4 spines");
        assert_eq!(failure.to_string(), "spine 4 is not possible: 0 to 3");
        assert!(Where { spine: 0, leaf: Some(2) }.check(&plan).is_err());
    }

    #[test]
    fn losses_that_are_none_are_refused() {
        for percent in [0.0, -1.0, 100.5, f64::NAN, f64::INFINITY] {
            assert!(Trouble::Lossy(percent).check().is_err(), "{percent}");
        }
        Trouble::Lossy(100.0).check().expect("all");
    }

    #[test]
    fn a_spine_and_its_link_can_be_in_trouble_at_once() {
        let plan = Plan::default();
        let mut troubles = Troubles::default();
        troubles.set(SPINE, Trouble::Lossy(2.0));
        troubles.set(LINK, Trouble::Cut);
        troubles.set(LINK, Trouble::Slow(Rate::from_bits(50_000_000)));
        let condition = troubles.condition(&plan, 0, 1);
        assert_eq!(condition.to_string(), "lossy 2 % (spine), slow");
        assert_eq!(condition.rate.to_string(), "50mbit");
        assert_eq!(troubles.condition(&plan, 1, 1).to_string(), "lossy 2 % (spine)");
        assert_eq!(troubles.condition(&plan, 0, 0).to_string(), "ok");
        assert!(troubles.any_loss(1) && !troubles.any_loss(0));

        assert!(troubles.clear(LINK));
        assert!(!troubles.clear(LINK), "it has none of its own any more");
        troubles.set(LINK, Trouble::Blackhole);
        assert!(troubles.clear(SPINE));
        assert_eq!(troubles, Troubles::default(), "a spine is restored with its links");
    }

    #[test]
    fn slow_never_speeds_up() {
        let mut troubles = Troubles::default();
        troubles.set(SPINE, Trouble::Slow(Rate::from_bits(1_000_000_000)));
        let condition = troubles.condition(&Plan::default(), 0, 1);
        assert_eq!((condition.rate.to_string().as_str(), condition.slow), ("200mbit", false));
    }
}
