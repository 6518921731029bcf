//! The server of a test: waits for a client, executes its orders, shows the results, and exits.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use braid::Listener;

use crate::cli::TestArgs;
use crate::failure::{Attempt, Failure};
use crate::plan::Order;
use crate::session::{Session, Side};
use crate::table::{RULE, Table};
use crate::{bandwidth, degraded, header, latency, report, stdio};

/// Connections that may wait to be accepted. A client opens them one after the other.
const BACKLOG: usize = 64;
/// Time limit for the next order of a client.
const ORDER: Duration = Duration::from_secs(60);

/// Serves on the port of the command line.
pub(crate) fn run(args: &TestArgs) -> Result<(), Failure> {
    let side = Side::new(&args.engine, args.engine.port(), None)?;
    let listener = side.engine.listen(BACKLOG).attempt("listen")?;
    stdio::print(|out| writeln!(out, "listening on {}", side.engine.local_addr()))?;
    let begun = loop {
        match next_client(&side, &listener) {
            Ok(begun) => break Ok(begun),
            Err((_, failure)) if args.once => break Err(failure),
            Err((from, failure)) => {
                stdio::say(format_args!("{from}: {failure}; waiting for a client"));
            }
        }
    };
    match begun.and_then(|(session, order)| serve(session, order, Some(args))) {
        Err(failure) if args.once && failure.is_end_of_connection() => Err(Failure::Abandoned),
        done => done,
    }
}

/// Listens for a client in this process, which shows the results. Returns the function that serves
/// the client.
pub(crate) fn listen_silently(
    side: Side,
) -> Result<impl FnOnce() -> Result<(), Failure> + Send + 'static, Failure> {
    let listener = side.engine.listen(BACKLOG).attempt("listen")?;
    Ok(move || serve_silently(&side, &listener))
}

fn serve_silently(side: &Side, listener: &Listener) -> Result<(), Failure> {
    let (session, order) = next_client(side, listener).map_err(|(_, failure)| failure)?;
    serve(session, order, None)
}

/// Executes all orders of the client; `shown`: the options of the output.
fn serve(mut session: Session, mut order: Order, shown: Option<&TestArgs>) -> Result<(), Failure> {
    let test = session.plan.test;
    if let Some(args) = shown {
        stdio::print(|out| header::print(out, &session, &args.engine))?;
    }
    let mut table = None;
    loop {
        match order {
            Order::Begin(phase) => {
                if let (Some(args), None) = (shown, table) {
                    let table = table.insert(Table::new(test, &phase, args.output.unit()));
                    stdio::print(|out| table.heading(out))?;
                }
                match test.is_latency() {
                    true => latency::server(&mut session, phase)?,
                    false => bandwidth::server(&mut session, phase)?,
                }
            }
            Order::Show(figures) => {
                table.map_or(Ok(()), |table| stdio::print(|out| table.row(out, &figures)))?;
            }
            Order::End { .. } => {
                return Err(Failure::Peer("ended a phase that it never began".to_owned()));
            }
            Order::Quit => break,
        }
        order = session.control.receive(ORDER)?;
    }
    session.control.linger(Duration::from_millis(200));
    let Some(args) = shown else { return Ok(()) };
    stdio::print(|out| writeln!(out, "{RULE}"))?;
    // The client of `--loopback` shows the counters of both sides.
    if !args.once {
        stdio::note(report::traffic(&session.traffic()));
        session.degraded().iter().for_each(|one| stdio::note(degraded::line(one)));
    }
    Ok(())
}

/// Waits without a limit until a client connects and gives its first order. Fails with its address
/// if it is not braid-perf, or leaves before.
fn next_client(
    side: &Side,
    listener: &Listener,
) -> Result<(Session, Order), (SocketAddr, Failure)> {
    loop {
        let Some(request) = listener.accept(Duration::from_secs(3600)) else { continue };
        let from = request.peer_addr();
        let begun = Session::accept(side.clone(), listener, request).and_then(|session| {
            let order = session.control.receive(ORDER)?;
            Ok((session, order))
        });
        return begun.map_err(|failure| (from, failure));
    }
}
