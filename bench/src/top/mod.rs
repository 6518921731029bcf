//! `braid-perf top PID|ADDR`: a live view of a running program's engines, once a second.

mod exposition;
mod live;
mod namespace;
mod rates;
mod screen;
mod source;
mod table;

use std::io::{IsTerminal, Write, stdout};
use std::thread;
use std::time::Duration;

use clap::Args;

use self::exposition::MetricsPage;
use self::rates::View;
use self::source::Source;
use self::table::Format;
use crate::failure::Failure;
use crate::stdio;

#[derive(Args, Clone, Debug)]
pub(crate) struct TopArgs {
    /// Process of this machine whose engines have BRAID_METRICS=local or an address, or such an
    /// address: 127.0.0.1:9464. A process in another network namespace needs root
    #[arg(value_name = "PID|ADDR")]
    target: String,
    /// Print one table and exit; also done if the output is no terminal.
    #[arg(long)]
    once: bool,
    /// Print one reading as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// Seconds between two readings; rates are over the time between them.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0,
        value_parser = crate::quantities::parse_seconds)]
    interval: f64,
}

/// Shows readings until `q` or a signal, or one.
///
/// # Errors
/// The program cannot be read, or the output cannot be written.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let source = Source::new(&args.target)?;
    let before = source.page()?;
    let interval = Duration::from_secs_f64(args.interval);
    if !args.json && !args.once && stdout().is_terminal() {
        return live::run(&source, before, interval);
    }
    thread::sleep(interval);
    let view = View::between(&before, &source.page()?);
    if args.json {
        let json = serde_json::to_string_pretty(&view).expect("plain data has a JSON form");
        return stdio::print(|out| writeln!(out, "{json}"));
    }
    let table = table::of(&view, Format::PRINTED);
    stdio::print(|out| out.write_all(table.as_bytes()))
}

impl Source {
    fn page(&self) -> Result<MetricsPage, Failure> {
        let text = self.fetch()?;
        text.parse().map_err(|why| self.foreign(&format!("serves no metrics of Braid's: {why}")))
    }
}
