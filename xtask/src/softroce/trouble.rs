//! Faults that netem adds to link 0, in both directions.

use std::time::Duration;

use super::pair::Machines;
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    Clean,
    /// netem that does nothing, which takes its time as well.
    Idle,
    Loss,
    Reorder,
    Delay,
}

/// The faults that the checks run under.
pub(super) const ALL: [Trouble; 4] =
    [Trouble::Clean, Trouble::Loss, Trouble::Reorder, Trouble::Delay];

impl Trouble {
    pub(super) fn name(self) -> &'static str {
        match self {
            Trouble::Clean => "clean",
            Trouble::Idle => "idle netem",
            Trouble::Loss => "loss 1 %",
            Trouble::Reorder => "reorder",
            Trouble::Delay => "delay",
        }
    }

    fn netem(self) -> Option<&'static str> {
        match self {
            Trouble::Clean => None,
            Trouble::Idle => Some("loss 0%"),
            Trouble::Loss => Some("loss 1%"),
            // One packet of ten overtakes those that wait.
            Trouble::Reorder => Some("delay 1ms reorder 10%"),
            Trouble::Delay => Some("delay 3ms"),
        }
    }

    /// Takes the place of whatever was there.
    pub(super) fn set(self, pair: &Machines) -> Result<(), Failure> {
        let mut command = "tc qdisc del dev eth0 root 2>/dev/null".to_owned();
        if let Some(netem) = self.netem() {
            // netem takes a GSO batch for one packet. A token bucket that holds one packet and no
            // batch cuts it into its packets, each of which netem judges then; its rate is far
            // above the link's.
            command.push_str(
                "; tc qdisc add dev eth0 root handle 1: tbf rate 10gbit burst 10000 limit 16m",
            );
            command.push_str(" && tc qdisc add dev eth0 parent 1: handle 2: netem limit 100000 ");
            command.push_str(netem);
        } else {
            command.push_str("; true");
        }
        for machine in [&pair.a, &pair.b] {
            machine.must(&command, LIMIT)?;
        }
        Ok(())
    }
}
