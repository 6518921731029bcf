//! Interface names in the format of `NCCL_SOCKET_IFNAME`.

use std::fmt;
use std::str::FromStr;

/// Name prefixes, separated by commas. `=` before the first makes them full names, `^` excludes
/// them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    exclude: bool,
    exact: bool,
    names: Vec<String>,
}

/// The error for an invalid list of names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "accepted: names of interfaces or their beginnings, with commas between them; before the first \
     `=` for whole names, `^` for all but these"
)]
pub(crate) struct MalformedPattern;

impl FromStr for Pattern {
    type Err = MalformedPattern;

    /// Parses as NCCL does: ignores empty entries and a port after a name.
    fn from_str(text: &str) -> Result<Self, MalformedPattern> {
        let (exclude, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (exact, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        let name = |entry: &str| entry.split(':').next().unwrap_or_default().trim().to_owned();
        let names: Vec<String> =
            text.split(',').map(name).filter(|name| !name.is_empty()).collect();
        let is_name = |name: &String| name.chars().all(|c| c.is_ascii_graphic() && c != '/');
        if !names.is_empty() && names.iter().all(is_name) {
            Ok(Pattern { exclude, exact, names })
        } else {
            Err(MalformedPattern)
        }
    }
}

impl Pattern {
    /// Returns whether the pattern selects this interface.
    pub(crate) fn selects(&self, name: &str) -> bool {
        let listed = self.names.iter().any(|listed| {
            if self.exact { name == listed } else { name.starts_with(listed.as_str()) }
        });
        listed != self.exclude
    }

    /// Returns whether the pattern only excludes interfaces.
    pub(crate) fn excludes(&self) -> bool {
        self.exclude
    }

    /// Returns whether the pattern contains the full name of this interface.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|listed| listed == name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |is_there, mark| if is_there { mark } else { "" };
        let (exclude, exact) = (mark(self.exclude, "^"), mark(self.exact, "="));
        write!(f, "{exclude}{exact}{}", self.names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_select_as_those_of_nccl() {
        let prefixes = pattern("eth,ib0");
        assert!(prefixes.selects("eth1") && prefixes.selects("ib0") && !prefixes.selects("lo"));
        let exact = pattern("=eth0");
        assert!(exact.selects("eth0") && !exact.selects("eth01"));
        let others = pattern("^docker,lo");
        assert!(others.selects("eth0") && !others.selects("docker0") && !others.selects("lo"));
        assert!(!pattern("^=eth0").selects("eth0") && pattern("^=eth0").selects("eth01"));
        assert!(others.excludes() && !exact.excludes());
        assert!(prefixes.has_name("ib0") && !prefixes.has_name("eth1"));
    }

    #[test]
    fn empty_entries_and_ports_do_not_count() {
        assert_eq!(pattern("eth0,,eth1,"), pattern("eth0, eth1"));
        assert_eq!(pattern("=eth0:1,ib0:2").to_string(), "=eth0,ib0");
        for nothing in ["", "^", "=", "^=", ",", ":1", "eth 0", "eth/0"] {
            assert_eq!(nothing.parse::<Pattern>(), Err(MalformedPattern), "{nothing}");
        }
    }
}
