//! The plan of a fabric.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{FabricError, Rate};

/// The way in which leaves choose a spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// By UDP source port (PRO, section V): `0xC000 | id` goes to spine `(id mod 64) mod spines`.
    /// All other packets take the ECMP route.
    Acl,
    /// By a hash of addresses, protocol and ports.
    Ecmp,
}

/// A leaf-spine fabric: every leaf has one link to every spine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Up to 12 lower-case letters and digits, a letter first.
    pub name: String,
    /// 2 to 32.
    pub leaves: usize,
    /// 1 to 64.
    pub spines: usize,
    /// Hosts per leaf.
    pub hosts: usize,
    /// The rate of each link between a leaf and a spine, in each direction. Links of hosts have no
    /// limit.
    pub rate: Rate,
    /// The MTU of every link, in bytes.
    pub mtu: u32,
    /// The way in which leaves choose a spine.
    pub routing: Routing,
    /// The one-way delay from leaf to leaf over each spine, half of it on each of the two links. An
    /// empty list means no delay, and one entry holds for all spines.
    pub delay: Vec<Duration>,
    /// Bytes that a port of a link between leaf and spine queues before it drops.
    pub queue: u64,
}

/// The shortest queue, in bytes: two full batches.
const MIN_QUEUE: u64 = 128 * 1024;
const MAX_QUEUE: u64 = 1 << 30;
const MAX_DELAY: Duration = Duration::from_secs(1);
const MTUS: std::ops::RangeInclusive<u32> = 576..=65_000;
/// The most bytes that the relay may have to hold: the product of rate and delay over all links.
const MAX_IN_RELAY: u128 = 256 << 20;

impl Default for Plan {
    fn default() -> Self {
        let rate = Rate::from_bits(200_000_000);
        Self {
            name: "lab".into(),
            leaves: 2,
            spines: 4,
            hosts: 1,
            rate,
            mtu: 1500,
            routing: Routing::Acl,
            delay: Vec::new(),
            queue: Self::queue_for(rate),
        }
    }
}

impl Plan {
    /// The default queue for a rate, in bytes: 10 ms of the rate, but at least two full batches.
    #[must_use]
    pub fn queue_for(rate: Rate) -> u64 {
        rate.bytes_in_ms(10).max(MIN_QUEUE)
    }

    /// The one-way delay over a spine.
    #[must_use]
    pub fn delay_over(&self, spine: usize) -> Duration {
        match self.delay.as_slice() {
            [all] => *all,
            each => each.get(spine).copied().unwrap_or_default(),
        }
    }

    /// Checks that this can be built. The error names the wrong argument and its possible values.
    pub fn check(&self) -> Result<(), FabricError> {
        check_name(&self.name)?;
        within("--leaves", self.leaves, 2, 32)?;
        within("--spines", self.spines, 1, 64)?;
        within("--hosts", self.hosts, 1, 64)?;
        within("the number of links, leaves x spines,", self.leaves * self.spines, 2, 256)?;
        within("the number of hosts in all", self.leaves * self.hosts, 2, 128)?;
        self.rate.check("--rate")?;
        if !MTUS.contains(&self.mtu) {
            let accepted = format!("{} to {}", MTUS.start(), MTUS.end());
            return Err(FabricError::argument("--mtu", self.mtu, accepted));
        }
        if !(MIN_QUEUE..=MAX_QUEUE).contains(&self.queue) {
            let accepted = format!("{MIN_QUEUE} to {MAX_QUEUE} bytes");
            return Err(FabricError::argument("--queue", self.queue, accepted));
        }
        self.check_delay()
    }

    fn check_delay(&self) -> Result<(), FabricError> {
        if !(self.delay.len() <= 1 || self.delay.len() == self.spines) {
            let value = format!("of {} values", self.delay.len());
            let accepted = format!("one for all spines, or {}, one per spine", self.spines);
            return Err(FabricError::argument("--delay", value, accepted));
        }
        if let Some(long) = self.delay.iter().find(|delay| **delay > MAX_DELAY) {
            let accepted = format!("up to {MAX_DELAY:?}");
            return Err(FabricError::argument("--delay", format!("{long:?}"), accepted));
        }
        // Each link of a spine holds half the delay, in two directions.
        let delay: Duration = (0..self.spines).map(|spine| self.delay_over(spine)).sum();
        let held =
            u128::from(self.rate.bits() / 8) * self.leaves as u128 * delay.as_micros() / 1_000_000;
        if held > MAX_IN_RELAY {
            let value = format!("at {} (the relay would hold {held} bytes)", self.rate);
            let accepted = format!("lower one of them, for at most {MAX_IN_RELAY} bytes");
            return Err(FabricError::argument("--delay", value, accepted));
        }
        Ok(())
    }
}

