//! The tests of `braid-perf` that the end-to-end runs use, and their sizes.

/// One test of `braid-perf`, small enough to take about a second.
pub(super) struct Case {
    /// The command.
    pub(super) verb: &'static str,
    /// Bytes of a message, `-s`.
    pub(super) size: u32,
    /// Messages on a clean wire, `-n`.
    pub(super) clean: u32,
    /// Messages where faults are injected: every loss costs a recovery.
    pub(super) faulty: u32,
}

/// Every verb that moves data. The first is the one that is also run over IPv6.
pub(super) const CASES: &[Case] = &[
    Case { verb: "write-bw", size: 65536, clean: 5000, faulty: 1000 },
    Case { verb: "read-bw", size: 65536, clean: 5000, faulty: 1000 },
    Case { verb: "send-bw", size: 65536, clean: 5000, faulty: 1000 },
    Case { verb: "write-lat", size: 8, clean: 2000, faulty: 500 },
    Case { verb: "read-lat", size: 8, clean: 2000, faulty: 500 },
    Case { verb: "send-lat", size: 8, clean: 2000, faulty: 500 },
    Case { verb: "atomic-lat", size: 8, clean: 2000, faulty: 500 },
];

/// Faults below the protocol; the seed makes a failure repeatable.
#[rustfmt::skip]
pub(super) const FAULTS: &[&str] = &[
    "--drop", "0.02", "--reorder", "0.05", "--duplicate", "0.01", "--corrupt", "0.001",
    "--seed", "7",
];

impl Case {
    /// The command's arguments, without those that say where.
    pub(super) fn arguments(&self, faults: &[&str]) -> Vec<String> {
        let messages = if faults.is_empty() { self.clean } else { self.faulty };
        let mut arguments = self.until("-n", messages);
        arguments.extend(faults.iter().map(ToString::to_string));
        arguments
    }

    /// The same for so many seconds, on a clean wire.
    pub(super) fn arguments_for(&self, seconds: u32) -> Vec<String> {
        self.until("-D", seconds)
    }

    fn until(&self, limit: &str, count: u32) -> Vec<String> {
        let mut arguments = vec![self.verb.to_owned()];
        // An atomic is always eight bytes; perftest has no -s there either.
        if !self.verb.starts_with("atomic") {
            arguments.extend(["-s".into(), self.size.to_string()]);
        }
        arguments.extend([limit.into(), count.to_string(), "--verify".into()]);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_change_the_count_and_are_passed_on() {
        let clean = CASES[0].arguments(&[]).join(" ");
        assert_eq!(clean, "write-bw -s 65536 -n 5000 --verify");
        let faulty = CASES[0].arguments(FAULTS).join(" ");
        assert!(faulty.starts_with("write-bw -s 65536 -n 1000 --verify --drop 0.02 "), "{faulty}");
    }

    #[test]
    fn atomics_have_no_size() {
        assert!(!CASES[6].arguments(&[]).contains(&"-s".to_owned()));
    }
}
