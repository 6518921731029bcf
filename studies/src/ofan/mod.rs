//! "Load Balancing for AI Training Workloads" (OFAN): figures 1, 3 to 14 and 16 to
//! 19, sections 5 to 8, and appendices B to F.
//!
//! Hosts send at a fixed rate, and an ideal erasure code replaces lost packets, so that only load
//! balancing is measured (section 4). A host scheme is a path policy of the shipped protocol over
//! switches that hash. A switch scheme is a switch policy with passive hosts.

mod collective;
mod congestion;
mod consolidation;
mod dead_core;
mod failures;
mod growth;
mod link_failures;
mod lower_bound;
mod means;
mod overload;
mod packet_size;
mod recovery;
mod scale;
mod scheme;
mod schemes;
mod setup;
mod shipped;
mod sticky;
mod sweep;
#[cfg(test)]
mod tests;
mod tolerance;
mod training;
mod under_failures;

use super::{Claim, Effort, Experiment, Study};
pub(crate) use shipped::shipped;

/// Returns the experiments of the study.
pub(crate) fn experiments(effort: &Effort) -> Vec<Experiment<'static>> {
    let effort = *effort;
    let of = |name, cpu_s, run: fn(&Effort, &mut Study)| {
        Experiment::new(name, cpu_s, move |study| run(&effort, study))
    };
    // Those of 100 s were not measured alone.
    vec![
        of("lower-bound", 100, lower_bound::run),
        of("schemes", 300, schemes::run),
        of("silent-failures", 100, link_failures::without_convergence),
        of("late-routing", 100, link_failures::late_convergence),
        of("known-failures", 100, link_failures::converged),
        of("under-failures", 100, under_failures::run),
        of("growth", 100, growth::run),
        of("sticky", 100, sticky::run),
        of("means", 100, means::run),
        of("overload", 100, overload::run),
        of("larger-networks", 100, consolidation::larger_networks),
        of("consolidation", 100, consolidation::run),
        of("dead-core", 100, dead_core::run),
        of("nodes", 100, scale::nodes),
        of("short-buffers", 100, scale::short_buffers),
        of("message-sizes", 100, scale::messages),
        of("packet-size", 100, packet_size::run),
        of("recovery", 100, recovery::run),
        of("tolerance", 100, tolerance::run),
        of("congestion", 100, congestion::run),
        of("training", 100, training::run),
    ]
}

/// Returns the claims of the paper that this study does not test.
pub(crate) fn untested() -> Vec<Claim> {
    vec![Claim::untested(
        "section 7",
        "OFAN can be built: switch vendors call its number of pointers very reasonable",
        "a simulation says nothing of chips",
    )]
}

/// Returns the choices where the paper is silent in general. Those of one figure are with that
/// figure.
pub(crate) fn choices() -> Vec<String> {
    let choices = [
        "A lost packet is made up for at once: the sender learns of it in the instant of the loss \
            and \
         sends one more. The paper's sender learns of it when acknowledgements stay away, up to a \
         round \
         trip later. So failures cost less here, by up to a round trip (6.25 us) for each loss in \
         the last \
         round trip.",
        "A lost acknowledgement is sent again at once, with another flow label.",
        "REPS and PLB are the shipped policies with their usual constants: REPS explores for 64 \
            packets (the \
         paper's code: BDP/MTU, 150 here), PLB moves a busy flow after 12 congested round trips \
         and an idle \
         one after 3, as Linux does (the paper: at most every alpha packets, alpha unknown).",
        "A host has 4096 flow labels per destination (the paper: 2^16), 256 in all-to-all and \
            1024 on 1024 \
         nodes, to save memory.",
        "HOST DR names the uplinks itself (source routing). Acknowledgements take the path of \
            what they \
         acknowledge, and so rotate as the paper's second pointer does.",
        "SIMPLE RR has a turn for data and one for acknowledgements, as only then uplinks are \
            balanced in bytes \
         (Fig. 7). With one turn for both, acknowledgements shift the turn of data, and the queue \
         grows more \
         slowly: from 32 to 512 packets with the exponent 0.4 instead of 0.8. SWITCH PKT has one \
         turn for both, \
         as in the simulator that it is taken from.",
        "Switches mark as a packet leaves the queue.",
        "Routing that knows of failures (G over) weights next hops by the number of shortest \
            paths behind \
         them, for every scheme, by listing them so often, interleaved.",
    ];
    choices.map(str::to_owned).to_vec()
}
