//! PRO: Deterministic Load Balancing for AI Datacenter Network (Zhang et al.): figures 2 and 8 to
//! 13, table II and theorem 1.

mod ablation;
mod balance;
mod bounded;
mod comparison;
mod link_failures;
mod loss_recovery;
mod marks;
mod mechanism;
mod outcome;
mod reordering;
mod sensitivity;
mod setup;
mod shipped;
mod slowdown;
mod spraying;
mod trace;
mod variants;

use std::rc::Rc;

use super::{Claim, Effort, Experiment, Study};
use comparison::Comparison;
pub(crate) use shipped::shipped;

/// Returns the experiments of the study.
pub(crate) fn experiments(effort: &Effort) -> Vec<Experiment<'static>> {
    let effort = *effort;
    let comparison = Rc::new(Comparison::new(&effort));
    let alone = |name, cpu_s, add: fn(&Effort, &mut Study)| {
        Experiment::new(name, cpu_s, move |study| add(&effort, study))
    };
    let of_ring = |name, cpu_s, add: fn(&Comparison, &mut Study)| {
        let comparison = Rc::clone(&comparison);
        Experiment::new(name, cpu_s, move |study| {
            comparison.prepare_largest_ring();
            add(&comparison, study);
        })
    };
    let runs = Rc::clone(&comparison);
    let slowdown = move |study: &mut Study| {
        runs.prepare_all();
        slowdown::add(&effort, &runs, study);
    };
    vec![
        alone("spraying", 35, spraying::add),
        alone("bounded", 125, bounded::add),
        Experiment::new("slowdown", 215, slowdown),
        alone("sensitivity", 30, sensitivity::add),
        of_ring("marks", 45, marks::add),
        of_ring("balance", 45, balance::add),
        alone("link-failures", 450, link_failures::add),
        alone("ablation", 45, ablation::add),
        of_ring("reordering", 45, reordering::add),
        alone("loss-recovery", 61, loss_recovery::add),
        alone("mechanism", 30, mechanism::add),
        alone("all-to-all", 61, mechanism::all_to_all_of_servers),
        alone("larger-fabrics", 30, mechanism::larger_fabrics),
        alone("more-queue-pairs", 30, mechanism::more_queue_pairs),
    ]
}

/// Returns the claims about the paper's testbed, hardware and production network.
pub(crate) fn untested() -> Vec<Claim> {
    let hardware = "it needs the authors' RNICs, GPUs and switches";
    let claim = |figure, says, why| Claim::untested(figure, says, why);
    vec![
        claim(
            "fig01",
            "packets of training are of a few sizes, 90 % of Memcached's are below 1000 B",
            "traces are not public",
        ),
        claim("fig02", "the queues' 90th percentile", "the text gives no number for it"),
        claim(
            "table I",
            "the NIC needs 2.2 % of the FPGA's ALMs and 3.2 % of its registers",
            hardware,
        ),
        claim(
            "fig07",
            "a MoE iteration is 10.4 % shorter than with ECMP, forward 17.9, backward 7.6 %",
            hardware,
        ),
        claim(
            "fig07",
            "all-to-all's slowdown is 1.3 to 1.48 times better than ECMP's on the testbed",
            hardware,
        ),
        claim(
            "section III-C",
            "an RNIC needs a few bits for a packet out of order instead of 1 KB",
            "hosts here write to memory, and have no RNIC whose buffers could be counted",
        ),
        claim("text", "PRO takes 30 to 48 % off the completion time in the testbed", hardware),
        claim(
            "text",
            "a NIC that sends batches of n packets per queue pair spreads them over M/n paths \
                (section III-A)",
            "the paper's batch takes a path per packet, and a batch of the engine takes one path",
        ),
        claim(
            "text",
            "a path number of 12 bits is enough for 524 thousand GPUs, and for three tiers \
                (section V)",
            "the fabrics here have two tiers and at most 1024 hosts",
        ),
    ]
}

/// Returns the choices where the paper is silent in general. Those of one figure are with that
/// figure.
pub(crate) fn choices() -> Vec<String> {
    let choices = [
        "Packets have 1000 B of payload and 62 B of headers, every packet is acknowledged by 64 \
            B, and \
         acknowledgements go first, as in the simulator that the authors started from \
         (conweave-ns3).",
        "The ideal is the least time of a permutation in which everybody sends and receives as \
            much as the \
         busiest host, with its acknowledgements on the same links. Against a bound that leaves \
         those out, all \
         slowdowns would be 6 % higher.",
        "Every host starts at once, and PRO's counter C at a random path, as the proof of Lemma 4 \
         assumes. In Algorithm 1 C starts at 0, so that the eight hosts of a ToR switch go round \
         its uplinks in step.",
        "The ring is one step: every host sends one message to the next. In the tree every parent \
            sends one \
         message to each child of both trees.",
        "DCQCN has the constants of conweave-ns3 (alpha 1 us, cut 4 us, increase 300 us), no \
            window, and a \
         loss does not cut.",
        "AR: ports are graded by queue, then load, eight grades each, looked at every 1 us; among \
            the best one \
         is taken at random. How the chip grades is not public.",
        "DRILL takes the better of two different random ports and the last best for the \
            destination, by bytes. \
         ConWeave is as in conweave-ns3, with as many reordering queues as it likes.",
        "All schemes place packets out of order and find losses by PRO's window, so that only \
            load balancing \
         differs.",
    ];
    choices.map(String::from).into()
}

#[cfg(test)]
mod tests;
