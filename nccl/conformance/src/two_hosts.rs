//! The speed of the plugin between two hosts, or two network namespaces, relative to one TCP
//! socket. This program runs on both, and one of them serves. They coordinate over a TCP
//! connection, a line at a time.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::handle::Handle;
use crate::net::{Net, Opaque, SUCCESS};
use crate::pair::{Pair, Verdict, listen, returns};
use crate::speed::{self, Round, Throughput};
use crate::tcp;
use crate::workload::MESSAGE;

/// Maximum time of the other side for a step, including the measurement.
const PATIENCE: Duration = Duration::from_secs(90);

fn text(error: std::io::Error) -> String {
    format!("the other side: {error}")
}

/// The connection over which both sides agree.
struct Control {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Control {
    fn new(stream: TcpStream) -> Verdict<Self> {
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let reader = BufReader::new(stream.try_clone().map_err(text)?);
        Ok(Control { reader, writer: stream })
    }

    fn say(&mut self, line: &str) -> Verdict {
        self.writer.write_all(format!("{line}\n").as_bytes()).map_err(text)
    }

    /// The next line; empty: the other side has closed.
    fn hear(&mut self) -> Verdict<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(text)?;
        Ok(line.trim().to_owned())
    }

    fn hear_rate(&mut self) -> Verdict<f64> {
        let line = self.hear()?;
        line.parse().map_err(|_| format!("the other side says `{line}`, not how fast it was"))
    }
}

/// Receives whatever the other side measures, until it goes.
///
/// # Errors
/// A socket or the plugin failed, or the other side.
pub(crate) fn serve(net: &Net, at: SocketAddr) -> Verdict {
    let listener = TcpListener::bind(at).map_err(|error| format!("{at}: {error}"))?;
    println!("listening on {}", listener.local_addr().map_err(text)?);
    let mut control = Control::new(listener.accept().map_err(text)?.0)?;
    loop {
        let order = control.hear()?;
        match order.split_once(' ') {
            Some(("plugin", crc)) => {
                speed::with_check(crc, net, |net, ctx| receive(net, ctx, &mut control))?;
            }
            Some(("tcp", _)) => {
                let (mut stream, _) = listener.accept().map_err(text)?;
                tcp::cubic(&stream)?;
                let rate = tcp::receive(&mut stream)?;
                control.say(&rate.to_string())?;
            }
            _ if order.is_empty() => return Ok(()),
            _ => return Err(format!("the other side says `{order}`; is it of this version?")),
        }
    }
}

fn receive(net: &Net, ctx: Opaque, control: &mut Control) -> Verdict {
    let (listener, handle) = listen(net, ctx, 0)?;
    control.say(&handle.to_line())?;
    let pair = Pair::receiving(net, listener)?;
    speed::receive(pair, |rate| control.say(&rate.to_string()))?;
    returns("closeListen", net.close_listen(listener), SUCCESS)
}

/// Measures towards the one that serves, for `time` each.
///
/// # Errors
/// As [`serve`].
pub(crate) fn measure(
    net: &Net,
    to: SocketAddr,
    rounds: u32,
    time: Duration,
) -> Verdict<Throughput> {
    let stream = TcpStream::connect(to).map_err(|error| format!("{to}: {error}"))?;
    let mut control = Control::new(stream)?;
    let plugin = |crc: &str, control: &mut Control| {
        control.say(&format!("plugin {crc}"))?;
        speed::with_check(crc, net, |net, ctx| send(net, ctx, time, control))
    };
    let socket = |write: usize, control: &mut Control| {
        control.say(&format!("tcp {write}"))?;
        let stream = TcpStream::connect(to).map_err(text)?;
        tcp::cubic(&stream)?;
        tcp::send(stream, write, time)?;
        control.hear_rate()
    };
    let mut found = Vec::new();
    for _ in 0..rounds {
        found.push(Round {
            checked: plugin("on", &mut control)?,
            tcp_1m: socket(MESSAGE, &mut control)?,
            unchecked: plugin("off", &mut control)?,
            tcp_64k: socket(64 << 10, &mut control)?,
        });
    }
    Ok(Throughput::of(&found))
}

fn send(net: &Net, ctx: Opaque, time: Duration, control: &mut Control) -> Verdict<f64> {
    let pair = Pair::sending(net, ctx, Handle::from_line(&control.hear()?)?)?;
    let mut rate = None;
    speed::send_for(pair, time, || {
        rate = Some(control.hear_rate()?);
        Ok(())
    })?;
    rate.ok_or_else(|| "the other side has not said how fast it was".to_owned())
}
