//! A WRITE that the network holds back until its buffer is in other use: `late-write DEV` waits for
//! `late-write DEV HOST:PORT`. `cargo xtask softroce` runs it and makes the network hold the packet
//! back.
//!
//! The client writes a page, over and over until the NIC places it unseen, then says so and waits
//! for the file `late-write.go`. The page that it writes then is delayed on its way; its
//! retransmission is not. As soon as that has completed the server fills the page with something
//! else, and watches it for four seconds.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use braid::wr;
use braid::{
    Access, CompletionQueue, Datapath, Engine, EngineConfig, MemoryRegion, QpOptions, QpState,
    QueuePair, RemoteRegion, Status, VerbsOptions,
};

const PORT: u16 = 7100;
/// With the headers of RoCE this is one packet of a path MTU of 4096.
const PAGE: usize = 4096;
const WARM_UPS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(10);
const WATCH: Duration = Duration::from_secs(4);
/// The contents that the server gives the page after the write has completed.
const REUSED: u8 = 0x55;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let device = args.next().ok_or("usage: late-write DEV [HOST:PORT]")?;
    match args.next() {
        Some(host) => write_late(&device, host.parse()?),
        None => be_written(&device),
    }
}

fn engine(device: &str, port: u16) -> Result<Engine, Box<dyn Error>> {
    let bind = SocketAddr::from(([0, 0, 0, 0], port));
    let datapath = Datapath::Verbs(VerbsOptions::new(device));
    // So that a page is one segment, and one packet.
    let mtu = Some(PAGE as u16);
    Ok(Engine::new(EngineConfig { datapath, bind, paths: 2, mtu, ..EngineConfig::default() })?)
}

fn be_written(device: &str) -> Result<(), Box<dyn Error>> {
    let engine = engine(device, PORT)?;
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
    let page = pd.alloc_mr(PAGE, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
    qp.modify(QpState::Init)?;
    for id in 0..=WARM_UPS {
        qp.post_recv(wr::recv(id, []))?;
    }
    let listener = engine.listen(1)?;
    let request = listener.accept(PATIENCE).ok_or("nobody came")?;
    request.accept(&qp, &page.remote().to_bytes())?;
    ended(&cq, WARM_UPS + 1)?;
    page.write_at(0, &[REUSED; PAGE])?;
    println!("written, and in other use");
    watch(&page)?;
    println!("intact");
    Ok(())
}

fn watch(page: &MemoryRegion) -> Result<(), Box<dyn Error>> {
    let (start, mut bytes) = (Instant::now(), [0; PAGE]);
    while start.elapsed() < WATCH {
        page.read_at(0, &mut bytes)?;
        if bytes != [REUSED; PAGE] {
            let late = start.elapsed();
            return Err(format!("a late WRITE has landed {late:?} after its completion").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn write_late(device: &str, host: SocketAddr) -> Result<(), Box<dyn Error>> {
    let engine = engine(device, 0)?;
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
    let text = pd.alloc_mr(PAGE, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
    let page = RemoteRegion::from_bytes(&qp.connect(host, b"", PATIENCE)?)?;
    for id in 0..WARM_UPS {
        write(&qp, &cq, &text, &page, id)?;
        thread::sleep(Duration::from_millis(20));
    }
    println!("ready");
    while !Path::new("late-write.go").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let before = qp.counters().retransmitted;
    write(&qp, &cq, &text, &page, WARM_UPS)?;
    if qp.counters().retransmitted == before {
        return Err("nothing was sent again: the WRITE was not held back".into());
    }
    println!("completed, after it was sent again");
    // Whoever leaves closes the way for what is late. That would prove nothing.
    thread::sleep(WATCH + Duration::from_secs(1));
    Ok(())
}

fn write(
    qp: &QueuePair,
    cq: &CompletionQueue,
    text: &MemoryRegion,
    page: &RemoteRegion,
    id: u64,
) -> Result<(), Box<dyn Error>> {
    text.write_at(0, &[id as u8; PAGE])?;
    qp.post_send(wr::write_imm(id, [text.slice(..)?], page.at(0), id as u32))?;
    ended(cq, 1)
}

/// Waits until so many work requests have ended well.
fn ended(cq: &CompletionQueue, mut count: u64) -> Result<(), Box<dyn Error>> {
    while count > 0 {
        let some = cq.wait(PATIENCE)?;
        if some.is_empty() {
            return Err("nothing has completed in time".into());
        }
        for done in some {
            if done.status != Status::Success {
                return Err(format!("{:?} {}", done.work, done.status).into());
            }
            count -= 1;
        }
    }
    Ok(())
}
