//! The time-outs that a result consists of.

use crate::simulation::Simulation;
use crate::time::Ps;
use crate::workload::Start;

/// The share of the completion time from which on a result is one about time-outs.
pub const DOMINANT: f64 = 0.1;

/// Returns the time-outs on the path to the completion of a run: of the message that ended last, of
/// the message that it waited for, and so on.
pub(super) fn on_critical_path(run: &Simulation) -> Ps {
    let spans = run.spans();
    let last = (0..spans.len()).max_by_key(|message| spans[*message].acknowledged);
    let Some(mut message) = last else { return Ps::ZERO };
    let mut until = spans[message].acknowledged;
    let mut sum = Ps::ZERO;
    loop {
        sum += run.hosts.timeout_wait(message as u32, spans[message].posted, until);
        let Start::After { messages, .. } = &run.workload().messages[message].start else {
            return sum;
        };
        let before = messages.iter().map(|before| *before as usize);
        match before.max_by_key(|before| spans[*before].delivered) {
            Some(before) => message = before,
            None => return sum,
        }
        until = spans[message].delivered;
    }
}