/// Checks a name, which becomes part of the names of namespaces and of a file.
pub(crate) fn check_name(name: &str) -> Result<(), FabricError> {
    let fine = name.len() <= 12
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if fine {
        return Ok(());
    }
    let accepted = "up to 12 lower-case letters and digits, a letter first";
    Err(FabricError::argument("--name", format!("`{name}`"), accepted))
}

fn within(what: &'static str, value: usize, low: usize, high: usize) -> Result<(), FabricError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(FabricError::argument(what, value, format!("{low} to {high}")))
}

impl FromStr for Routing {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Self, FabricError> {
        match text {
            "acl" => Ok(Self::Acl),
            "ecmp" => Ok(Self::Ecmp),
            _ => Err(FabricError::argument("--routing", text, "acl or ecmp")),
        }
    }
}

/// Reads one delay: `0us`, `500us`, `1.5ms`, `1s`.
pub fn parse_delay(text: &str) -> Result<Duration, FabricError> {
    let bad = || FabricError::argument("delay", text, "a number and us, ms or s: 500us");
    let (number, unit) = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .ok_or_else(bad)?;
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::default();
        change(&mut plan);
        plan.check().expect_err("it is out of range").to_string()
    }

    #[test]
    fn the_default_can_be_built() {
        Plan::default().check().expect("it is what people get");
        assert_eq!(Plan::default().queue, 250_000);
        assert_eq!(Plan::queue_for(Rate::from_bits(50_000_000)), MIN_QUEUE);
    }

    #[test]
    fn what_cannot_be_built_is_named() {
        assert!(refused(|p| p.leaves = 1).contains("--leaves 1"));
        assert!(refused(|p| p.spines = 65).contains("--spines 65"));
        assert!(refused(|p| (p.leaves, p.spines) = (32, 32)).contains("links"));
        assert!(refused(|p| p.hosts = 0).contains("--hosts 0"));
        assert!(refused(|p| p.mtu = 100).contains("--mtu 100"));
        assert!(refused(|p| p.queue = 1000).contains("--queue 1000"));
        assert!(refused(|p| p.rate = Rate::from_bits(1)).contains("--rate 1bit"));
        assert!(refused(|p| p.delay = vec![Duration::ZERO; 3]).contains("3 values"));
        assert!(refused(|p| p.delay = vec![Duration::from_secs(2)]).contains("2s"));
        let heavy = refused(|p| {
            p.rate = Rate::MAX;
            p.delay = vec![Duration::from_secs(1)];
        });
        assert!(heavy.contains("relay would hold"), "{heavy}");
    }

    #[test]
    fn names_that_would_escape_are_refused() {
        for name in ["", "a-b", "../x", "Lab", "1a", "abcdefghijklm", "a b"] {
            assert!(refused(|p| p.name = name.into()).contains("--name"), "{name}");
        }
        check_name("spray7").expect("letters and digits");
    }

    #[test]
    fn delays_are_per_spine_or_for_all() {
        assert_eq!(parse_delay("1.5ms").expect("a delay"), Duration::from_micros(1500));
        for text in ["", "5", "ms", "-1ms", "NaNs", "1m"] {
            assert!(parse_delay(text).is_err(), "{text}");
        }
        let mut plan = Plan { delay: vec![Duration::from_millis(1)], ..Plan::default() };
        assert_eq!(plan.delay_over(3), Duration::from_millis(1));
        plan.delay = (0..4).map(Duration::from_millis).collect();
        assert_eq!(plan.delay_over(3), Duration::from_millis(3));
        plan.delay.clear();
        assert_eq!(plan.delay_over(3), Duration::ZERO);
    }

    #[test]
    fn routing_has_two_names() {
        assert_eq!("ecmp".parse::<Routing>().expect("a name"), Routing::Ecmp);
        assert!("rip".parse::<Routing>().expect_err("no such").to_string().contains("acl or ecmp"));
    }
}
