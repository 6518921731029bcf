//! An echo server, `cargo run -p braid-tokio --example server`, with a client that tries it.

use std::error::Error;
use std::time::Duration;

use braid::{Access, ConnectionRequest, Engine, EngineConfig, ProtectionDomain};
use braid_tokio::{Buffer, Connection, Listener};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Serves one client until it disconnects.
async fn serve(engine: Engine, pd: ProtectionDomain, request: ConnectionRequest) -> Result<()> {
    let connection = Connection::new(&engine, &pd)?;
    let inbox = Buffer::zeroed(&pd, 4096, Access::LOCAL_WRITE)?;
    let mut receive = connection.recv(&inbox);
    connection.accept(request, b"")?;
    while let Ok(message) = receive.await {
        let reply = Buffer::from_vec(&pd, inbox.slice(..message.len)?.to_vec(), Access::NONE)?;
        receive = connection.recv(&inbox);
        connection.send(&reply).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
    let (pd, listener) = (engine.alloc_pd(), Listener::new(engine.listen(64)?)?);
    let client = tokio::spawn(ask(listener.local_addr().to_string()));
    let server = async {
        loop {
            tokio::spawn(serve(engine.clone(), pd.clone(), listener.accept().await?));
        }
    };
    tokio::select! { answer = client => answer?, failed = server => failed }
}

/// Sends a message and prints the echo.
async fn ask(host: String) -> Result<()> {
    let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
    let pd = engine.alloc_pd();
    let connection = Connection::new(&engine, &pd)?;
    connection.connect(&host, b"", Duration::from_secs(10)).await?;
    let inbox = Buffer::zeroed(&pd, 4096, Access::LOCAL_WRITE)?;
    let receive = connection.recv(&inbox);
    connection.send(&Buffer::from_vec(&pd, b"over many paths".to_vec(), Access::NONE)?).await?;
    let message = receive.await?;
    println!("{}", String::from_utf8(inbox.slice(..message.len)?.to_vec())?);
    Ok(())
}

#[test]
fn the_echo_comes_back() {
    main().unwrap();
}
