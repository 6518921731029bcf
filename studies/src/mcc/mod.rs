//! "Congestion Control for AI Workloads with Message-Level Signaling" (MCC, APNet 2025): figures 2,
//! 3 and 6, and table 1.

mod all_reduce;
mod causes;
mod marks;
mod outcome;
mod premises;
mod runs;
mod scale;
mod setup;
mod shipped;
mod sizes;
mod targets;
#[cfg(test)]
mod tests;
mod trace;

use std::rc::Rc;

use super::{Claim, Effort, Experiment, Study};
use outcome::measure;
use runs::{MccRuns, SEEDS};
use scale::MccScale;
use setup::{MccScheme, MccSetup};
pub(crate) use shipped::shipped;

/// Returns the experiments of the study, which share the runs of a set-up.
pub(crate) fn experiments(effort: &Effort) -> Vec<Experiment<'static>> {
    type Setups = fn(&MccScale) -> Vec<MccSetup>;
    type Add = fn(&MccScale, &MccRuns, &mut Study);
    let scale = MccScale::of(effort);
    let runs = Rc::new(MccRuns::new("mcc", effort.seeds(SEEDS), measure));
    let of = |name, cpu_s, setups: Setups, add: Add| {
        let runs = Rc::clone(&runs);
        Experiment::new(name, cpu_s, move |study| {
            runs.prepare(setups(&scale));
            add(&scale, &runs, study);
        })
    };
    vec![
        of("sizes", 57, sizes::setups, sizes::add),
        of("marks", 15, marks::setups, marks::add),
        of("all-reduce", 22, all_reduce::setups, all_reduce::add),
        of("targets", 12, targets::setups, targets::add),
        of("premises", 25, premises::setups, premises::add),
        of("causes", 130, causes::setups, causes::add),
    ]
}

/// Returns the choices where the paper is silent in general. Alternatives are with the experiments.
pub(crate) fn choices() -> Vec<String> {
    let controllers = MccScheme::COMPARED.map(|scheme| format!("{} `{}`", scheme.name, scheme.cc));
    let mut choices = vec![format!(
        "Controllers: {}. DCQCN and TIMELY have no window; DCQCN's timers are 900 us from a cut \
            to an increase and 4 us between \
         cuts, TIMELY's constants are those of HPCC's simulator, Swift's those of htsim. Swift \
         and MSwift are not in the paper",
        controllers.join(", ")
    )];
    choices.extend(
        [
            "Servers have 100 Gb/s, every link delays by 1 us, a switch has a shared buffer of 32 \
                MB, and stops a link that \
             has 1 MB in it (PFC), under every control",
            "Kmin and Kmax are 400 KB and 1.6 MB at 100 Gb/s, in proportion on l2, Pmax 0.2, \
                compared as a packet leaves",
            "An AllReduce of two ranks is one message each way, at once: its two halves, \
                pipelined. The sizes of figure 2 are \
             those of all four together",
            "Adaptive routing takes the shortest queue in bytes at every packet, as the paper \
                describes it",
            "MCC's targets follow from the measured round trip as in table 1, its steps from the \
                topology: 400 Gb/s of servers over 150 Gb/s of uplinks, rounded up to 3. The \
                averaged delay gives a new message a weight of 1/8",
            "Utilisation counts acknowledgements of the other direction; the bound does, too",
        ]
        .map(str::to_owned),
    );
    choices
}

/// Returns the claims of the paper that these runs cannot test.
pub(crate) fn untested() -> Vec<Claim> {
    let claim = |says: &str, why: &str| Claim::untested("text", says, why);
    vec![
        claim(
            "PFC alone brings head-of-line blocking and deadlock (section 1)",
            "there is no other traffic to block, and no cycle in these routes",
        ),
        claim(
            "an 8:1 oversubscription adds 1/8 of the bandwidth-delay product (section 4)",
            "it is how the controller is built, and its unit tests hold it",
        ),
        claim(
            "incast is mild in collectives, so that bytes in flight stay stable (section 2.3)",
            "the study's pairs have no incast, and a collective library's schedule is not modelled",
        ),
        claim(
            "software that controls messages is as efficient as hardware that controls packets \
                (section 4)",
            "a simulation says nothing of processors",
        ),
    ]
}
