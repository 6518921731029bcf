//! The relay process: its start and its main function.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::line::{DelayLine, LONGEST_FRAME};
use crate::layout::Layout;
use crate::process::Program;
use crate::state::State;
use crate::{FabricError, Plan, namespace};

/// The first argument of the relay process. The second argument is the name of the fabric, for
/// [`main`].
pub const SUBCOMMAND: &str = "fabric-relay";

/// The line that the relay prints once its devices exist.
const READY: &str = "ready";

/// Packets that wait for the relay before the kernel drops them: 0.1 s at 1 Gb/s and MTU 1500. The
/// counters of links do not include these drops.
const WAITING: u32 = 10_000;

/// Time that the relay has to make its devices.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// The relay of a fabric. The relay of this process's fabric ends when its standard input closes.
#[derive(Debug)]
pub(crate) struct Relay {
    _program: Program,
}

impl Relay {
    /// Starts the relay if there is a link with a delay, and waits until its devices are there.
    pub(crate) fn start(layout: &Layout, plan: &Plan) -> Result<Option<Self>, FabricError> {
        let Some(first) = (0..plan.spines).find(|spine| !plan.delay_over(*spine).is_zero()) else {
            return Ok(None);
        };
        let own = std::env::current_exe().map_err(FabricError::system("find our executable"))?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &layout.spine(first)]).arg(own);
        command.args([SUBCOMMAND, &plan.name]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Program::start_in_our_group(&mut command)?;
        match program.line(READY_LIMIT) {
            Ok(line) if line == READY => Ok(Some(Self { _program: program })),
            Ok(line) => Err(FabricError::Relay { said: line }),
            Err(error) => Err(FabricError::Relay { said: error.to_string() }),
        }
    }
}

/// Runs the relay of a fabric until the fabric is gone. [`Fabric::up`](crate::Fabric::up) starts
/// the process, with [`SUBCOMMAND`].
pub fn main(name: &str) -> Result<(), FabricError> {
    let state = State::read(name)?.ok_or_else(|| FabricError::NotUp { name: name.into() })?;
    // A standing fabric outlives the terminal of its user.
    let _ = nix::unistd::setsid();
    // The default slack, 50 us, would be added to every delay.
    nix::sys::prctl::set_timerslack(1).map_err(FabricError::system("set the timer slack"))?;
    let (ends, lines) = make(&Layout::new(name, state.owner), &state.plan)?;
    println!("{READY}");
    io::stdout().flush().map_err(FabricError::system("tell that the relay is ready"))?;
    run(&ends, lines, state.owner.is_some())
}

/// Makes both ends of every delayed link. Ends come in pairs: the line from end `i` goes to end `i
/// ^ 1`.
fn make(layout: &Layout, plan: &Plan) -> Result<(Vec<SyncDevice>, Vec<DelayLine>), FabricError> {
    let (mut ends, mut lines) = (Vec::new(), Vec::new());
    for spine in 0..plan.spines {
        if plan.delay_over(spine).is_zero() {
            continue;
        }
        let delay = plan.delay_over(spine) / 2;
        for leaf in 0..plan.leaves {
            ends.push(tap(&layout.leaf(leaf), &format!("s{spine}"))?);
            ends.push(tap(&layout.spine(spine), &format!("l{leaf}"))?);
            lines.extend([DelayLine::new(delay), DelayLine::new(delay)]);
        }
    }
    Ok((ends, lines))
}

fn tap(namespace: &str, device: &str) -> Result<SyncDevice, FabricError> {
    let build = || {
        let tap = DeviceBuilder::new()
            .name(device)
            .layer(Layer::L2)
            .tx_queue_len(WAITING)
            .enable(false)
            .build_sync()?;
        tap.set_nonblocking(true)?;
        Ok(tap)
    };
    namespace::inside(namespace, build)?
        .map_err(|e: io::Error| FabricError::system(format!("make {device} in {namespace}"))(e))
}

/// Relays until a device is gone or the process that owns the fabric has ended.
fn run(ends: &[SyncDevice], mut lines: Vec<DelayLine>, owned: bool) -> Result<(), FabricError> {
    let stdin = io::stdin();
    let mut waits: Vec<PollFd<'_>> =
        ends.iter().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN)).collect();
    if owned {
        // Nobody writes here. The end of the owner closes the pipe, which wakes the relay.
        waits.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
    }
    let mut buffer = vec![0; LONGEST_FRAME];
    loop {
        let due = lines.iter().filter_map(DelayLine::next_due).min();
        let wait = due.map(|due| TimeSpec::from(due.saturating_duration_since(Instant::now())));
        match ppoll(&mut waits, wait, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(FabricError::system("wait for frames")(e)),
        }
        let ready = |index: usize| waits[index].any().unwrap_or(true);
        if owned && ready(ends.len()) {
            return Ok(());
        }
        for index in (0..ends.len()).filter(|index| ready(*index)) {
            lines[index]
                .take(&ends[index], Instant::now(), &mut buffer)
                .map_err(FabricError::system("read from a link"))?;
        }
        for (index, line) in lines.iter_mut().enumerate() {
            line.send_due(&ends[index ^ 1], Instant::now());
        }
    }
}
