//! Braid in an asynchronous program, here with tokio. The descriptors of listeners, connection
//! attempts and completion queues wake tasks, and one thread runs both ends.
//!
//! `cargo run -p braid-examples --example async`

use std::error::Error;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use braid::{
    Access, Completion, CompletionQueue, ConnectionRequest, Engine, EngineConfig, Listener,
    QpOptions, QpState, QueuePair, Status, wr,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(10);
const MESSAGES: u64 = 1000;
const LEN: usize = 64;

fn main() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let echoed = runtime.block_on(async {
        let server = engine()?;
        let listener = server.listen(8)?;
        let addr = listener.local_addr();
        let (_, echoed) = tokio::try_join!(serve(&server, listener), ask(addr))?;
        Ok::<u64, Box<dyn Error>>(echoed)
    })?;
    println!("{echoed} messages of {LEN} bytes came back");
    Ok(())
}

fn engine() -> Result<Engine> {
    // Threads of the engine move the packets, and its descriptors report their progress.
    let config = EngineConfig { bind: "127.0.0.1:0".parse()?, ..EngineConfig::default() };
    Ok(Engine::new(config)?)
}

/// Echoes every message.
async fn serve(engine: &Engine, listener: Listener) -> Result<()> {
    let end = End::new(engine)?;
    end.qp.post_recv(wr::recv(0, [end.memory.slice(..LEN)?]))?;
    accept(&watch(listener)?).await?.accept(&end.qp, &[])?;
    let queue = watch(end.cq.clone())?;
    for id in 0..MESSAGES {
        expect(&next(&queue).await?)?;
        end.qp.post_send(wr::send(id, [end.memory.slice(..LEN)?]))?;
        expect(&next(&queue).await?)?;
        if id + 1 < MESSAGES {
            end.qp.post_recv(wr::recv(id, [end.memory.slice(..LEN)?]))?;
        }
    }
    Ok(())
}

/// Sends numbers, and checks their echoes.
async fn ask(addr: SocketAddr) -> Result<u64> {
    let engine = engine()?;
    let end = End::new(&engine)?;
    let attempt = watch(end.qp.begin_connect(addr, &[], PATIENCE)?)?;
    let _ = attempt.readable().await?;
    attempt.get_ref().result().ok_or("readable before its end")??;
    let queue = watch(end.cq.clone())?;
    for id in 0..MESSAGES {
        end.qp.post_recv(wr::recv(id, [end.memory.slice(LEN..2 * LEN)?]))?;
        end.memory.write_at(0, &id.to_le_bytes())?;
        end.qp.post_send(wr::send(id, [end.memory.slice(..LEN)?]))?;
        // The completions of the send and of the receive.
        expect(&next(&queue).await?)?;
        expect(&next(&queue).await?)?;
        let mut back = [0; 8];
        end.memory.read_at(LEN, &mut back)?;
        if u64::from_le_bytes(back) != id {
            return Err(format!("{id} came back as {}", u64::from_le_bytes(back)).into());
        }
    }
    Ok(MESSAGES)
}

/// The objects of one end.
struct End {
    cq: CompletionQueue,
    qp: QueuePair,
    memory: braid::MemoryRegion,
}

impl End {
    fn new(engine: &Engine) -> Result<Self> {
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
        let memory = pd.alloc_mr(2 * LEN, Access::LOCAL_WRITE)?;
        let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
        qp.modify(QpState::Init)?;
        Ok(End { cq, qp, memory })
    }
}

/// Registers a descriptor with the runtime.
#[expect(
    deprecated,
    reason = "the other way in is unsafe; these own their descriptors, and keep them open"
)]
fn watch<T: AsRawFd>(it: T) -> Result<AsyncFd<T>> {
    Ok(AsyncFd::new(it)?)
}

/// Returns the next connection request.
async fn accept(listener: &AsyncFd<Listener>) -> Result<ConnectionRequest> {
    loop {
        if let Some(request) = listener.get_ref().accept(Duration::ZERO) {
            return Ok(request);
        }
        listener.readable().await?.clear_ready();
    }
}

/// Returns the next completion: arms, polls, and sleeps only if there is none. A completion after
/// the poll makes the descriptor readable.
async fn next(queue: &AsyncFd<CompletionQueue>) -> Result<Completion> {
    loop {
        if let Some(completion) = queue.get_ref().poll_one()? {
            return Ok(completion);
        }
        queue.get_ref().notify(false);
        if let Some(completion) = queue.get_ref().poll_one()? {
            return Ok(completion);
        }
        queue.readable().await?.clear_ready();
    }
}

fn expect(completion: &Completion) -> Result<()> {
    match completion.status {
        Status::Success => Ok(()),
        status => Err(format!("{:?} {}: {status}", completion.work, completion.wr_id).into()),
    }
}

#[test]
fn every_message_comes_back() {
    main().unwrap();
}
