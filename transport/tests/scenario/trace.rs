//! The record of a scenario: the last events in full, all of them as one hash and as totals.

use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

use braid_transport::{Completion, QpState};
use braid_wire::{DataHeader, Packet, Time};

/// Events that a failure shows, unless `BRAID_TRACE` asks for more.
const SHOWN: usize = 120;

pub(crate) struct Trace {
    last: VecDeque<Event>,
    hasher: DefaultHasher,
    count: u64,
    shown: usize,
    pub(crate) totals: Totals,
}

/// Counts of events.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Totals {
    pub(crate) posted: u64,
    pub(crate) completed: u64,
    /// Packets that hosts have sent, and how many of them reached nobody.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    /// Packets that have arrived in another form, or that nobody had sent.
    pub(crate) damaged: u64,
    pub(crate) forged: u64,
    /// Segments that have been taken.
    pub(crate) taken: u64,
    /// Runs of several segments that have been taken at once.
    pub(crate) runs: u64,
    /// Those behind the first [`LEARNT`], and those that came again meanwhile.
    pub(crate) later: u64,
    pub(crate) twice: u64,
    pub(crate) key_updates: u64,
    /// From one segment of a message to the next.
    pub(crate) key_updates_within_messages: u64,
}

/// Segments after which streams may know what their paths are like.
const LEARNT: u64 = 1_000;

impl Totals {
    /// A segment is taken.
    pub(crate) fn take(&mut self) {
        self.taken += 1;
        self.later += u64::from(self.taken > LEARNT);
    }

    /// A run of several segments is taken.
    pub(crate) fn take_run(&mut self) {
        self.runs += 1;
    }

    /// A segment comes that was taken before.
    pub(crate) fn repeat(&mut self) {
        self.twice += u64::from(self.taken > LEARNT);
    }

    fn count(&mut self, what: &What) {
        let counted = match what {
            What::PostSend(..) | What::PostRecv(..) => &mut self.posted,
            What::Done(_) => &mut self.completed,
            What::Packet("gets", _) | What::State(..) | What::Note(_) => return,
            What::Packet("gets damaged", _) => &mut self.damaged,
            What::Packet("gets forged", _) => &mut self.forged,
            What::Packet(became, _) => {
                self.repeated += u64::from(*became == "repeated");
                self.lost += u64::from(!["sent", "repeated"].contains(became));
                &mut self.sent
            }
        };
        *counted += 1;
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.posted += other.posted;
        self.completed += other.completed;
        self.sent += other.sent;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.damaged += other.damaged;
        self.forged += other.forged;
        self.taken += other.taken;
        self.runs += other.runs;
        self.later += other.later;
        self.twice += other.twice;
        self.key_updates += other.key_updates;
        self.key_updates_within_messages += other.key_updates_within_messages;
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Totals { posted, completed, sent, lost, repeated, damaged, forged, .. } = self;
        let Totals { taken, runs, key_updates, key_updates_within_messages: within, .. } = self;
        write!(
            f,
            "{posted} work requests posted, {completed} completions, {sent} packets sent, of which {lost} lost, \
             {repeated} repeated, {damaged} damaged; {forged} forged; {taken} segments taken, {runs} runs of several; keys changed {key_updates} times, of which {within} within a message"
        )
    }
}

struct Event {
    at: Time,
    host: usize,
    what: What,
}

/// One event. Packets are kept as bytes and decoded only when somebody reads them.
pub(crate) enum What {
    Packet(&'static str, Vec<u8>),
    PostSend(usize, u64),
    PostRecv(usize, u64),
    Done(Completion),
    State(usize, QpState),
    Note(String),
}

impl Trace {
    pub(crate) fn new() -> Self {
        let asked = std::env::var("BRAID_TRACE").ok().and_then(|text| text.parse().ok());
        let shown = asked.unwrap_or(SHOWN).max(1);
        Trace {
            last: VecDeque::new(),
            hasher: DefaultHasher::new(),
            count: 0,
            shown,
            totals: Totals::default(),
        }
    }

