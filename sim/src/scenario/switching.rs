//! Switch policies by name, with their parameters.

use std::fmt;
use std::str::FromStr;

use super::quantity::{Room, Share, Text, by_name};
use crate::switch::Policy;
use crate::time::Ps;

/// A switch policy in text form: `ecmp`, `round-robin:permute=5`,
/// `adaptive:bins=5%/10%/20%,age=0.1us`, `drill:samples=2`.
///
/// Bins are queue lengths, as shares of the buffer or in bytes. They are resolved when the buffer
/// is known.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchPolicy {
    text: String,
    kind: PolicyKind,
}

#[derive(Clone, PartialEq, Debug)]
enum PolicyKind {
    Plain(Policy),
    Adaptive { bins: Vec<Bin>, age: Ps },
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Bin {
    Share(f64),
    Room(Room),
}

/// Default interval of queue and load readings.
const MOMENT: Ps = Ps::from_micros(1);
/// Default size of the PSN ring of Themis: the paper's example (section 4), with 400 Gb/s, 2 us and
/// 1500 bytes.
const RING: u32 = 100;

/// The names of the policies, with a description.
pub const SWITCH_POLICIES: &[(&str, &str)] = &[
    ("ecmp", "a hash of addresses and source port, with a salt per switch"),
    ("source", "the source port says which route"),
    ("pro", "the same; least-loaded where that does not lead on; every=1us"),
    ("least-loaded", "the shortest queue, then the least load, in coarse grades, seen every=1us"),
    ("random", "any port, for every packet"),
    ("round-robin", "the ports in turn; permute=N shuffles their order after N rounds"),
    ("jsq", "the port with the fewest bytes"),
    ("adaptive", "by chance among the emptiest; bins=5%/10%/20%, age=0.1us"),
    ("drill", "the shortest of samples=2 random queues and the best remembered"),
    (
        "ofan",
        "a pointer per destination edge or pod, data and control apart; shortest=off, weights=on",
    ),
    ("conweave", "flows move away from slow paths, and edges put them back in order"),
    (
        "themis",
        "sprays by PSN, holds back NACKs that prove no loss; ring=100 PSNs, \
         look-back=on, compensate=on",
    ),
];

impl SwitchPolicy {
    /// Returns the policy for switches with this buffer per port and frame size.
    pub(super) fn resolve(&self, buffer: u64, frame: u32) -> Policy {
        match &self.kind {
            PolicyKind::Plain(policy) => policy.clone(),
            PolicyKind::Adaptive { bins, age } => {
                let bytes = |bin: &Bin| match *bin {
                    Bin::Share(share) => (share * buffer as f64) as u64,
                    Bin::Room(room) => room.bytes(frame),
                };
                Policy::Adaptive { bins: bins.iter().map(bytes).collect(), age: *age }
            }
        }
    }

    /// Returns whether switches route by paths.
    pub(super) fn is_source(&self) -> bool {
        matches!(self.kind, PolicyKind::Plain(Policy::Source | Policy::SourceOrLeastLoaded { .. }))
    }
}

/// Formats the policy as it was given.
impl fmt::Display for SwitchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for SwitchPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut given = Parameters::new(name, rest)?;
        let kind = match name {
            "ecmp" => PolicyKind::Plain(Policy::Ecmp),
            "source" => PolicyKind::Plain(Policy::Source),
            "random" => PolicyKind::Plain(Policy::Random),
            "jsq" => PolicyKind::Plain(Policy::Shortest),
            "ofan" => PolicyKind::Plain(Policy::Ofan {
                from_shortest: given.take("shortest").map_or(Ok(false), on_or_off)?,
                weighted: given.take("weights").map_or(Ok(true), on_or_off)?,
            }),
            "conweave" => PolicyKind::Plain(Policy::ConWeave),
            "pro" => {
                let every = given.take("every").map_or(Ok(MOMENT), interval)?;
                PolicyKind::Plain(Policy::SourceOrLeastLoaded { every })
            }
            "least-loaded" => {
                let every = given.take("every").map_or(Ok(MOMENT), interval)?;
                PolicyKind::Plain(Policy::LeastLoaded { every })
            }
            "themis" => PolicyKind::Plain(Policy::Themis {
                ring: given.take("ring").map_or(Ok(RING), count)?,
                look_back: given.take("look-back").map_or(Ok(true), on_or_off)?,
                compensate: given.take("compensate").map_or(Ok(true), on_or_off)?,
            }),
            "round-robin" => {
                let permute = given.take("permute").map(count).transpose()?;
                PolicyKind::Plain(Policy::RoundRobin { permute })
            }
            "drill" => {
                let samples = given.take("samples").map_or(Ok(2), count)?;
                PolicyKind::Plain(Policy::Drill { samples })
            }
            "adaptive" => PolicyKind::Adaptive {
                bins: bins(given.take("bins").unwrap_or("5%/10%/20%"))?,
                age: given.take("age").map_or(Ok(Ps(100_000)), Ps::from_text)?,
            },
            _ => {
                let names: Vec<&str> = SWITCH_POLICIES.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                return Err(format!("no switch policy is called `{name}`; known names: {names}"));
            }
        };
        given.none_left()?;
        Ok(SwitchPolicy { text: text.to_owned(), kind })
    }
}

