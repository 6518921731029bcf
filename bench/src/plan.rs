//! The agreement of client and server. It travels as private data of the connections and as
//! messages on a control queue pair, all in JSON: a few hundred bytes, only before and between
//! measurements.

use std::net::IpAddr;
use std::time::Duration;

use braid::LossRecovery;
use braid::congestion::ReactionPointConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cli::{AtomicKind, Test};
use crate::degraded::Degraded;
use crate::failure::Failure;
use crate::report::Figures;
use crate::traffic::{OutOfOrder, Traffic};

/// The whole run, sent with the first connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) test: Test,
    pub(crate) qps: u32,
    pub(crate) verify: bool,
    pub(crate) bidirectional: bool,
    /// Whether both sides of a latency test sleep until there is a completion.
    pub(crate) events: bool,
    pub(crate) atomic: AtomicKind,
    /// Loss recovery of the data queue pairs of both sides.
    #[serde(with = "by_name")]
    pub(crate) loss_recovery: LossRecovery,
    /// Work requests that the queues of a queue pair hold.
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    /// `None`: the data queue pairs speak Braid's protocol.
    pub(crate) roce: Option<RocePlan>,
    /// Slots of memory per queue pair, which its messages use in rotation, and the bytes of each:
    /// the largest message.
    pub(crate) slots: u32,
    pub(crate) slot_len: u64,
}

impl Plan {
    /// Returns the bytes of one queue pair's slots.
    pub(crate) fn qp_bytes(&self) -> u64 {
        u64::from(self.slots) * self.slot_len
    }

    /// Returns the offset of a slot in the memory of one side.
    pub(crate) fn slot_offset(&self, qp: usize, slot: u64) -> u64 {
        qp as u64 * self.qp_bytes() + slot % u64::from(self.slots) * self.slot_len
    }

    /// Returns the time that the other side may take to prepare its memory, at 64 MiB/s. It accepts
    /// when all pages are in place.
    pub(crate) fn time_for_memory(&self) -> Duration {
        Duration::from_secs(self.total_bytes() >> 26)
    }

    /// Returns the memory of one direction, for all queue pairs.
    pub(crate) fn total_bytes(&self) -> u64 {
        u64::from(self.qps) * self.qp_bytes()
    }
}

/// The private data of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Join {
    /// The control queue pair, which comes first, with the client's memory.
    Control(Plan, Regions),
    /// A data queue pair, by its number.
    Data(u32),
}

/// The address, length and key of the exposed memory and of the credit words.
pub(crate) type Regions = ([u64; 3], [u64; 3]);

/// One measurement, in which all messages have the same size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) size: u64,
    pub(crate) extent: Extent,
    /// Messages outstanding per queue pair.
    pub(crate) depth: u32,
}

/// The extent of a measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Extent {
    /// A number of messages per queue pair.
    Messages(u64),
    /// A duration. Each side that transmits uses its own clock.
    Time(Duration),
}

/// The parameters of data queue pairs that speak plain RoCEv2.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RocePlan {
    /// Largest path MTU.
    pub(crate) mtu: u32,
    /// DCQCN of both sides.
    pub(crate) dcqcn: Option<Dcqcn>,
}

/// The rate of a link and the parameters of DCQCN, as text.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Dcqcn(#[serde(with = "by_name")] pub(crate) ReactionPointConfig);

/// One end of a queue pair that speaks plain RoCEv2.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RoceEnd {
    /// The number of the queue pair in the run.
    pub(crate) index: u32,
    pub(crate) gid: IpAddr,
    pub(crate) port: u16,
    pub(crate) qp: u32,
    /// First PSN that the queue pair sends.
    pub(crate) psn: u32,
    /// Largest path MTU in bytes.
    pub(crate) mtu: u32,
}

/// An order of the client on the control queue pair.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Connect the next data queue pair to this end over RoCEv2. Comes before the first phase.
    Connect(RoceEnd),
    /// Prepare this phase, and answer when ready.
    Begin(Phase),
    /// The phase is over, and this number of messages was sent to you over all queue pairs. Report
    /// when they have arrived.
    End { sent: u64 },
    /// As `End`, but the phase ends early: send no more messages either.
    Stop { sent: u64 },
    /// Show these results of the phase.
    Show(Figures),
    /// No more phases.
    Quit,
}

/// An answer of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The end of the queue pair that [`Order::Connect`] has connected.
    Connected(RoceEnd),
    Ready,
    /// The report of the phase from the server's side.
    Report(SideReport),
    /// A signal has asked the server to end: end the phase early and the run with it. Comes at any
    /// time, and is no answer to an order.
    Interrupted,
}

/// The report of one side about a phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SideReport {
    /// Number of messages whose every byte was checked.
    pub(crate) verified: u64,
    /// Number of messages that this side sent, if both directions run.
    pub(crate) sent: u64,
    /// Number of sent messages that count: all, or those completed within the time limit.
    pub(crate) counted: u64,
    /// Time in which those completed, if the phase has a time limit.
    pub(crate) counted_in: Duration,
    /// CPU time of the process during the phase.
    pub(crate) cpu_s: f64,
    /// Counters of its queue pairs during the phase.
    pub(crate) traffic: Traffic,
    /// Reordering of the packets that it received.
    pub(crate) order: OutOfOrder,
    /// Number of paths to the other side in use at the end.
    pub(crate) paths_live: usize,
    /// Degradations of its connections.
    pub(crate) degraded: Vec<Degraded>,
}

/// The outcome of a phase at the client.
pub(crate) struct PhaseOutcome<T> {
    pub(crate) result: T,
    /// The server's report; all zero if it sent none.
    pub(crate) report: SideReport,
    /// The reason why the phase ended early.
    pub(crate) cut: Option<Failure>,
}

/// Serialises a policy as its name.
mod by_name {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        value: &impl Display,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data has a JSON form")
}

pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::Peer(format!(
            "sent what is not braid-perf's ({error}); do both run the same version?"
        ))
    })
}
