//! The clients of one address, which one thread serves side by side. None waits for another that is
//! silent or slow.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::engines::ServedEngines;
use super::stream::{ClientStream, ServerSocket};
use super::{exposition, http};
use crate::event_fd::EventFd;

/// The longest duration of a connection.
const PATIENCE: Duration = Duration::from_secs(1);
/// The largest number of connections. A further one replaces the oldest.
const MAX_CLIENTS: usize = 64;
/// Time for which a page is served again, so that frequent requests do not burden the workers.
const FRESH: Duration = Duration::from_millis(100);
/// Time without accepting after an error of the system.
const PAUSE: Duration = Duration::from_millis(100);

/// The thread's state for one address.
pub(super) struct Clients<'a> {
    listening: &'a ServerSocket,
    stop: &'a EventFd,
    page: Page<'a>,
    /// The connections, oldest first.
    connected: Vec<Client>,
    /// The time before which no client is accepted.
    paused_until: Option<Instant>,
    /// Whether the log has reported that no client can be accepted.
    is_told: bool,
}

/// A connected client.
struct Client {
    stream: ClientStream,
    until: Instant,
    request: Vec<u8>,
    /// The part of the answer that is not written yet. Empty: the request is being read.
    answer: Vec<u8>,
    written: usize,
}

/// The page with the state of all engines, which is rendered again when it is old.
struct Page<'a> {
    engines: &'a ServedEngines,
    made: Option<(Instant, String)>,
}

impl<'a> Clients<'a> {
    pub(super) fn new(
        listening: &'a ServerSocket,
        engines: &'a ServedEngines,
        stop: &'a EventFd,
    ) -> Self {
        let (page, connected) = (Page { engines, made: None }, Vec::new());
        Clients { listening, stop, page, connected, paused_until: None, is_told: false }
    }

    /// Serves clients until the server is stopped.
    pub(super) fn serve(&mut self) {
        while !self.wait() {
            let now = Instant::now();
            self.paused_until.take_if(|until| *until <= now);
            if self.paused_until.is_none() {
                self.accept(now);
            }
            let page = &mut self.page;
            // A client that does not read, or does not finish in time, is disconnected.
            self.connected.retain_mut(|client| now < client.until && client.proceed(page));
        }
    }

    /// Sleeps until there is something to do. Returns whether to stop.
    fn wait(&self) -> bool {
        let listening = self.paused_until.is_none().then(|| self.listening.as_fd());
        let reading = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let clients = self.connected.iter().map(|one| PollFd::new(one.stream.as_fd(), one.wants()));
        let others = listening.into_iter().map(reading).chain(clients);
        let mut polled: Vec<PollFd<'_>> =
            [reading(self.stop.as_fd())].into_iter().chain(others).collect();
        let ends = self.connected.iter().map(|client| client.until).chain(self.paused_until);
        let left = ends.min().map(|end| end.saturating_duration_since(Instant::now()));
        // Rounded up, because an early time-out would only be followed by another.
        let millis = |left: Duration| PollTimeout::try_from(left + Duration::from_millis(1));
        let limit = left.map_or(PollTimeout::NONE, |left| millis(left).unwrap_or(PollTimeout::MAX));
        // After a signal no descriptor is ready, which is harmless.
        let _ = poll(&mut polled, limit);
        polled[0].any().unwrap_or(false)
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..MAX_CLIENTS {
            let stream = match self.listening.accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                // The listener stays readable, for example at the limit of open files. Without a
                // pause this would be a busy loop.
                Err(error) => {
                    self.paused_until = Some(now + PAUSE);
                    if !std::mem::replace(&mut self.is_told, true) {
                        tracing::warn!(
                            %error,
                            "nobody who asks for metrics can be accepted: trying again"
                        );
                    }
                    return;
                }
            };
            self.is_told = false;
            if self.connected.len() == MAX_CLIENTS {
                self.connected.remove(0);
            }
            self.connected.push(Client::new(stream, now + PATIENCE));
        }
    }
}

impl Client {
    fn new(stream: ClientStream, until: Instant) -> Self {
        Client { stream, until, request: Vec::new(), answer: Vec::new(), written: 0 }
    }

    fn wants(&self) -> PollFlags {
        if self.answer.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT }
    }

    /// Reads and writes without blocking. Returns `false` when the connection is over.
    fn proceed(&mut self, page: &mut Page<'_>) -> bool {
        match self.read(page).and_then(|()| self.write()) {
            Ok(()) => self.answer.is_empty() || self.written < self.answer.len(),
            Err(why) => matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn read(&mut self, page: &mut Page<'_>) -> io::Result<()> {
        let mut some = [0; 1024];
        while self.answer.is_empty() {
            let count = self.stream.read(&mut some)?;
            self.request.extend_from_slice(&some[..count]);
            if count == 0 || http::is_read(&self.request) {
                self.answer = http::answer(&self.request, || page.get());
            }
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer[self.written..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => self.written += count,
            }
        }
        Ok(())
    }
}

impl Page<'_> {
    fn get(&mut self) -> String {
        let fresh = self.made.take_if(|(made, _)| made.elapsed() < FRESH);
        let made = fresh.unwrap_or_else(|| (Instant::now(), exposition::page(self.engines)));
        self.made.insert(made).1.clone()
    }
}
