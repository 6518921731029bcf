//! The peer that is killed: this program once more, in a process of its own.

use std::io::{BufRead, Write};

use crate::net::{Handle, NULL, Net, SUCCESS};
use crate::pair::{Memory, Pair, Verdict, listen, returns, until};

/// The two roles.
pub(crate) const SENDER: &str = "sender";
pub(crate) const RECEIVER: &str = "receiver";
pub(crate) const SIZE: usize = 200_000;
pub(crate) const TAG: i32 = 11;

/// A handle as a line of hexadecimal digits.
pub(crate) fn to_line(handle: &Handle) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The other way round.
///
/// # Errors
/// It is no such line.
pub(crate) fn from_line(line: &str) -> Verdict<Handle> {
    let line = line.trim();
    let byte = |at: usize| line.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let mut handle = Handle([0; 128]);
    for (i, place) in handle.0.iter_mut().enumerate() {
        *place = byte(2 * i).ok_or_else(|| format!("`{line}` is no handle"))?;
    }
    Ok(handle)
}

/// Sends or receives until it is killed.
///
/// # Errors
/// What went wrong before that.
pub(crate) fn run(net: &Net, role: &str) -> Verdict {
    let ctx = net.init(None).map_err(|code| format!("init returned {code}"))?;
    if role == SENDER {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
        let (mut handle, mut send) = (from_line(&line)?, NULL);
        until("connect", || {
            returns("connect", net.connect(ctx, 0, &raw mut handle, &raw mut send), SUCCESS)?;
            Ok((!send.is_null()).then_some(()))
        })?;
        let pair = Pair::of(net, send, NULL);
        let mut from = Memory::new(net, send, SIZE)?;
        loop {
            let sent = pair.isend(&mut from, 0, SIZE, TAG)?;
            pair.wait(sent)?;
        }
    }
    let (listener, handle) = listen(net, ctx, 0)?;
    let told = writeln!(std::io::stdout().lock(), "{}", to_line(&handle));
    told.map_err(|error| error.to_string())?;
    let mut recv = NULL;
    until("accept", || {
        returns("accept", net.accept(listener, &raw mut recv), SUCCESS)?;
        Ok((!recv.is_null()).then_some(()))
    })?;
    let pair = Pair::of(net, NULL, recv);
    let mut to = Memory::new(net, recv, SIZE)?;
    loop {
        let received = pair.irecv(&mut to, &[(0, SIZE, TAG)])?;
        pair.wait(received)?;
    }
}
