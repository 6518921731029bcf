//! `braid-perf top PID|ADDR`: what the engines of a running program do, once a second.

mod exposition;
mod rates;
mod source;
mod table;

use std::io::{IsTerminal, Write, stdout};
use std::thread;
use std::time::Duration;

use clap::Args;

use self::exposition::Page;
use self::rates::View;
use self::source::Source;
use crate::failure::Failure;
use crate::stdio;

#[derive(Args, Clone, Debug)]
pub(crate) struct TopArgs {
    /// A process of this machine whose engines have BRAID_METRICS=local or an address, or such an address: 127.0.0.1:9464
    #[arg(value_name = "PID|ADDR")]
    target: String,
    /// One table, and the end; so does an output that is no terminal.
    #[arg(long)]
    once: bool,
    /// One look as JSON, on standard output.
    #[arg(long)]
    json: bool,
    /// Seconds between two looks; rates are of the time between them.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = crate::quantities::parse_seconds)]
    interval: f64,
}

/// Home, and what is below is gone.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Looks until it is interrupted, or once.
///
/// # Errors
/// There is nobody to look at, or nobody to show it to.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let source = Source::new(&args.target)?;
    let mut before = source.page()?;
    loop {
        thread::sleep(Duration::from_secs_f64(args.interval));
        let now = source.page()?;
        let view = View::between(&before, &now);
        if args.json {
            let json = serde_json::to_string_pretty(&view).expect("plain data has a JSON form");
            return stdio::print(|out| writeln!(out, "{json}"));
        }
        let table = table::of(&view);
        if args.once || !stdout().is_terminal() {
            return stdio::print(|out| out.write_all(table.as_bytes()));
        }
        stdio::print(|out| write!(out, "{CLEAR}{table}"))?;
        before = now;
    }
}

impl Source {
    fn page(&self) -> Result<Page, Failure> {
        let text = self.fetch()?;
        text.parse().map_err(|why| self.foreign(&format!("serves no metrics of Braid's: {why}")))
    }
}
