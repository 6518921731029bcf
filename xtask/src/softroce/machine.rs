//! One virtual machine: QEMU, and a channel to the agent inside.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::bridge::{self, Bridge};
use super::frames::{self, Output};
use super::image::Image;
use crate::Failure;
use crate::process::Program;

/// Emulation takes about 8 s for it, on cores that are shared with another machine.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
/// Time that the agent itself may take beyond the limit of a command.
const SLACK: Duration = Duration::from_secs(10);
const POWER_OFF_LIMIT: Duration = Duration::from_secs(5);
/// Lines of the console that a failure shows.
const CONSOLE_TAIL: usize = 15;

/// The accelerator of the guests' processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Accel {
    /// Emulated: works everywhere.
    Tcg,
    /// By the processor itself, where /dev/kvm boots a kernel.
    Kvm,
}

/// A machine to start.
pub(super) struct Plan<'a> {
    pub(super) name: &'static str,
    /// 1 or 2: the last number of its addresses.
    pub(super) host: u8,
    pub(super) image: &'a Image,
    pub(super) accel: Accel,
    /// Its end of link 0.
    pub(super) cable: OwnedFd,
    /// Link 1.
    pub(super) bridge: &'a Bridge,
    /// Where its logs go.
    pub(super) logs: PathBuf,
}

/// A machine that runs, until this value is dropped. Its methods may be called from several
/// threads.
pub(super) struct Machine {
    name: &'static str,
    program: Program,
    console: PathBuf,
    requests: Mutex<ChildStdin>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
    log: Mutex<File>,
}

/// The start of the error of a command that reached its time limit.
pub(super) const HUNG: &str = "hung: killed after";

/// A command that runs in a machine. It ends when this value is dropped.
pub(super) struct Job<'a> {
    machine: &'a Machine,
    id: u64,
    command: String,
    until: Instant,
    limit: Duration,
    answer: Receiver<Output>,
    ended: bool,
}

/// The recipients of outstanding replies by request id. `None`: the machine has gone.
#[derive(Default)]
struct Waiting(Mutex<Option<BTreeMap<u64, Sender<Output>>>>);

impl Machine {
    /// Starts QEMU; `wait` for the machine to be up.
    pub(super) fn start(plan: Plan<'_>) -> Result<(Self, Up), Failure> {
        let console = plan.logs.join(format!("{}-console.log", plan.name));
        let log = plan.logs.join(format!("{}.log", plan.name));
        let log = File::create(&log)
            .map_err(|e| Failure::new(format!("cannot write {}: {e}", log.display())))?;
        // A console of an earlier run must not be taken for this one's.
        let _ = fs::remove_file(&console);
        let mut command = qemu(&plan, &console);
        // QEMU inherits it; ours closes with the plan.
        fcntl(&plan.cable, FcntlArg::F_SETFD(FdFlag::empty()))
            .map_err(|e| Failure::new(format!("cannot pass a link on: {e}")))?;
        let mut program = Program::start(&mut command)?;
        let requests = Mutex::new(program.child.stdin.take().expect("piped"));
        let answers = program.child.stdout.take().expect("piped");
        let waiting = Arc::new(Waiting(Mutex::new(Some(BTreeMap::new()))));
        let up = waiting.expect(0);
        hear(answers, Arc::clone(&waiting));
        let machine = Self {
            name: plan.name,
            program,
            console,
            requests,
            waiting,
            next: AtomicU64::new(1),
            log: Mutex::new(log),
        };
        Ok((machine, Up(up)))
    }

    /// Waits until the agent is there.
    pub(super) fn wait(&self, up: &Up) -> Result<(), Failure> {
        self.receive(&up.0, BOOT_LIMIT, "boot").map(drop)
    }

    /// Runs a shell command to its end. Past the limit it is killed, and that is a failure, as any
    /// status is not.
    pub(super) fn run(&self, command: &str, limit: Duration) -> Result<Output, Failure> {
        self.spawn(command, limit)?.wait()
    }

    /// Runs a shell command and returns what it says; any status but 0 is a failure.
    pub(super) fn must(&self, command: &str, limit: Duration) -> Result<String, Failure> {
        self.run(command, limit)?.good(self.name, command)
    }

    /// Starts a shell command, which may run for so long at most.
    pub(super) fn spawn(&self, command: &str, limit: Duration) -> Result<Job<'_>, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.waiting.expect(id);
        self.note(&format!("{id}> {command}"));
        self.request(&frames::run(id, limit, command))?;
        let until = Instant::now() + limit;
        Ok(Job {
            machine: self,
            id,
            command: command.to_owned(),
            until,
            limit,
            answer,
            ended: false,
        })
    }

    /// Powers it off, so that its console's log is whole; QEMU is killed when that takes too long.
    pub(super) fn power_off(mut self) {
        if self.request("off\n").is_ok() {
            let _ = self.program.wait(POWER_OFF_LIMIT);
        }
    }

    fn request(&self, line: &str) -> Result<(), Failure> {
        let mut requests = lock(&self.requests);
        let sent = requests.write_all(line.as_bytes()).and_then(|()| requests.flush());
        sent.map_err(|e| self.gone(&format!("takes no requests: {e}")))
    }

    fn receive(
        &self,
        from: &Receiver<Output>,
        limit: Duration,
        what: &str,
    ) -> Result<Output, Failure> {
        from.recv_timeout(limit).map_err(|why| match why {
            RecvTimeoutError::Timeout => {
                self.gone(&format!("did not end `{what}` within {} s", limit.as_secs()))
            }
            RecvTimeoutError::Disconnected => self.gone(&format!("ended during `{what}`")),
        })
    }

    /// A failure of the machine itself, with the end of its console.
    fn gone(&self, what: &str) -> Failure {
        let text = fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let mut story = format!("machine {} {what}; {}:", self.name, self.console.display());
        for line in &lines[lines.len().saturating_sub(CONSOLE_TAIL)..] {
            let _ = write!(story, "\n  | {}", line.trim_end());
        }
        Failure::new(story)
    }

    /// A full disk must not stop a run.
    fn note(&self, text: &str) {
        let _ = writeln!(lock(&self.log), "{}", text.trim_end());
    }
}

