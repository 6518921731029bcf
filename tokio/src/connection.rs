//! A queue pair whose work is awaited.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use braid::{
    Completion, ConnectError, ConnectionRequest, Engine, PostError, ProtectionDomain, QpOptions,
    QpState, QueuePair, RemoteAddr, SendWr, wr,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;

use crate::completions::{Cause, Outstanding, Receive, deliver, outcome};
use crate::watch::{runtime, watch};
use crate::{Buffer, Error};

/// The places of a connection's queues. Posts to a full send queue wait; those to a full receive
/// queue fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queues {
    /// Sends, WRITEs, READs and atomics. Default: 128.
    pub sends: u32,
    /// Receives. Default: 128.
    pub receives: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Queues { sends: 128, receives: 128 }
    }
}

/// A reliable connection to a peer, of one task or of several that share it.
///
/// Dropping it tells the peer, ends what is outstanding, and releases its memory.
#[derive(Debug)]
pub struct Connection {
    // Dropped first: no completion comes afterwards.
    qp: Arc<QueuePair>,
    outstanding: Arc<Outstanding>,
    delivery: AbortHandle,
    room: AsyncFd<OwnedFd>,
    /// Held by the task that waits for room, so that no task takes another's wake-up.
    turn: Mutex<()>,
    places: Places,
}

/// The free places of the completion queue. A queue pair has room again before the completion of
/// earlier work has been taken.
#[derive(Debug)]
struct Places {
    sends: Arc<Semaphore>,
    receives: Arc<Semaphore>,
    most_receives: u32,
}

impl Places {
    fn new(queues: Queues) -> Self {
        let places = |count: u32| Arc::new(Semaphore::new(count as usize));
        let (sends, receives) = (places(queues.sends), places(queues.receives));
        Places { sends, receives, most_receives: queues.receives }
    }
}

impl Connection {
    /// Creates a queue pair with the default [`Queues`], which can receive and is not connected.
    ///
    /// # Errors
    /// The queue pair cannot be created, or there is no runtime of tokio.
    pub fn new(engine: &Engine, pd: &ProtectionDomain) -> Result<Self, Error> {
        Self::with(engine, pd, Queues::default())
    }

    /// Creates a queue pair with queues of some size, see [`Connection::new`].
    ///
    /// # Errors
    /// As for [`Connection::new`].
    pub fn with(engine: &Engine, pd: &ProtectionDomain, queues: Queues) -> Result<Self, Error> {
        let runtime = runtime()?;
        let Queues { sends, receives } = queues;
        let cq = engine.create_cq(sends as usize + receives as usize)?;
        let qp = pd.create_qp(QpOptions::new(&cq, &cq).queues(sends, receives))?;
        qp.modify(QpState::Init).expect("a new queue pair may go to INIT");
        let room = qp.send_room().and_then(|room| room.try_clone_to_owned());
        let room = watch(room.map_err(Error::Watch)?)?;
        let outstanding = Arc::new(Outstanding::default());
        let delivery = runtime.spawn(deliver(watch(cq)?, outstanding.clone())).abort_handle();
        let (qp, places) = (Arc::new(qp), Places::new(queues));
        Ok(Connection { qp, outstanding, delivery, room, turn: Mutex::new(()), places })
    }

    /// Connects to a host by its name or address, with a port or without (see [`braid::resolve`]),
    /// and sends up to 512 bytes of private data to its application. All addresses of a name are
    /// tried. Returns the private data of the answer.
    ///
    /// Dropping the future cancels the attempt, and another one may follow.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub async fn connect(
        &self,
        host: &str,
        private_data: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, Error> {
        let host = host.to_owned();
        // The resolver of the system blocks.
        let found = runtime()?.spawn_blocking(move || braid::resolve(&host, braid::DEFAULT_PORT));
        let addrs = found.await.map_err(|_| Error::NoRuntime)?.map_err(ConnectError::from)?;
        let attempt = watch(self.qp.begin_connect_any(&addrs, private_data, timeout)?)?;
        loop {
            if let Some(result) = attempt.get_ref().result() {
                return Ok(result?);
            }
            attempt.readable().await.map_err(Error::Watch)?.clear_ready();
        }
    }

