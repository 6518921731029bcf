//! The time-outs that a result consists of.

use crate::simulation::Simulation;
use crate::time::Ps;
use crate::workload::{Occurrence, Start};

/// The share of the completion time from which on a result is one about time-outs.
pub const DOMINANT: f64 = 0.1;

/// Returns the time-outs on the path to the completion of a run: of the message or step that ended
/// last, of what it waited for, and so on.
pub(super) fn on_critical_path(run: &Simulation) -> Ps {
    let (messages, steps) = (&run.workload().messages, &run.workload().steps);
    let acknowledged = (0..messages.len() as u32).map(Occurrence::Acknowledged);
    let done = (0..steps.len() as u32).map(Occurrence::Done);
    let mut last = acknowledged.chain(done).max_by_key(|on| time(run, *on));
    let mut sum = Ps::ZERO;
    while let Some(on) = last {
        let step = match on {
            Occurrence::Posted(message)
            | Occurrence::Delivered(message)
            | Occurrence::Acknowledged(message) => {
                let posted = run.spans()[message as usize].posted;
                sum += run.hosts.timeout_wait(message, posted, time(run, on));
                match messages[message as usize].start {
                    Start::At(_) => break,
                    Start::After(step) => step,
                }
            }
            Occurrence::Started(step) | Occurrence::Done(step) => step,
        };
        last = steps[step as usize].after.iter().copied().max_by_key(|on| time(run, *on));
    }
    sum
}

fn time(run: &Simulation, of: Occurrence) -> Ps {
    let span = |message: u32| run.spans()[message as usize];
    match of {
        Occurrence::Posted(message) => span(message).posted,
        Occurrence::Delivered(message) => span(message).delivered,
        Occurrence::Acknowledged(message) => span(message).acknowledged,
        Occurrence::Started(step) => run.step_span(step).0,
        Occurrence::Done(step) => run.step_span(step).1,
    }
}
