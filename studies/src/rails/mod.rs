//! "RailS: Load Balancing for All-to-All Communication in Distributed Mixture-of-Experts Training":
//! figures 7 to 13, and theorems 1 to 4.

mod bandwidth;
mod causes;
mod completion;
mod experts;
mod load;
mod motivation;
mod outcome;
mod results;
mod rounds;
mod scale;
mod scheme;
mod setup;
mod shipped;
mod skew;
#[cfg(test)]
mod tests;
mod theorems;

use std::rc::Rc;

use super::{Claim, Effort, Experiment, Study};
use results::Results;
use scale::RailsScale;
use setup::RailsSetup;
pub(crate) use shipped::shipped;

/// Returns the set-ups of all experiments.
fn all_setups(scale: &RailsScale) -> Vec<RailsSetup> {
    let setups = [
        bandwidth::setups(scale),
        skew::setups_of_senders(scale),
        skew::setups_of_receivers(scale),
        experts::setups_of_dense(scale),
        experts::setups_of_sparse(scale),
        theorems::setups(scale),
        theorems::setups_of_symmetry(scale),
        motivation::setups(scale),
        causes::setups(scale),
    ];
    setups.concat()
}

/// Returns the experiments of the study, which share the runs of a set-up.
pub(crate) fn experiments(effort: &Effort) -> Vec<Experiment<'static>> {
    type Setups = fn(&RailsScale) -> Vec<RailsSetup>;
    type Add = fn(&Results, &mut Study);
    let scale = RailsScale::of(effort);
    let results = Rc::new(Results::new(scale, effort));
    let of = |name, cpu_s, setups: Setups, add: Add| {
        let results = Rc::clone(&results);
        Experiment::new(name, cpu_s, move |study| {
            results.runs.prepare(setups(&scale));
            add(&results, study);
        })
    };
    vec![
        of("bandwidth", 20, bandwidth::setups, bandwidth::add),
        of("completion", 20, bandwidth::setups, completion::add),
        of("skewed-senders", 8, skew::setups_of_senders, skew::add_senders),
        of("skewed-receivers", 6, skew::setups_of_receivers, skew::add_receivers),
        of("experts-dense", 15, experts::setups_of_dense, experts::add_dense),
        of("experts-sparse", 40, experts::setups_of_sparse, experts::add_sparse),
        of("capacity", 2, theorems::setups, theorems::capacity),
        // This experiment judges the runs of all others.
        of("least-time", 140, all_setups, theorems::least_time),
        of("symmetry", 13, theorems::setups_of_symmetry, theorems::symmetry),
        of("approximation", 2, |_| Vec::new(), theorems::approximation),
        of("disparity", 4, motivation::setups_of_disparity, motivation::add_disparity),
        of("buffers", 3, motivation::setups_of_buffers, motivation::add_buffers),
        of("many-domains", 20, motivation::setups_of_domains, motivation::add_domains),
        of("causes", 80, causes::setups, causes::add),
    ]
}

/// Returns the claims of the paper that these runs cannot test.
pub(crate) fn untested() -> Vec<Claim> {
    vec![
        Claim::untested(
            "fig02",
            "all-to-all is 40 to 60 % of an iteration",
            "a simulation of the network says nothing of computation",
        ),
        Claim::untested(
            "section IV-F",
            "LPT costs O(F log F + F N)",
            "no network is needed for it: a unit test of `LptRound` counts the steps",
        ),
        Claim::untested(
            "section II-B",
            "disabling congestion control or a fabric of two planes risks deadlocks or is costly",
            "routes here have no cycle, and a simulation says nothing of costs",
        ),
    ]
}

/// Returns the choices where the paper is silent in general. Alternatives are with the experiments.
pub(crate) fn choices() -> Vec<String> {
    let RailsScale { mean, domains } = RailsScale::of(&Effort::FULL);
    let mut choices = vec![format!(
        "{domains} domains of 8 GPUs and 8 interfaces of 400 Gb/s, one leaf for each rail, \
            {domains} spines with a link of 400 Gb/s to \
         each leaf, 1 us per link (the paper has up to 128 domains, at least 8 leaves and several \
         spines, and no rates). A GPU sends {} \
         MB on average: an expert's 100 to 256 MB of the paper would be 12 to 32. Packets have \
         4096 B of payload and 62 B of headers, \
         and each is acknowledged by 64 B",
        mean as f64 / 1e6
    )];
    choices.extend(
        [
            "Data paths: ECMP and PLB leave by the source GPU's own interface and end at the \
                destination GPU's; MinRTT takes any of the \
             sending domain's, chunk by chunk of 64 KiB, by round-trip time; REPS takes all of \
             them in turn and recycles paths on each; \
             both end at the destination GPU's; RailS goes from rail i to rail i, chunks of 32 \
             KiB. It is the only reading in which REPS \
             does as well as RailS with skewed senders and half as well with skewed receivers; \
             figure causes-path has others, and RailS \
             as it ships, which does not know its chunks ahead (`--rail-policy lpt`)",
            "A GPU's flow has a queue pair of its own on each rail that it takes, and interfaces \
                serve theirs in turn; each subflow has a \
             window of 400 KB, a bandwidth-delay product",
            "NVLink is without limit; figure causes-nvlink has limits. At R1 = 8 R2 it never is \
                one: seven interfaces at R2 are less",
            "Switches have room for everything, nothing is lost and links are not stopped; \
                packets are marked from 400 KB of queue on, for \
             PLB and REPS; paths are the uplinks, chosen by the sender",
            "An interface takes no further chunks while 256 KiB wait for it; figure causes-queue \
                has other limits",
            "Zipf has exponent 1.2, and the GPU of rank i is number i: the first domain has the \
                first eight",
            "Sparsity is the share of receivers that get nothing; 5, 3, 2 or 0 of the 8 GPUs of \
                each domain stand for 0.6, 0.4, 0.2 and \
             0. A GPU has 256 tokens, each of which goes to two random receivers",
            "The traces of Mixtral are not public. In their place each domain has an expert, and \
                each domain likes the others by Zipf with \
             exponents 0.9 (start), 0.3 (early), 0.6 (mid) and 0.75 (stable), in an order of its \
             own (`moe-dense` of `braid-perf \
             alltoall`); all phases have the same volume here. Sparse mode: the first GPU of a \
             domain has all its data, and gets all \
             that is for it",
            "Bus bandwidth is (bytes / T) (M - 1) / M for each GPU, T until the last flow is \
                delivered. T* has the headers in it. An \
             iteration is as long as in the paper's figure 2: 40 to 60 % of it is ECMP's \
             all-to-all, and the rest stays",
            "The mean square error is that of the domain that carries most, over the square of \
                its highest load, which makes one busy \
             interface of eight 0.109, and over the square of the mean, which makes it 7. An \
             error is the paper's if it is so in either",
            "A ratio comes out if it is within a tenth of the paper's, a share of time if it is \
                within five hundredths",
        ]
        .map(str::to_owned),
    );
    choices
}