    /// Accepts a connection request. Its peer gets up to 512 bytes of private data.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub fn accept(&self, request: ConnectionRequest, private_data: &[u8]) -> Result<(), Error> {
        Ok(request.accept(&self.qp, private_data)?)
    }

    /// Writes a buffer to the peer's memory, whose application takes no part.
    ///
    /// # Errors
    /// [`Error::Post`], [`Error::Failed`].
    pub async fn write(&self, from: &Buffer, to: RemoteAddr) -> Result<(), Error> {
        let piece = from.piece()?;
        self.run(from, |id| wr::write(id, [piece], to)).await.map(drop)
    }

    /// Writes a buffer to the peer's memory and completes a receive of the peer with `imm`.
    ///
    /// # Errors
    /// As for [`Connection::write`].
    pub async fn write_imm(&self, from: &Buffer, to: RemoteAddr, imm: u32) -> Result<(), Error> {
        let piece = from.piece()?;
        self.run(from, |id| wr::write_imm(id, [piece], to, imm)).await.map(drop)
    }

    /// Reads the peer's memory into a buffer.
    ///
    /// # Errors
    /// As for [`Connection::write`].
    pub async fn read(&self, into: &Buffer, from: RemoteAddr) -> Result<(), Error> {
        let piece = into.piece()?;
        self.run(into, |id| wr::read(id, [piece], from)).await.map(drop)
    }

    /// Sends a buffer into a receive of the peer. Ends when the message is there.
    ///
    /// # Errors
    /// As for [`Connection::write`].
    pub async fn send(&self, from: &Buffer) -> Result<(), Error> {
        let piece = from.piece()?;
        self.run(from, |id| wr::send(id, [piece])).await.map(drop)
    }

    /// Posts a receive now, even before the connection exists. The returned future ends with the
    /// message, or with the error of posting.
    pub fn recv(&self, into: &Buffer) -> Receive {
        let piece = match into.piece() {
            Ok(piece) => piece,
            Err(error) => return Receive::failed(error),
        };
        let Ok(place) = self.places.receives.clone().try_acquire_owned() else {
            let capacity = self.places.most_receives;
            return Receive::failed(PostError::QueueFull { capacity, queue: "recv" }.into());
        };
        let (id, completion) = match self.outstanding.add(into, place) {
            Ok(added) => added,
            Err(error) => return Receive::failed(error),
        };
        match self.qp.post_recv(wr::recv(id, [piece])) {
            Ok(()) => Receive::posted(completion, Cause::of(&self.qp)),
            Err(error) => {
                drop(self.outstanding.remove(id));
                Receive::failed(error.into())
            }
        }
    }

    /// Disconnects. Both ends flush what is outstanding.
    pub fn disconnect(&self) {
        self.qp.disconnect();
    }

    /// The queue pair, for its state, counters and degradations. Work that is posted here directly
    /// needs a completion queue of its own.
    pub fn queue_pair(&self) -> &QueuePair {
        &self.qp
    }

    /// Posts a work request as soon as there is room, and waits for its end.
    async fn run(
        &self,
        buffer: &Buffer,
        work: impl Fn(u64) -> SendWr,
    ) -> Result<Completion, Error> {
        let place = self.places.sends.clone().acquire_owned().await;
        let place = place.map_err(|_| Error::Dropped)?;
        let completion = match self.try_post(buffer, &work, place)? {
            Posted::Done(completion) => completion,
            Posted::NoRoom(place) => self.post_with_room(buffer, &work, place).await?,
        };
        outcome(completion.await, &Cause::of(&self.qp))
    }

    async fn post_with_room(
        &self,
        buffer: &Buffer,
        work: impl Fn(u64) -> SendWr,
        mut place: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Completion>, Error> {
        let _turn = self.turn.lock().await;
        loop {
            self.qp.notify_send_room();
            place = match self.try_post(buffer, &work, place)? {
                Posted::Done(completion) => return Ok(completion),
                Posted::NoRoom(place) => place,
            };
            self.room.readable().await.map_err(Error::Watch)?.clear_ready();
        }
    }

    fn try_post(
        &self,
        buffer: &Buffer,
        work: impl Fn(u64) -> SendWr,
        place: OwnedSemaphorePermit,
    ) -> Result<Posted, Error> {
        let (id, completion) = self.outstanding.add(buffer, place)?;
        let Err(error) = self.qp.post_send(work(id)) else { return Ok(Posted::Done(completion)) };
        match (error, self.outstanding.remove(id)) {
            (PostError::QueueFull { .. }, Some(place)) => Ok(Posted::NoRoom(place)),
            (error, _) => Err(error.into()),
        }
    }
}

/// The outcome of an attempt to post.
enum Posted {
    Done(oneshot::Receiver<Completion>),
    /// The queue pair has no room yet. The place in the completion queue stays reserved.
    NoRoom(OwnedSemaphorePermit),
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.delivery.abort();
    }
}
