//! Processes that are killed while they transfer, and started anew.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::pair::{End, ProgramPair};
use super::table::{HOST, ProgramCase, cases};
use crate::Failure;

/// The first would take minutes.
const CASES: &[ProgramCase] = cases! {
    "ib_write_bw" "-d braid0 -D 60 -s 4096" HOST &[];
    "ib_write_bw" "-d braid0 -n 100 -s 4096" HOST &[];
};

/// One end is killed, then the other, in turn; each time a new pair has to find its ports and
/// addresses, and to finish.
pub(super) fn killed_and_restarted(
    kills: u64,
    braid_run: &Path,
    logs: &Path,
) -> Result<(), Failure> {
    let [endless, short] = CASES else { unreachable!("there are two") };
    for round in 0..kills {
        let pair = ProgramPair::new(braid_run, endless, logs);
        let mut server = pair.start(End::Server)?;
        pair.wait_for_listener(&server)?;
        let mut client = pair.start(End::Client)?;
        sleep(Duration::from_millis(300 + 20 * (round % 10)));
        let (first, second) =
            if round % 2 == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
        first.kill();
        second.kill();
        ProgramPair::new(braid_run, short, logs).run()?;
    }
    super::print_note(short.program, &format!("killed {kills} times and started anew"));
    Ok(())
}
