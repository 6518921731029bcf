//! WRITEs that a peer has not allowed: `breach DEV` waits for `breach DEV HOST:PORT`, over an RDMA
//! device. `cargo xtask softroce` runs it.
//!
//! Before each breach the client writes a page that it may write, so that the NIC has come to place
//! its WRITEs unseen. Each breach ends in an error at the client, and no page at the server has
//! changed but that which it may write.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use braid::wr;
use braid::{
    Access, Completion, CompletionQueue, Datapath, Engine, EngineConfig, QpOptions, QpState,
    RemoteAddr, RemoteRegion, Status, VerbsOptions,
};

const PORT: u16 = 7200;
const PAGE: usize = 4096;
const WARM_UPS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(10);
/// The contents of memory that no request may change.
const KEPT: u8 = 0x55;
const ALLOWED: u8 = 0x11;
const BREACH: u8 = 0xEE;

/// The regions of the server: a writable page, one without permission, one of another protection
/// domain, and one that is not registered any more.
type Regions = [RemoteRegion; 4];

type Target = fn(&Regions) -> RemoteAddr;

/// Where a WRITE of a page must not go.
const BREACHES: [(&str, Target); 6] = [
    ("wrong key", |[page, ..]| RemoteAddr { rkey: page.rkey ^ 0x155, ..page.at(0) }),
    ("past the end", |[page, ..]| page.at(64)),
    ("before the start", |[page, ..]| page.at(64u64.wrapping_neg())),
    ("no permission", |[_, kept, ..]| kept.at(0)),
    ("another domain's", |[_, _, foreign, _]| foreign.at(0)),
    ("deregistered", |[.., gone]| gone.at(0)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let device = args.next().ok_or("usage: breach DEV [HOST:PORT]")?;
    match args.next() {
        Some(host) => breach(&device, host.parse()?),
        None => be_breached(&device),
    }
}

fn engine(device: &str, port: u16) -> Result<Engine, Box<dyn Error>> {
    let bind = SocketAddr::from(([0, 0, 0, 0], port));
    let datapath = Datapath::Verbs(VerbsOptions::new(device));
    Ok(Engine::new(EngineConfig { datapath, bind, paths: 1, ..EngineConfig::default() })?)
}

fn be_breached(device: &str) -> Result<(), Box<dyn Error>> {
    let engine = engine(device, PORT)?;
    let (pd, other_pd, cq) = (engine.alloc_pd(), engine.alloc_pd(), engine.create_cq(64)?);
    let page = pd.alloc_mr(PAGE, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let kept = pd.alloc_mr(PAGE, Access::LOCAL_WRITE)?;
    let foreign = other_pd.alloc_mr(PAGE, Access::ALL)?;
    let gone = pd.alloc_mr(PAGE, Access::ALL)?.remote();
    kept.write_at(0, &[KEPT; PAGE])?;
    foreign.write_at(0, &[KEPT; PAGE])?;
    let regions = [page.remote(), kept.remote(), foreign.remote(), gone].map(|r| r.to_bytes());
    let listener = engine.listen(1)?;
    for (name, _) in BREACHES {
        let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
        qp.modify(QpState::Init)?;
        qp.post_recv(wr::recv(0, []))?;
        let request = listener.accept(PATIENCE).ok_or("nobody came")?;
        request.accept(&qp, &regions.concat())?;
        // Nothing is sent: the receive ends with the connection.
        next(&cq)?;
        for (of, memory) in [("kept", &kept), ("foreign", &foreign)] {
            let mut bytes = [0; PAGE];
            memory.read_at(0, &mut bytes)?;
            if bytes != [KEPT; PAGE] {
                return Err(format!("{name}: the {of} page is not what it was").into());
            }
        }
    }
    println!("intact");
    Ok(())
}

fn breach(device: &str, host: SocketAddr) -> Result<(), Box<dyn Error>> {
    let engine = engine(device, 0)?;
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
    let text = pd.alloc_mr(PAGE, Access::LOCAL_WRITE)?;
    for (name, target) in BREACHES {
        let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
        let told = qp.connect(host, b"", PATIENCE)?;
        let regions = regions(&told)?;
        text.write_at(0, &[ALLOWED; PAGE])?;
        for id in 0..WARM_UPS {
            qp.post_send(wr::write(id, [text.slice(..)?], regions[0].at(0)))?;
            let done = next(&cq)?;
            if done.status != Status::Success {
                return Err(format!("{name}: what is allowed ended with {}", done.status).into());
            }
        }
        text.write_at(0, &[BREACH; PAGE])?;
        qp.post_send(wr::write(WARM_UPS, [text.slice(..)?], target(&regions)))?;
        let done = next(&cq)?;
        if done.status != Status::RemoteAccess {
            return Err(format!("{name}: ended with {}", done.status).into());
        }
    }
    println!("{} breaches refused", BREACHES.len());
    Ok(())
}

fn regions(told: &[u8]) -> Result<Regions, Box<dyn Error>> {
    let each = told.chunks(told.len() / 4).map(RemoteRegion::from_bytes);
    let regions: Vec<RemoteRegion> = each.collect::<Result<_, _>>()?;
    regions.try_into().map_err(|_| "the server tells of other regions".into())
}

/// Waits for the completion of the only outstanding work request.
fn next(cq: &CompletionQueue) -> Result<Completion, Box<dyn Error>> {
    let done = cq.wait(PATIENCE)?;
    done.first().copied().ok_or_else(|| "nothing has completed in time".into())
}
