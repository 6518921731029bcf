//! Destination groups: hosts behind one switch, to which the same paths lead.

use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Groups of peers that share a path set, by the prefixes of their addresses. The default value has
/// no groups: each host then has a path set of its own.
///
/// PRO's path set belongs to a ToR switch (PRO, section III-A). If it leads to one host, senders to
/// several hosts behind that switch rotate independently. Groups suit fabrics in which the number
/// of a path selects the route. A switch that hashes flows hashes the peer's address, too, so a
/// path leads over different routes to the hosts of a group. Policies that compare the round trips
/// of paths, such as `adaptive`, do not distinguish the hosts of a group.
///
/// A file has a line for each group: its name, and the addresses or prefixes of its hosts. A `#`
/// begins a comment. `oversubscription=N` states the oversubscription of the network on the way to
/// the group, which decides the steps of `mcc`. Without it, `mcc` measures.
///
/// ```text
/// # group  hosts
/// tor1     10.0.1.0/24
/// tor2     10.0.2.0/25  10.0.9.17  fd00:2::/64  oversubscription=4
/// ```
///
/// ```
/// use braid::DestinationGroups;
///
/// let error = DestinationGroups::parse("racks", "a 10.0.0.0/16\nb 10.0.7.0/24").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "racks:2: 10.0.7.0/24 overlaps 10.0.0.0/16 of group `a` in line 1; name each host once",
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DestinationGroups {
    groups: Arc<[HostGroup]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct HostGroup {
    name: String,
    /// The line of the file, from 1.
    line: usize,
    prefixes: Vec<Prefix>,
    /// The oversubscription on the way to the group, if the file states it.
    oversubscription: Option<u32>,
}

/// The addresses whose first `len` bits are those of `addr`. The other bits of `addr` are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Prefix {
    addr: IpAddr,
    len: u8,
}

/// The reason why destination groups are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DestinationGroupsError {
    /// The file cannot be read.
    #[error("cannot read the destination groups in {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file has no group.
    #[error(
        "{} has no destination group; write a line for each: a name, and the prefixes of its hosts",
        file.display()
    )]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A line is invalid.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason, and the remedy.
        what: String,
    },
}

impl DestinationGroups {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid. The text names file, line and remedy.
    pub fn read(file: impl AsRef<Path>) -> Result<Self, DestinationGroupsError> {
        let file = file.as_ref();
        let text = std::fs::read_to_string(file)
            .map_err(|source| DestinationGroupsError::Read { file: file.to_owned(), source })?;
        Self::parse(file, &text)
    }

    /// Parses the text of a file. Errors name `file`.
    ///
    /// # Errors
    /// If the text is invalid: a prefix that is none, groups that overlap or name nobody, a name
    /// that occurs twice.
    pub fn parse(file: impl AsRef<Path>, text: &str) -> Result<Self, DestinationGroupsError> {
        let file = file.as_ref();
        let mut groups: Vec<HostGroup> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let words = text.split('#').next().unwrap_or_default();
            let mut words = words.split_whitespace();
            let Some(name) = words.next() else { continue };
            let refused = |what| DestinationGroupsError::Line { file: file.to_owned(), line, what };
            let group = HostGroup {
                name: name.to_owned(),
                line,
                prefixes: Vec::new(),
                oversubscription: None,
            };
            groups.push(group);
            words.try_for_each(|word| add(&mut groups, word)).map_err(refused)?;
            check_last(&groups).map_err(refused)?;
        }
        if groups.is_empty() {
            return Err(DestinationGroupsError::Empty { file: file.to_owned() });
        }
        Ok(DestinationGroups { groups: groups.into() })
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the address that stands for the host's group: the first one of its first prefix.
    /// Hosts without a group stand for themselves.
    pub(crate) fn representative(&self, host: IpAddr) -> IpAddr {
        self.group_of(host).map_or(host, |group| group.prefixes[0].addr)
    }

    /// Returns the oversubscription on the way to a host, if its group states it.
    pub(crate) fn oversubscription(&self, host: IpAddr) -> Option<u32> {
        self.group_of(host)?.oversubscription
    }

    fn group_of(&self, host: IpAddr) -> Option<&HostGroup> {
        let canonical = host.to_canonical();
        let has =
            |group: &&HostGroup| group.prefixes.iter().any(|prefix| prefix.contains(canonical));
        self.groups.iter().find(has)
    }
}

