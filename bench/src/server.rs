//! The server of a test: waits for a client, executes its orders, shows the results, and exits, or
//! waits for the next one.

use std::collections::VecDeque;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use braid::{ConnectionRequest, Listener};

use crate::cli::TestArgs;
use crate::failure::{Attempt, Failure};
use crate::plan::Order;
use crate::session::{Session, Side};
use crate::table::{RULE, Table};
use crate::{bandwidth, degraded, header, interrupt, latency, report, stdio};

/// Connections that may wait to be accepted. A client opens them one after the other.
const BACKLOG: usize = 64;
/// Interval at which a waiting server looks for a signal.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Serves on the port of the command line.
pub(crate) fn run(args: &TestArgs) -> Result<(), Failure> {
    let side = Side::new(&args.engine, args.engine.port(), None)?;
    let listener = side.engine.listen(BACKLOG).attempt("listen")?;
    stdio::print(|out| writeln!(out, "listening on {}", side.engine.local_addr()))?;
    interrupt::end_in_order();
    let mut clients = Clients { side, listener, held: args.forever.then(VecDeque::new) };
    loop {
        let begun = clients.next(args.once);
        let from = begun.as_ref().map(|(from, ..)| *from).ok();
        match begun.and_then(|(_, session, order)| serve(session, order, Some(args))) {
            // The client of `--loopback` is interrupted as well, and reports it.
            Ok(()) if interrupt::is_requested() && !args.once => return Err(Failure::Interrupted),
            Ok(()) if args.forever => {}
            Err(failure)
                if args.once
                    && (failure.is_end_of_connection()
                        || matches!(failure, Failure::Interrupted)) =>
            {
                return Err(Failure::Abandoned);
            }
            Err(failure) => match from.filter(|_| args.forever && failure.is_of_one_client()) {
                Some(from) => {
                    stdio::say(format_args!("{from}: {failure}; waiting for a client"));
                }
                None => return Err(failure),
            },
            Ok(()) => return Ok(()),
        }
    }
}

/// Listens for a client in this process, which shows the results. Returns the function that serves
/// the client.
pub(crate) fn listen_silently(
    side: Side,
) -> Result<impl FnOnce() -> Result<(), Failure> + Send + 'static, Failure> {
    let listener = side.engine.listen(BACKLOG).attempt("listen")?;
    let mut clients = Clients { side, listener, held: None };
    Ok(move || {
        let (_, session, order) = clients.next(true)?;
        serve(session, order, None)
    })
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
                table.map_or(Ok(()), |table| stdio::print(|out| table.row(out, &figures, 0.0)))?;
            }
            Order::End { .. } | Order::Stop { .. } | Order::Connect(_) => {
                return Err(Failure::Peer("ended a phase that it never began".to_owned()));
            }
            Order::Quit => break,
        }
        order = session.next_order()?;
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

/// The clients that connect to a server.
struct Clients {
    side: Side,
    listener: Listener,
    /// Clients that have connected while another one did. `None`: they are rejected.
    held: Option<VecDeque<ConnectionRequest>>,
}

impl Clients {
    /// Waits without a limit until a client connects and gives its first order. Peers that are not
    /// braid-perf, or leave before, are reported; the server of one client (`once`) fails.
    ///
    /// # Errors
    /// [`Failure::Interrupted`].
    fn next(&mut self, once: bool) -> Result<(SocketAddr, Session, Order), Failure> {
        loop {
            if interrupt::is_requested() {
                return Err(Failure::Interrupted);
            }
            let held = self.held.as_mut().and_then(VecDeque::pop_front);
            let Some(request) = held.or_else(|| self.listener.accept(LOOK_AFTER)) else { continue };
            let from = request.peer_addr();
            match self.begin(request) {
                Ok((session, order)) => return Ok((from, session, order)),
                Err(failure) if once || matches!(failure, Failure::Interrupted) => {
                    return Err(failure);
                }
                Err(failure) => {
                    stdio::say(format_args!("{from}: {failure}; waiting for a client"));
                }
            }
        }
    }

    fn begin(&mut self, request: ConnectionRequest) -> Result<(Session, Order), Failure> {
        let side = self.side.clone();
        let mut session = Session::accept(side, &self.listener, request, self.held.as_mut())?;
        let order = session.next_order()?;
        Ok((session, order))
    }
}