    pub(crate) fn record(&mut self, at: Time, host: usize, what: What) {
        self.count += 1;
        self.totals.count(&what);
        (at, host).hash(&mut self.hasher);
        what.digest().hash(&mut self.hasher);
        if self.last.len() == self.shown {
            self.last.pop_front();
        }
        self.last.push_back(Event { at, host, what });
    }

    pub(crate) fn packet(&mut self, at: Time, host: usize, verb: &'static str, bytes: &[u8]) {
        // The headers are enough to tell packets apart, and payloads are long.
        let kept = bytes[..bytes.len().min(600)].to_vec();
        self.record(at, host, What::Packet(verb, kept));
    }

    /// The same for every run of the same seed, or something is not decided by the seed.
    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn tail(&self) -> String {
        let mut text = String::new();
        for event in &self.last {
            let _ = writeln!(text, "  {:>14?} host {} {}", event.at, event.host, event.what.show());
        }
        text
    }
}

impl What {
    fn digest(&self) -> u64 {
        match self {
            What::Packet(verb, bytes) => {
                u64::from(crc32fast_of(bytes)) << 8 | u64::from(verb.as_bytes()[0])
            }
            What::PostSend(qp, id) | What::PostRecv(qp, id) => (*qp as u64) << 48 ^ id,
            What::Done(done) => done.wr_id << 8 | done.status as u64,
            What::State(qp, state) => (*qp as u64) << 8 | *state as u64,
            What::Note(text) => text.len() as u64,
        }
    }

    fn show(&self) -> String {
        match self {
            What::Packet(verb, bytes) => format!("{verb} {}", show_packet(bytes)),
            What::PostSend(qp, id) => format!("qp {qp}: post send {id:#x}"),
            What::PostRecv(qp, id) => format!("qp {qp}: post recv {id:#x}"),
            What::Done(done) => format!("{done:?}"),
            What::State(qp, state) => format!("qp {qp}: {state:?}"),
            What::Note(text) => text.clone(),
        }
    }
}

fn crc32fast_of(bytes: &[u8]) -> u32 {
    braid_wire::payload_crc([bytes])
}

fn show_packet(bytes: &[u8]) -> String {
    match Packet::decode(bytes) {
        Ok(Packet::Data(header, _)) => show_data(&header),
        Ok(Packet::Ack(ack)) => {
            let ones: Vec<u64> = ack.bitmap.ones().take(24).collect();
            format!(
                "ACK {:?} {:?} cumulative {} highest {} nak {:?} beyond {ones:?}",
                ack.qp, ack.stream, ack.cumulative, ack.highest, ack.nak
            )
        }
        Ok(other) => brief(&other),
        // A long payload was cut off for the trace: only the lengths disagree, so show the fields.
        Err(error) => show_raw(bytes, &brief(&error)),
    }
}

fn show_data(h: &DataHeader) -> String {
    let again = if h.retransmission { " again" } else { "" };
    let ask = if h.ack_request { " ask" } else { "" };
    format!(
        "{:?} {:?} psn {} number {} bytes {}+{} of {}{again}{ask}",
        h.opcode, h.qp, h.psn, h.number, h.offset, h.len, h.message_len
    )
}

fn show_raw(bytes: &[u8], error: &str) -> String {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_be_bytes(b.try_into().unwrap()));
    let field = |at| word(at).unwrap_or(0);
    format!(
        "opcode {:#04x} qp {:#x} psn {} number {} offset {} ({error})",
        bytes.first().copied().unwrap_or(0),
        field(4) & 0xFF_FFFF,
        field(8) & 0xFF_FFFF,
        field(20),
        field(40),
    )
}

fn brief(value: &impl Debug) -> String {
    format!("{value:?}")
}