/// The event that `Machine::wait` waits for: the machine is up.
pub(super) struct Up(Receiver<Output>);

impl Job<'_> {
    /// Waits for its end.
    pub(super) fn wait(mut self) -> Result<Output, Failure> {
        let left = self.until.saturating_duration_since(Instant::now()) + SLACK;
        let result = self.machine.receive(&self.answer, left, &self.command);
        // Whatever went wrong, the machine does not answer any more.
        self.ended = true;
        let output = result?;
        self.machine.note(&format!("{}: status {}\n{}", self.id, output.status, output.text));
        // The agent kills at the limit, by its own clock, and to the second.
        const KILLED: u8 = 128 + 9;
        if output.status == KILLED && Instant::now() + Duration::from_secs(1) >= self.until {
            let limit = self.limit.as_secs_f64();
            let (name, command) = (self.machine.name, &self.command);
            return Err(Failure::new(format!(
                "{name}: `{command}` {HUNG} {limit} s\n{}",
                output.text.trim_end()
            )));
        }
        Ok(output)
    }

    /// Ends it with SIGTERM, and returns what it came to.
    pub(super) fn stop(self) -> Result<Output, Failure> {
        self.machine.request(&frames::end(self.id))?;
        self.wait()
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // A machine that has gone has ended it too.
            let _ = self.machine.request(&frames::end(self.id));
        }
    }
}

impl Output {
    /// Returns the output. An exit status other than 0 is a failure that names the machine and the
    /// command.
    pub(super) fn good(self, machine: &str, command: &str) -> Result<String, Failure> {
        match self.status {
            0 => Ok(self.text),
            status => Err(Failure::new(format!(
                "{machine}: `{command}` failed: exit code {status}\n{}",
                self.text.trim_end()
            ))),
        }
    }
}

impl Waiting {
    fn expect(&self, id: u64) -> Receiver<Output> {
        let (sender, receiver) = channel();
        if let Some(all) = lock(&self.0).as_mut() {
            all.insert(id, sender);
        }
        receiver
    }
}

/// Hands answers out until the machine has gone.
fn hear(answers: ChildStdout, waiting: Arc<Waiting>) {
    thread::spawn(move || {
        let mut answers = BufReader::new(answers);
        while let Ok(Some((id, output))) = frames::read(&mut answers) {
            let sender = lock(&waiting.0).as_mut().and_then(|all| all.remove(&id));
            // Nobody may care any more.
            let _ = sender.map(|sender| sender.send(output));
        }
        *lock(&waiting.0) = None;
    });
}

fn qemu(plan: &Plan<'_>, console: &std::path::Path) -> Command {
    // QEMU must not survive us, not even when we are killed.
    let mut qemu = plan.bridge.command("setpriv");
    qemu.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    match plan.accel {
        // Carry-less multiplication bit by bit is slower than the tables that programs use without
        // it.
        Accel::Tcg => qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max,-pclmulqdq"]),
        Accel::Kvm => qemu.args(["-accel", "kvm", "-cpu", "host"]),
    };
    qemu.args(["-smp", "1", "-m", "1024", "-nodefaults", "-no-user-config", "-no-reboot"]);
    qemu.args(["-display", "none"]);
    qemu.arg("-kernel").arg(&plan.image.kernel).arg("-initrd").arg(&plan.image.initrd);
    // A panic ends QEMU at once, as there is nobody to look at it. QEMU keeps translated code by
    // its address: where programs have another one each time, each start is a translation of its
    // own.
    let options = "console=ttyS0 quiet panic=-1 mitigations=off norandmaps";
    let line = format!("{options} braid.host={}", plan.host);
    qemu.args(["-append", &line]);
    qemu.args(["-serial", &format!("file:{}", console.display())]);
    qemu.args(["-chardev", "stdio,id=agent,signal=off", "-device", "virtio-serial-pci"]);
    qemu.args(["-device", "virtserialport,chardev=agent,name=agent"]);
    let cable = format!("socket,id=link0,fd={}", plan.cable.as_raw_fd());
    for (link, netdev) in [cable, bridge::netdev("link1", plan.host)].iter().enumerate() {
        let mac = format!("52:54:00:77:0{link}:0{}", plan.host);
        qemu.args(["-netdev", netdev]);
        // With event indices link 0 stops for good at times, while both QEMUs sleep: no packet of
        // any program passes. It looked as if a transfer of rxe's hung.
        let device = format!("virtio-net-pci,netdev=link{link},mac={mac},event_idx=off,romfile=");
        qemu.args(["-device", &device]);
    }
    qemu.stdin(Stdio::piped()).stdout(Stdio::piped());
    qemu
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
