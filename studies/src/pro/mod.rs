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

use super::{Claim, Effort, Study};
pub(crate) use shipped::shipped;

/// Runs the study.
pub fn study(effort: &Effort) -> Study {
    let mut study = Study {
        paper: "pro",
        title: "PRO: Deterministic Load Balancing for AI Datacenter Network".into(),
        shipped: Vec::new(),
        figures: Vec::new(),
        claims: Vec::new(),
        choices: choices(),
    };
    spraying::add(effort, &mut study);
    let runs = comparison::Comparison::run(effort);
    bounded::add(effort, &mut study);
    slowdown::add(effort, &runs, &mut study);
    sensitivity::add(effort, &mut study);
    marks::add(&runs, &mut study);
    balance::add(&runs, &mut study);
    link_failures::add(effort, &mut study);
    ablation::add(effort, &mut study);
    reordering::add(&runs, &mut study);
    loss_recovery::add(effort, &mut study);
    mechanism::add(effort, &mut study);
    study.claims.extend(untested());
    study
}

/// Returns the claims about the paper's testbed, hardware and production network.
fn untested() -> [Claim; 9] {
    let hardware = "it needs the authors' RNICs, GPUs and switches";
    let claim = |figure, says, why| Claim::untested(figure, says, why);
    [
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
fn choices() -> Vec<String> {
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
