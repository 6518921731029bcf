//! One TCP socket, for comparison.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::pair::Verdict;
use crate::workload::{LONG, MESSAGE, ROUND_TRIPS, SLOTS};

fn text(error: std::io::Error) -> String {
    format!("TCP: {error}")
}

/// Both ends, on the loopback.
fn connected() -> Verdict<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let address = listener.local_addr().map_err(text)?;
    let a = TcpStream::connect(address).map_err(text)?;
    let (b, _) = listener.accept().map_err(text)?;
    for stream in [&a, &b] {
        cubic(stream)?;
        stream.set_nodelay(true).map_err(text)?;
    }
    Ok((a, b))
}

/// The system's default may be another congestion control, which does badly on loopback.
pub(crate) fn cubic(stream: &TcpStream) -> Verdict {
    let name = "cubic";
    // SAFETY: the kernel reads the name's bytes.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(text(std::io::Error::last_os_error())) }
}

/// GB/s with writes of this size, from and to as many buffers as the plugin uses.
pub(crate) fn throughput(write: usize) -> Verdict<f64> {
    let (from, mut to) = connected()?;
    thread::scope(|scope| {
        let sender = scope.spawn(move || send(from, write, LONG));
        let received = receive(&mut to);
        sender.join().expect("the sender does not panic").and(received)
    })
}

/// Writes until the time is over, and closes.
pub(crate) fn send(mut to: TcpStream, write: usize, time: Duration) -> Verdict {
    let data = vec![0x5Au8; SLOTS * MESSAGE];
    let since = Instant::now();
    for piece in data.chunks_exact(write).cycle() {
        if since.elapsed() > time {
            break;
        }
        to.write_all(piece).map_err(text)?;
    }
    Ok(())
}

/// Reads to the end; GB/s from the first piece on.
pub(crate) fn receive(from: &mut TcpStream) -> Verdict<f64> {
    let mut data = vec![0xA5u8; SLOTS * MESSAGE];
    let (mut bytes, mut since, mut at) = (0, None, 0);
    loop {
        let end = (at / MESSAGE + 1) * MESSAGE;
        let read = from.read(&mut data[at..end]).map_err(text)?;
        if read == 0 {
            break;
        }
        match since {
            None => since = Some(Instant::now()),
            Some(_) => bytes += read,
        }
        at = (at + read) % data.len();
    }
    let seconds = since.ok_or("TCP: nothing arrived")?.elapsed().as_secs_f64();
    Ok(bytes as f64 / seconds / 1e9)
}

/// Round trips of 8 bytes, in ns; both sides look again and again, as the plugin's callers do.
pub(crate) fn latency(into: &mut Histogram<u64>) -> Verdict {
    let (mut a, mut b) = connected()?;
    a.set_nonblocking(true).map_err(text)?;
    b.set_nonblocking(true).map_err(text)?;
    thread::scope(|scope| {
        let echo = scope.spawn(move || {
            for _ in 0..ROUND_TRIPS {
                hear(&mut b)?;
                b.write_all(&[0; 8]).map_err(text)?;
            }
            Ok(())
        });
        let mut ping = || {
            for _ in 0..ROUND_TRIPS {
                let since = Instant::now();
                a.write_all(&[0; 8]).map_err(text)?;
                hear(&mut a)?;
                into.saturating_record(since.elapsed().as_nanos() as u64);
            }
            Ok(())
        };
        let pinged = ping();
        echo.join().expect("the echo does not panic").and(pinged)
    })
}

fn hear(stream: &mut TcpStream) -> Verdict {
    let (mut word, mut have) = ([0; 8], 0);
    while have < 8 {
        match stream.read(&mut word[have..]) {
            Ok(0) => return Err("TCP: the other side is gone".to_owned()),
            Ok(read) => have += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => return Err(text(error)),
        }
    }
    Ok(())
}