/// The word that states a group's oversubscription, and its limits.
const OVERSUBSCRIPTION: &str = "oversubscription=";
const RATIOS: RangeInclusive<u32> = 1..=1000;

/// Adds a prefix to the last group, or its oversubscription.
fn add(groups: &mut [HostGroup], word: &str) -> Result<(), String> {
    if let Some(text) = word.strip_prefix(OVERSUBSCRIPTION) {
        let ratio = text.parse().ok().filter(|ratio| RATIOS.contains(ratio));
        let (first, last) = (RATIOS.start(), RATIOS.end());
        let invalid = || format!("{word} is no ratio; write a number from {first} to {last}");
        let ratio: u32 = ratio.ok_or_else(invalid)?;
        let HostGroup { name, oversubscription, .. } = last_of(groups);
        return match oversubscription.replace(ratio) {
            None => Ok(()),
            Some(_) => Err(format!("group `{name}` has two ratios; keep one {OVERSUBSCRIPTION}N")),
        };
    }
    let prefix: Prefix = word.parse()?;
    for HostGroup { name, line, prefixes, .. } in &*groups {
        if let Some(other) = prefixes.iter().find(|other| other.overlaps(prefix)) {
            return Err(format!(
                "{word} overlaps {other} of group `{name}` in line {line}; name each host once",
                other = other.text(),
            ));
        }
    }
    last_of(groups).prefixes.push(prefix);
    Ok(())
}

fn last_of(groups: &mut [HostGroup]) -> &mut HostGroup {
    groups.last_mut().expect("the line began a group")
}

/// Checks the name and the number of hosts of the last group.
fn check_last(groups: &[HostGroup]) -> Result<(), String> {
    let (last, before) = groups.split_last().expect("the line began a group");
    let name = &last.name;
    if last.prefixes.is_empty() {
        return Err(format!(
            "group `{name}` names nobody; write the prefixes of its hosts behind its name"
        ));
    }
    match before.iter().find(|group| group.name == *name) {
        Some(HostGroup { line, .. }) => {
            Err(format!("group `{name}` is in line {line}, too; write all its prefixes there"))
        }
        None => Ok(()),
    }
}

impl Prefix {
    /// The network address of the first `len` bits of `addr`.
    fn network(addr: IpAddr, len: u8) -> IpAddr {
        match addr {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4((ip.to_bits() & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6((ip.to_bits() & mask).into())
            }
        }
    }

    fn contains(self, host: IpAddr) -> bool {
        host.is_ipv4() == self.addr.is_ipv4() && Self::network(host, self.len) == self.addr
    }

    fn overlaps(self, other: Prefix) -> bool {
        let (shorter, longer) = if self.len < other.len { (self, other) } else { (other, self) };
        shorter.contains(longer.addr)
    }

    /// Whether no host can have an address of this prefix.
    fn names_nobody(self) -> bool {
        let is_whole = self.len == bits(self.addr);
        self.addr.is_multicast() || (is_whole && self.addr.is_unspecified())
    }

    fn text(self) -> String {
        let mut text = self.addr.to_string();
        if self.len < bits(self.addr) {
            write!(text, "/{}", self.len).expect("a string takes everything");
        }
        text
    }
}

fn bits(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid =
            || format!("{text} is no address and no prefix; write one, such as 10.0.1.0/24");
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| invalid())?;
        let len = match len {
            Some(len) => len.parse().ok().filter(|len| *len <= bits(addr)).ok_or_else(invalid)?,
            None => bits(addr),
        };
        let prefix = Prefix { addr: Self::network(addr, len), len };
        if prefix.addr != addr {
            let network = prefix.text();
            return Err(format!("{text} has bits behind its prefix; write {network}, or {addr}"));
        }
        if prefix.names_nobody() {
            return Err(format!(
                "{text} names nobody, because no host has such an address; remove it"
            ));
        }
        Ok(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        DestinationGroups::parse("g", text).unwrap_err().to_string()
    }

