//! Open MPI over TCP, through a program in the manner of the OSU benchmarks, which Debian does not
//! package.

use std::process::Command;

use super::super::case::{CompareCase, Family};
use super::super::place::Place;
use super::{ComparedPeer, Needs, PeerOutcome, limit};
use crate::failure::Failure;
use crate::mpi::{MpiProgram, Networks};
use crate::peer::metrics;
use crate::program;

const SOURCE: &str = include_str!("openmpi.c");
/// The replacement of ssh that `mpirun` starts its other half with. The host name is a namespace.
const AGENT: &str = "#!/bin/sh\nhost=$1\nshift\nexec ip netns exec \"$host\" \
                     ${PROCESSOR:+taskset -c $PROCESSOR} sh -c \"$*\"\n";

pub(in crate::compare) struct OpenMpi;

impl OpenMpi {
    fn program(place: &Place) -> Result<MpiProgram, Failure> {
        MpiProgram::build(place.folder(), SOURCE, AGENT)
    }

    fn command(place: &Place, case: &CompareCase, seconds: f64) -> Result<Command, Failure> {
        let test = match case.family {
            Family::BothWays => "both-ways",
            family if family.is_latency() => "ping-pong",
            _ => "one-way",
        };
        let mut command = place.command(1, "mpirun");
        // Each half of mpirun would bind its rank to the first processor, which both share here.
        command.args(["--map-by", "node", "--bind-to", "none"]);
        command.envs(place.processor(0).map(|processor| ("PROCESSOR", processor.to_string())));
        let hosts = [place.address(1).to_string(), place.namespace(0).to_owned()];
        let networks = Networks { data: "eth0", control: "eth0" };
        Self::program(place)?.run_by(&mut command, &hosts, &networks);
        command.args([test, &case.size.to_string(), &seconds.to_string()]);
        Ok(command)
    }
}

impl ComparedPeer for OpenMpi {
    fn name(&self) -> String {
        "Open MPI over TCP".to_owned()
    }

    fn fits(&self, case: &CompareCase) -> bool {
        !matches!(
            case.family,
            Family::Paths
                | Family::QueuePairs
                | Family::LatencyBlocking
                | Family::Keyed
                | Family::KeyedLatency
        )
    }

    fn needs(&self) -> Option<Needs> {
        Some(Needs { program: "mpicc", package: "openmpi-bin libopenmpi-dev" })
    }

    fn prepare(&mut self, place: &Place, _: &CompareCase) -> Result<(), Failure> {
        Self::program(place).map(|_| ())
    }

    fn run(
        &mut self,
        place: &Place,
        case: &CompareCase,
        seconds: f64,
    ) -> Result<PeerOutcome, Failure> {
        let mut ranks = program::start("mpirun on h1", Self::command(place, case, seconds)?)?;
        let report = program::report(&mut ranks, limit(seconds))?;
        let figure = |name: &&'static str| Some((*name, *report.get(*name)?));
        let outcome = PeerOutcome::now(metrics::ALL.iter().filter_map(figure).collect(), seconds);
        ranks.wait(limit(0.0))?;
        Ok(outcome)
    }
}
