//! Prefetching for the events that come due soon.
//!
//! The queue of events knows the frames on links long before they come due. Their ports, and the
//! ends that they are for, are requested in steps: each step reads what the step before has
//! requested, and requests what that leads to. No result of a run depends on this.

use crate::events::{Due, Events};
use crate::fabric::{Ahead, Fabric};
use crate::host::Hosts;
use crate::packet::EndId;

/// Frames of the same kind between an event and the steps for a later one, from the first step to
/// the last.
const STEPS: [u64; 3] = [36, 28, 20];

/// The same for the path of a departure or an acknowledgement. The steps have requested its path
/// set.
const PATH: u64 = 10;

/// Frames of the same kind between an event and the packet that is requested for a later one. If
/// ports and ends do not stay in the second cache, this is for control frames only.
const NEAR: u64 = 6;

/// The state of looking ahead.
#[derive(Debug)]
pub(crate) struct LookAhead {
    /// Whether the run is so large that ports and ends are worth the cost of looking ahead. The
    /// packets always are.
    is_on: bool,
    /// The ends that are needed soon, in a ring.
    ends: [EndId; 8],
    next: usize,
}

/// Bytes of ports and ends from which on it is worth its cost: more than the second cache holds.
const LARGE: usize = 4 << 20;

/// Bytes of an end, about.
const END: usize = 4 << 10;

impl LookAhead {
    pub(crate) fn new(fabric: &Fabric, hosts: &Hosts) -> LookAhead {
        let bytes = size_of_val(&fabric.ports[..]) + END * hosts.ends.len();
        LookAhead { is_on: bytes >= LARGE, ends: [EndId(0); 8], next: 0 }
    }

    /// Requests what the frames behind one that is due will need.
    #[inline(always)]
    pub(crate) fn look(&mut self, due: Due, events: &Events, fabric: &Fabric, hosts: &Hosts) {
        if !self.is_on {
            return look_for_packets(due, events, fabric);
        }
        let [first, second, third] = STEPS;
        let soon = match due {
            Due::Sent(frame) => {
                if let Some(frame) = events.sent_after(frame, first) {
                    fabric.expect_port(frame);
                }
                if let Some(frame) = events.sent_after(frame, second)
                    && let Some(nic) = fabric.expect_start(frame)
                {
                    hosts.expect_interface(nic);
                }
                // Control frames are sent so fast that few are on their links at any time.
                if let Some(frame) = events.sent_after(frame, NEAR)
                    && !frame.is_data()
                {
                    fabric.expect_packet(frame);
                }
                if let Some(frame) = events.sent_after(frame, PATH)
                    && let Some(nic) = fabric.sender(frame)
                {
                    hosts.expect_departure(nic);
                }
                let frame = events.sent_after(frame, third);
                frame.and_then(|frame| hosts.next_of(fabric.sender(frame)?))
            }
            Due::Arrived(frame) => {
                if let Some(frame) = events.arrived_after(frame, first) {
                    fabric.expect_link(frame);
                }
                let soon = events.arrived_after(frame, second).and_then(|frame| {
                    match fabric.expect_arrival(frame) {
                        Ahead::Switch => None,
                        Ahead::Nic => {
                            hosts.expect_interface(frame.dst);
                            Some(EndId(frame.end))
                        }
                    }
                });
                if let Some(frame) = events.arrived_after(frame, third)
                    && fabric.expect_join(frame) == Ahead::Nic
                {
                    hosts.expect_account(frame, fabric);
                }
                if let Some(frame) = events.arrived_after(frame, PATH)
                    && !frame.is_data()
                    && fabric.reaches_nic(frame)
                {
                    hosts.expect_path(frame);
                }
                soon
            }
            Due::Other => None,
        };
        if let Some(end) = soon {
            self.expect(end, hosts);
        }
    }

    /// Does the first step for an end, and the next ones for those before it.
    #[inline(never)]
    fn expect(&mut self, end: EndId, hosts: &Hosts) {
        self.ends[self.next % self.ends.len()] = end;
        let before = |steps| self.ends[self.next.wrapping_sub(steps) % self.ends.len()];
        hosts.expect(end, 0);
        hosts.expect(before(1), 1);
        hosts.expect(before(2), 2);
        hosts.expect(before(3), 3);
        hosts.expect(before(4), 4);
        self.next = self.next.wrapping_add(1);
    }
}

/// Requests the packet that a port will send soon, and the body that an interface will receive.
#[inline(always)]
fn look_for_packets(due: Due, events: &Events, fabric: &Fabric) {
    match due {
        Due::Sent(frame) => {
            if let Some(frame) = events.sent_after(frame, NEAR) {
                fabric.expect_packet(frame);
            }
        }
        Due::Arrived(frame) => {
            if let Some(frame) = events.arrived_after(frame, NEAR) {
                fabric.expect_body(frame);
            }
        }
        Due::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use crate::simulation::{MessageSpan, Simulation};

    fn spans(scenario: &Scenario, looks_ahead: bool) -> Vec<MessageSpan> {
        let mut run = Simulation::new(scenario.plan(1).unwrap());
        run.look_ahead.is_on = looks_ahead;
        run.run().unwrap();
        run.spans().to_vec()
    }

    /// Cut cables, hosts with several queue pairs, and messages that end at different times.
    #[test]
    fn no_result_depends_on_it() {
        let text = r#"
            topology.fat_tree = { k = 4, rate = "100 Gb/s", delay = "0.5 us" }
            network.switch = "source"
            hosts = { lb = "oblivious", recovery = "sack", min_rto = "100 us" }
            [[workload]]
            all_to_all = { bytes = "64 KiB" }
            [[failure]]
            cable = ["edge 0", "agg 0"]
            at = "5 us"
            convergence = "50 us"
        "#;
        let scenario = Scenario::parse("test", text, &|_| unreachable!("it names no file"));
        let scenario = scenario.unwrap();
        assert_eq!(spans(&scenario, true), spans(&scenario, false));
    }
}
