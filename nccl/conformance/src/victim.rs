//! The peer that is killed: this program once more, in a process of its own.

use std::io::{BufRead, Write};

use crate::handle::Handle;
use crate::net::{Net, Opaque};
use crate::pair::{Memory, Pair, Verdict, listen};

/// The roles.
pub(crate) const SENDER: &str = "sender";
pub(crate) const RECEIVER: &str = "receiver";
/// A receiver with [`MANY`] communicators.
pub(crate) const RECEIVERS: &str = "receivers";
pub(crate) const MANY: usize = 16;
pub(crate) const SIZE: usize = 200_000;
pub(crate) const TAG: i32 = 11;

/// Sends or receives until it is killed.
///
/// # Errors
/// If it fails before.
pub(crate) fn run(net: &Net, role: &str) -> Verdict {
    let ctx = net.init(None).map_err(|code| format!("init returned {code}"))?;
    if role == SENDER {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
        let pair = Pair::sending(net, ctx, Handle::from_line(&line)?)?;
        let mut from = Memory::new(net, pair.send, SIZE)?;
        loop {
            let sent = pair.isend(&mut from, 0, SIZE, TAG)?;
            pair.wait(sent)?;
        }
    }
    let (listener, handle) = listen(net, ctx, 0)?;
    let told = writeln!(std::io::stdout().lock(), "{}", handle.to_line());
    told.map_err(|error| error.to_string())?;
    if role == RECEIVERS {
        return receive_from_many(net, listener);
    }
    let pair = Pair::receiving(net, listener)?;
    let mut to = Memory::new(net, pair.recv, SIZE)?;
    loop {
        let received = pair.irecv(&mut to, &[(0, SIZE, TAG)])?;
        pair.wait(received)?;
    }
}

/// Takes two messages from each of many senders.
fn receive_from_many(net: &Net, listener: Opaque) -> Verdict {
    let (mut pairs, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..MANY {
        let pair = Pair::receiving(net, listener)?;
        memory.push(Memory::new(net, pair.recv, SIZE)?);
        pairs.push(pair);
    }
    let mut received = Vec::new();
    for (pair, to) in pairs.iter().zip(&mut memory) {
        received.push(pair.irecv(to, &[(0, SIZE, TAG)])?);
        received.push(pair.irecv(to, &[(0, SIZE, TAG)])?);
    }
    for (number, request) in received.into_iter().enumerate() {
        pairs[number / 2].wait(request)?;
    }
    Ok(())
}
