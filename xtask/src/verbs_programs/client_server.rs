//! UCX's example of a client and a server. The server listens by rdma_cm, and over TCP at the port
//! of the same number, as every UCX server does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::print_row;
use super::table::{LOSS, RC_UCX};
use crate::process::{Program, log_to};
use crate::{Failure, process};

/// The source, as Debian's libucx-dev has it.
const SOURCE: &str = "/usr/share/doc/libucx-dev/examples/ucp_client_server.c";
const PORT: u16 = 13_337;
/// The message of a client, which the server prints.
const MESSAGE: &str = "ABCDEFGHIJKLMNO";
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a client with a server for each way of sending.
pub(super) fn run(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    let program = compile(logs)?;
    for faults in [&[], LOSS] {
        for way in ["am", "tag", "stream"] {
            let settings = [RC_UCX, faults].concat();
            let seconds = pair(&program, way, &settings, braid_run)?;
            print_row("ucp_client_server", &format!("-c {way}"), faults, seconds);
        }
    }
    Ok(())
}

fn compile(logs: &Path) -> Result<PathBuf, Failure> {
    let program = logs.join("ucp_client_server");
    let mut cc = Command::new("cc");
    cc.args(["-O1", SOURCE, "-lucp", "-lucs", "-o"]).arg(&program);
    process::run(&mut cc)
        .map_err(|failure| failure.remedy("as root: apt-get install libucx-dev"))?;
    Ok(program)
}

/// Runs both ends. The server serves one client after another, so it is stopped.
fn pair(
    program: &Path,
    way: &str,
    settings: &[(&str, &str)],
    braid_run: &Path,
) -> Result<f64, Failure> {
    let start = Instant::now();
    let log = program.with_extension("server.log");
    let command = || {
        let mut command = Command::new(braid_run);
        // Each line is written at once: what a stopped server has not written is lost.
        command.args(["--quiet", "stdbuf", "-oL"]).arg(program).args(["-c", way]);
        // rdma_cm leads from the loopback's address to its device, and UCX looks for `braid0`.
        command.env("BRAID_RAILS", "lo");
        command.envs(settings.iter().copied()).stdin(Stdio::null());
        command
    };
    let mut server = command();
    log_to(&mut server, &log)?;
    let server = Program::start(&mut server)?;
    if !braid_lab::wait_for_listener(server.child.id(), PORT, LIMIT) {
        return Err(Failure::new(format!("ucp_client_server does not listen at TCP port {PORT}")));
    }
    let mut client = Program::start(command().args(["-a", "127.0.0.1"]).stdout(Stdio::null()))?;
    let ended = client.wait(LIMIT);
    let said = || fs::read_to_string(&log).unwrap_or_default();
    // The client ends once its message has arrived, and the server prints it after that.
    let has_arrived = ended.is_ok() && braid_lab::wait_until(LIMIT, || said().contains(MESSAGE));
    drop(server);
    let said = said();
    match ended {
        Ok(()) if has_arrived => Ok(start.elapsed().as_secs_f64()),
        Ok(()) => Err(Failure::new(format!("the server has not printed the message:\n{said}"))),
        Err(failure) => Err(Failure::new(format!("{failure}\n--- server:\n{said}"))),
    }
}