    #[test]
    fn hosts_of_a_group_have_one_representative() {
        let text = "# racks\n\na 10.0.1.0/24 10.0.9.17 # two\nb fd00:2::/64 10.0.2.0/25";
        let groups = DestinationGroups::parse("g", text).unwrap();
        for (host, expected) in [
            ("10.0.1.7", "10.0.1.0"),
            ("10.0.1.255", "10.0.1.0"),
            ("::ffff:10.0.1.8", "10.0.1.0"),
            ("10.0.9.17", "10.0.1.0"),
            ("10.0.9.18", "10.0.9.18"),
            ("10.0.2.127", "fd00:2::"),
            ("fd00:2::77", "fd00:2::"),
            ("10.0.2.128", "10.0.2.128"),
            ("fd00:3::77", "fd00:3::77"),
        ] {
            let [host, expected] = [host, expected].map(|ip| ip.parse::<IpAddr>().unwrap());
            assert_eq!(groups.representative(host), expected, "{host}");
            assert_eq!(DestinationGroups::default().representative(host), host);
        }
        assert!(!groups.is_empty() && DestinationGroups::default().is_empty());
    }

    #[test]
    fn a_group_may_state_its_oversubscription() {
        let text = "a oversubscription=4 10.0.1.0/24\nb 10.0.2.0/24 # none";
        let groups = DestinationGroups::parse("g", text).unwrap();
        let of = |host: &str| groups.oversubscription(host.parse().unwrap());
        assert_eq!(["10.0.1.9", "10.0.2.9", "10.0.3.9"].map(of), [Some(4), None, None]);
        for (text, part) in [
            ("a oversubscription=4", "g:1: group `a` names nobody"),
            (
                "a 10.0.0.1 oversubscription=0",
                "g:1: oversubscription=0 is no ratio; write a number from 1 to 1000",
            ),
            ("a oversubscription=8:1 10.0.0.1", "g:1: oversubscription=8:1 is no ratio"),
            (
                "a 10.0.0.1 oversubscription=4 oversubscription=4",
                "g:1: group `a` has two ratios; keep one oversubscription=N",
            ),
        ] {
            assert!(error(text).starts_with(part), "{}", error(text));
        }
    }

    #[test]
    fn the_prefix_of_length_0_holds_every_host_of_its_version() {
        let groups = DestinationGroups::parse("g", "all 0.0.0.0/0").unwrap();
        let of = |host: &str| groups.representative(host.parse().unwrap()).to_string();
        assert_eq!((of("192.0.2.1"), of("fd00::1")), ("0.0.0.0".into(), "fd00::1".into()));
        assert!(DestinationGroups::parse("g", "all ::/0").is_ok());
    }

    #[test]
    fn groups_that_overlap_are_refused_with_their_lines() {
        let within =
            "g:3: 10.0.1.7 overlaps 10.0.1.0/24 of group `a` in line 1; name each host once";
        assert_eq!(error("a 10.0.1.0/24\n\nb 10.0.2.0/24 10.0.1.7"), within);
        let around =
            "g:2: fd00::/16 overlaps fd00:1::/64 of group `a` in line 1; name each host once";
        assert_eq!(error("a fd00:1::/64\nb fd00::/16"), around);
        let own = "g:1: 10.0.1.1 overlaps 10.0.1.1 of group `a` in line 1; name each host once";
        assert_eq!(error("a 10.0.1.1 10.0.1.1"), own);
        assert!(error("a 0.0.0.0/0\nb 10.0.0.1").contains("g:2: 10.0.0.1 overlaps 0.0.0.0/0"));
    }

    #[test]
    fn groups_that_name_nobody_are_refused_with_their_lines() {
        for (text, part) in [
            ("a 10.0.0.1\nb # later", "g:2: group `b` names nobody; write the prefixes"),
            ("a 224.0.0.0/8", "g:1: 224.0.0.0/8 names nobody"),
            ("a 0.0.0.0", "g:1: 0.0.0.0 names nobody"),
            ("a ff02::1", "g:1: ff02::1 names nobody"),
            ("# none\n", "g has no destination group; write a line for each"),
        ] {
            assert!(error(text).starts_with(part), "{}", error(text));
        }
    }

    #[test]
    fn other_mistakes_are_refused_with_their_lines() {
        for (text, part) in [
            ("a 10.0.0.1\na 10.0.0.2", "g:2: group `a` is in line 1, too; write all"),
            ("a 10.0.0.0/33", "g:1: 10.0.0.0/33 is no address and no prefix"),
            ("a rack7", "g:1: rack7 is no address and no prefix"),
            ("a 10.0.1.7/24", "g:1: 10.0.1.7/24 has bits behind its prefix; write 10.0.1.0/24"),
        ] {
            assert!(error(text).starts_with(part), "{}", error(text));
        }
        let missing = DestinationGroups::read("/nonexistent/groups").unwrap_err().to_string();
        assert!(missing.contains("/nonexistent/groups"), "{missing}");
    }
}
