//! A first program, `cargo run --example first`: a server and a client in one process, over UDP.
//!
//! The server sends the client the key of a part of its memory. The client writes into it without
//! involving the server, and then sends a message to notify the server.

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use braid::wr::{self, SendWrExt};
use braid::{Access, Engine, EngineConfig, Listener, QpOptions, QpState, RemoteRegion};

const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
    let (listener, addr) = (engine.listen(1)?, engine.local_addr());
    let server = thread::spawn(move || serve(&engine, &listener).map_err(|e| e.to_string()));
    client(addr)?;
    Ok(server.join().expect("the server does not panic")?)
}

fn serve(engine: &Engine, listener: &Listener) -> Result<(), Box<dyn Error>> {
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(1024)?);
    let board = pd.alloc_mr(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let inbox = pd.alloc_mr(4096, Access::LOCAL_WRITE)?;
    let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
    qp.modify(QpState::Init)?; // Receives can be posted from now on.
    qp.post_recv(wr::recv(1, [inbox.slice(..)?]))?;

    let request = listener.accept(PATIENCE).ok_or("nobody came")?;
    request.accept(&qp, &board.remote().to_bytes())?;

    for done in cq.wait(PATIENCE)? {
        let mut text = vec![0; done.len as usize];
        inbox.read_at(0, &mut text)?;
        println!("server: {:?} {}: {:?}", done.work, done.status, String::from_utf8(text)?);
    }
    let mut text = vec![0; 21];
    board.read_at(0, &mut text)?;
    println!("server: on the board: {:?}", String::from_utf8(text)?);
    Ok(())
}

fn client(addr: SocketAddr) -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(1024)?);
    let text = pd.alloc_mr(4096, Access::NONE)?;
    text.write_at(0, b"placed by the network")?;
    let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
    let board = RemoteRegion::from_bytes(&qp.connect(addr, b"", PATIENCE)?)?;

    qp.post_send(wr::write(1, [text.slice(..21)?], board.at(0)).unsignalled())?;
    qp.post_send_inline(wr::send(2, []), b"look at the board")?;
    // Work completes in posting order, so the WRITE has completed when the SEND has.
    cq.wait(PATIENCE)?.iter().for_each(|c| println!("client: {:?} {}", c.work, c.status));
    Ok(())
}
