//! The experiments of a study, each of which can be run alone.

use serde::Serialize;

use crate::study::Study;

/// An experiment of a study: a figure or a group of claims.
#[derive(Serialize)]
pub struct Experiment<'a> {
    /// The name on the command line.
    pub name: &'static str,
    /// Processor time of the experiment alone, as it is on the page, in seconds.
    pub cpu_s: u32,
    #[serde(skip)]
    run: Box<dyn FnOnce(&mut Study) + 'a>,
}

impl<'a> Experiment<'a> {
    /// Returns an experiment that adds its results to a study.
    pub(crate) fn new(
        name: &'static str,
        cpu_s: u32,
        run: impl FnOnce(&mut Study) + 'a,
    ) -> Experiment<'a> {
        Experiment { name, cpu_s, run: Box::new(run) }
    }

    /// Runs it, and adds its results.
    pub(crate) fn run(self, study: &mut Study) {
        (self.run)(study);
    }
}