impl Text for SwitchPolicy {
    const WHAT: &'static str = "switch policy";
    const EXAMPLE: &'static str = "ecmp";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

/// The parameters after a name that are not consumed yet.
struct Parameters<'a> {
    name: &'a str,
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn new(name: &'a str, text: &'a str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let pair = |part: &'a str| {
            part.split_once('=').ok_or_else(|| {
                format!("`{part}` is not a parameter of {name}; write it as in drill:samples=2")
            })
        };
        Ok(Parameters { name, given: parts.map(pair).collect::<Result<_, _>>()? })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.given.iter().position(|(known, _)| *known == key)?;
        Some(self.given.remove(at).1)
    }

    fn none_left(&self) -> Result<(), String> {
        match self.given.first() {
            None => Ok(()),
            Some((key, _)) => {
                let known = SWITCH_POLICIES.iter().find(|(name, _)| *name == self.name);
                let about = known.map_or("", |(_, about)| *about);
                Err(format!(
                    "{} has no parameter `{key}`, or has it twice; its description: {about}",
                    self.name
                ))
            }
        }
    }
}

fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    number.ok_or_else(|| format!("`{text}` is not a count; give 1 to 1000000"))
}

fn interval(text: &str) -> Result<Ps, String> {
    match Ps::from_text(text)? {
        Ps::ZERO => Err(format!("`{text}` is not an interval; give at least 1 ps")),
        every => Ok(every),
    }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    by_name("switch", text, &[("on", true), ("off", false)])
}

fn bins(text: &str) -> Result<Vec<Bin>, String> {
    let bin = |text: &str| match text.trim().ends_with('%') {
        true => Share::from_text(text).map(|Share(share)| Bin::Share(share)),
        false => Room::from_text(text).map(Bin::Room),
    };
    text.split('/').map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        text.parse::<SwitchPolicy>().unwrap().resolve(800_000, 4160)
    }

    fn error(text: &str) -> String {
        text.parse::<SwitchPolicy>().unwrap_err()
    }

    #[test]
    fn every_listed_name_is_a_policy() {
        for (name, _) in SWITCH_POLICIES {
            assert_eq!(name.parse::<SwitchPolicy>().unwrap().to_string(), *name);
        }
    }

    #[test]
    fn parameters_are_read() {
        assert_eq!(policy("round-robin"), Policy::RoundRobin { permute: None });
        assert_eq!(policy("round-robin:permute=5"), Policy::RoundRobin { permute: Some(5) });
        let without = Policy::Themis { ring: 100, look_back: false, compensate: true };
        assert_eq!(policy("themis:look-back=off"), without);
        assert_eq!(
            policy("pro:every=2us"),
            Policy::SourceOrLeastLoaded { every: Ps::from_micros(2) }
        );
        let bins = vec![40_000, 80_000, 160_000];
        assert_eq!(policy("adaptive"), Policy::Adaptive { bins, age: Ps(100_000) });
        let bins = vec![41_600, 100_000];
        let given = "adaptive:bins=10 packets/100 KB,age=1us";
        assert_eq!(policy(given), Policy::Adaptive { bins, age: Ps::from_micros(1) });
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        assert!(error("rr").contains("no switch policy is called `rr`; known names: ecmp, source"));
        assert!(error("ecmp:salt=1").contains("ecmp has no parameter `salt`"));
        assert!(error("drill:samples=0").contains("`0` is not a count"));
        assert!(error("pro:every=0us").contains("`0us` is not an interval"));
        assert!(error("themis:look-back=1").contains("known names: on, off"));
        assert!(error("drill:2").contains("`2` is not a parameter"));
        assert!(error("adaptive:age=5").contains("`5` has no unit"));
    }
}
