//! Processes that are killed while they transfer, and started anew.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::pair::{Pair, wait_for_listener};
use super::table::{Case, HOST};
use crate::Failure;

/// It would take minutes.
const ENDLESS: Case =
    Case { program: "ib_write_bw", options: "-d braid0 -D 60 -s 4096", ends: HOST, settings: &[] };
const SHORT: Case =
    Case { program: "ib_write_bw", options: "-d braid0 -n 100 -s 4096", ends: HOST, settings: &[] };

/// One end is killed, then the other, in turn; each time a new pair has to find its ports and addresses, and to finish.
pub(super) fn killed_and_restarted(
    kills: u64,
    braid_run: &Path,
    logs: &Path,
) -> Result<(), Failure> {
    for round in 0..kills {
        let pair = Pair::new(braid_run, &ENDLESS, logs);
        let mut server = pair.start(HOST.0, "killed-server")?;
        wait_for_listener()?;
        let mut client = pair.start(HOST.1, "killed-client")?;
        sleep(Duration::from_millis(300 + 20 * (round % 10)));
        let (first, second) =
            if round % 2 == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
        first.kill();
        second.kill();
        Pair::new(braid_run, &SHORT, logs).run()?;
    }
    println!("{:<14} {:<34}", SHORT.program, format!("killed {kills} times and started anew"));
    Ok(())
}
