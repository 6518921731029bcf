//! Open MPI over TCP, by a program in the manner of the OSU benchmarks, which Debian has not packaged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::super::case::{Case, Family};
use super::super::place::Place;
use super::{Needs, Outcome, Peer, limit};
use crate::failure::Failure;
use crate::peer::metrics;
use crate::program::Program;

const SOURCE: &str = include_str!("openmpi.c");
/// What `mpirun` starts its other half with, in the place of ssh: the host that it names is a namespace.
const AGENT: &str = "#!/bin/sh\nhost=$1\nshift\nexec ip netns exec \"$host\" ${PROCESSOR:+taskset -c $PROCESSOR} sh -c \"$*\"\n";

pub(in crate::compare) struct OpenMpi;

impl OpenMpi {
    /// The program and the agent, made where they are not there yet.
    fn files(place: &Place) -> Result<[PathBuf; 2], Failure> {
        let files = [place.file("openmpi"), place.file("agent.sh")];
        let [program, agent] = &files;
        if program.exists() {
            return Ok(files);
        }
        let io = |why| Failure::Io { what: "cannot write the MPI program".to_owned(), why };
        let source = place.file("openmpi.c");
        fs::write(&source, SOURCE).map_err(io)?;
        fs::write(agent, AGENT).map_err(io)?;
        fs::set_permissions(agent, fs::Permissions::from_mode(0o755)).map_err(io)?;
        let mut compile = Command::new("mpicc");
        compile.args(["-O2", "-Wall", "-Werror", "-o"]).arg(program).arg(&source);
        Program::start("MPI compiler", compile)?.finish(limit(0.0))?;
        Ok(files)
    }

    fn command(place: &Place, case: &Case, seconds: f64) -> Result<Command, Failure> {
        let [program, agent] = Self::files(place)?;
        let test = match case.family {
            Family::BothWays => "both-ways",
            family if family.is_latency() => "ping-pong",
            _ => "one-way",
        };
        let mut command = place.command(1, "mpirun");
        // Each half of mpirun would bind its rank to the first processor, which both share here.
        command.args(["--allow-run-as-root", "-np", "2", "--map-by", "node", "--bind-to", "none"]);
        command.arg("--host");
        command.arg(format!("{},{}", place.address(1), place.namespace(0)));
        command.args(["--mca", "plm_rsh_agent"]).arg(agent);
        command.envs(place.processor(0).map(|processor| ("PROCESSOR", processor.to_string())));
        let choices = [
            ("pml", "ob1"),
            ("btl", "tcp,self"),
            ("btl_tcp_if_include", "eth0"),
            ("oob_tcp_if_include", "eth0"),
        ];
        for (name, value) in choices {
            command.args(["--mca", name, value]);
        }
        command.arg(program).args([test, &case.size.to_string(), &seconds.to_string()]);
        Ok(command)
    }
}

impl Peer for OpenMpi {
    fn name(&self) -> String {
        "Open MPI over TCP".to_owned()
    }

    fn fits(&self, case: &Case) -> bool {
        !matches!(case.family, Family::QueuePairs | Family::LatencyBlocking)
    }

    fn needs(&self) -> Option<Needs> {
        Some(Needs { program: "mpicc", package: "openmpi-bin libopenmpi-dev" })
    }

    fn prepare(&mut self, place: &Place, _: &Case) -> Result<(), Failure> {
        Self::files(place).map(|_| ())
    }

    fn run(&mut self, place: &Place, case: &Case, seconds: f64) -> Result<Outcome, Failure> {
        let mut ranks = Program::start("mpirun on h1", Self::command(place, case, seconds)?)?;
        let report = ranks.report(limit(seconds))?;
        let figure = |name: &&'static str| Some((*name, *report.get(*name)?));
        let outcome = Outcome::now(metrics::ALL.iter().filter_map(figure).collect(), seconds);
        ranks.finish(limit(0.0))?;
        Ok(outcome)
    }
}
