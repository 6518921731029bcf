//! Programs of Open MPI over TCP, whose hosts are network namespaces.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use crate::failure::Failure;
use crate::program;

/// Time limit of the compilation.
const COMPILE_LIMIT: Duration = Duration::from_secs(60);

/// A compiled program, with the replacement of its remote shell.
pub(crate) struct MpiProgram {
    program: PathBuf,
    agent: PathBuf,
}

/// The networks of the hosts in Open MPI's format: interfaces, or addresses with their prefix.
pub(crate) struct Networks<'a> {
    /// The network for messages.
    pub(crate) data: &'a str,
    /// The network for the daemons.
    pub(crate) control: &'a str,
}

impl MpiProgram {
    /// Compiles C source in a folder, unless the program is there already. `agent` is the shell
    /// script with which `mpirun` starts its other parts instead of ssh; it gets a host and a
    /// command.
    pub(crate) fn build(folder: &Path, source: &str, agent: &str) -> Result<Self, Failure> {
        let [c, program, agent_file] = ["mpi.c", "mpi", "agent"].map(|name| folder.join(name));
        if program.exists() {
            return Ok(MpiProgram { program, agent: agent_file });
        }
        write(&c, source)?;
        write(&agent_file, agent)?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&agent_file, executable)
            .map_err(|why| cannot_write(&agent_file, why))?;
        let mut compiler = Command::new("mpicc");
        compiler.args(["-O2", "-Wall", "-Werror", "-o"]).arg(&program).arg(&c);
        let name = "mpicc (`apt-get install openmpi-bin libopenmpi-dev` brings it)";
        program::start(name, compiler)?.wait(COMPILE_LIMIT)?;
        Ok(MpiProgram { program, agent: agent_file })
    }

    /// Turns `mpirun`, a command on one of the hosts, into one that runs the program with one rank
    /// on each of `hosts`. The caller adds the arguments of the program.
    pub(crate) fn run_by(&self, mpirun: &mut Command, hosts: &[String], networks: &Networks<'_>) {
        mpirun.args(["--allow-run-as-root", "-np", &hosts.len().to_string()]);
        mpirun.args(["--host", &hosts.join(",")]);
        let choices = [
            ("plm_rsh_agent", &*self.agent.to_string_lossy()),
            ("pml", "ob1"),
            ("btl", "tcp,self"),
            ("btl_tcp_if_include", networks.data),
            ("oob_tcp_if_include", networks.control),
        ];
        for (name, value) in choices {
            mpirun.args(["--mca", name, value]);
        }
        mpirun.arg(&self.program);
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|why| cannot_write(path, why))
}

fn cannot_write(path: &Path, why: io::Error) -> Failure {
    Failure::Io { what: format!("cannot write {}", path.display()), why }
}
