//! QEMU's live migration over RDMA: a machine whose memory holds random bytes moves to another
//! process, where they are compared.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::print_row;
use super::table::LOSS;
use crate::files::cannot;
use crate::process::{Program, log_to};
use crate::{Failure, tools};

const QEMU: &str = "qemu-system-x86_64";
const PORT: u16 = 18_616;
/// Memory of the machine, and of it the random bytes, which its firmware leaves alone.
const MEMORY: &str = "192";
const START: u64 = 16 << 20;
const LEN: usize = 128 << 20;
/// Ten times what it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Migrates without and with registering all memory beforehand, without and with loss.
pub(super) fn run(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    tools::need(QEMU)?;
    let content = logs.join("memory.bin");
    let random = random()?;
    fs::write(&content, &random).map_err(|e| cannot("write", &content, &e))?;
    for settings in [&[], LOSS] {
        for pins_all in [false, true] {
            let seconds = migrate(braid_run, logs, &random, settings, pins_all)?;
            let options = if pins_all { "migrate, rdma-pin-all" } else { "migrate" };
            print_row(QEMU, options, settings, seconds);
        }
    }
    // A remaining file does no harm.
    let _ = fs::remove_file(content);
    Ok(())
}

fn random() -> Result<Vec<u8>, Failure> {
    let device = Path::new("/dev/urandom");
    let mut bytes = vec![0; LEN];
    let read =
        File::open(device).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(|e| cannot("read", device, &e))?;
    Ok(bytes)
}

fn migrate(
    braid_run: &Path,
    logs: &Path,
    random: &[u8],
    settings: &[(&str, &str)],
    pins_all: bool,
) -> Result<f64, Failure> {
    let start = |name, options: &[&str]| Qemu::start(braid_run, logs, name, options, settings);
    let mut to = start("to", &["-incoming", "defer"])?;
    let file = logs.join("memory.bin");
    let loader = format!("loader,file={},addr={START},force-raw=on", file.display());
    let mut from = start("from", &["-device", &loader])?;
    if pins_all {
        let pin = json!([{"capability": "rdma-pin-all", "state": true}]);
        for machine in [&mut to, &mut from] {
            machine.execute("migrate-set-capabilities", json!({"capabilities": pin}))?;
        }
    }
    // Without QEMU's own limit, 128 MiB/s.
    from.execute("migrate-set-parameters", json!({"max-bandwidth": 1_u64 << 40}))?;
    let uri = json!({"uri": format!("rdma:127.0.0.1:{PORT}")});
    to.execute("migrate-incoming", uri.clone())?;
    let begin = Instant::now();
    from.execute("migrate", uri)?;
    from.wait_for_the_end()?;
    let seconds = begin.elapsed().as_secs_f64();
    let copy = logs.join("memory.copy");
    let save = json!({"val": START, "size": LEN, "filename": copy.display().to_string()});
    to.execute("pmemsave", save)?;
    let arrived = fs::read(&copy).map_err(|e| cannot("read", &copy, &e))?;
    // As above.
    let _ = fs::remove_file(copy);
    if arrived != random {
        return Err(to.failure("the memory that has arrived is not what was sent"));
    }
    Ok(seconds)
}

/// A process of QEMU, and its monitor (QMP).
struct Qemu {
    // Before the program: both end when they are dropped.
    monitor: BufReader<UnixStream>,
    _program: Program,
    log: PathBuf,
}

impl Qemu {
    fn start(
        braid_run: &Path,
        logs: &Path,
        name: &str,
        options: &[&str],
        settings: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let (socket, log) =
            (logs.join(format!("{name}.qmp")), logs.join(format!("qemu.{name}.log")));
        // An earlier run's.
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(braid_run);
        command
            .args([QEMU, "-accel", "tcg", "-display", "none", "-nodefaults", "-m", MEMORY])
            .args(["-qmp", &format!("unix:{},server=on,wait=off", socket.display())])
            .args(options)
            .envs(settings.iter().copied());
        log_to(&mut command, &log)?;
        let program = Program::start(&mut command)?;
        let monitor = connect(&socket).map_err(|e| cannot("reach", &socket, &e))?;
        let mut machine = Qemu { monitor: BufReader::new(monitor), _program: program, log };
        machine.hear()?; // its greeting
        machine.execute("qmp_capabilities", json!({}))?;
        Ok(machine)
    }

    /// A command of the monitor. Returns its result.
    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, Failure> {
        let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        let written = self.monitor.get_mut().write_all(line.as_bytes());
        written
            .map_err(|e| self.failure(&format!("`{command}` does not reach its monitor: {e}")))?;
        loop {
            let mut said = self.hear()?;
            if let Some(error) = said.get("error") {
                return Err(self.failure(&format!("`{command}` is refused: {error}")));
            }
            if let Some(result) = said.get_mut("return") {
                return Ok(result.take());
            }
        }
    }

    fn hear(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        let heard = self.monitor.read_line(&mut line);
        let message = heard.ok().and_then(|_| serde_json::from_str(&line).ok());
        message.ok_or_else(|| self.failure(&format!("its monitor says {line:?}")))
    }

    fn wait_for_the_end(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + LIMIT;
        loop {
            let state = self.execute("query-migrate", json!({}))?;
            match state.get("status").and_then(Value::as_str) {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    return Err(self.failure(&format!("the migration has failed: {state}")));
                }
                _ if Instant::now() > until => {
                    return Err(self.failure(&format!("the migration goes on and on: {state}")));
                }
                _ => sleep(PAUSE),
            }
        }
    }

    fn failure(&self, what: &str) -> Failure {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        Failure::new(format!("{QEMU}: {what}\n--- {}:\n{said}", self.log.display()))
    }
}

/// Once the process has made its socket.
fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let until = Instant::now() + LIMIT;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LIMIT))?;
                return Ok(stream);
            }
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => sleep(PAUSE),
        }
    }
}
