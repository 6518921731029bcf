//! Braid's queue pairs in programs of the runtime tokio.
//!
//! A [`Connection`] is a queue pair whose work is awaited: [`Connection::write`],
//! [`Connection::read`], [`Connection::send`] and [`Connection::recv`]. A post waits for room in
//! the send queue without blocking a thread. A [`Listener`] accepts connections. Memory is a
//! [`Buffer`], which stays registered until the work that uses it has ended.
//!
//! Threads of the engine move the packets ([`braid::Progress::Threads`], the default), so that no
//! task has to poll. The engine itself needs no runtime.
//!
//! **Cancellation.** Dropping a future before its work is posted leaves no trace. Work that is
//! posted goes on, as hardware has no way back either: its buffer stays registered until then, and
//! its completion is discarded. A message that arrives in an abandoned receive is lost to the
//! program, so a `select!` polls a [`Receive`] by reference and keeps it.
//!
//! ```
//! use std::time::Duration;
//!
//! use braid::{Access, Engine, EngineConfig};
//! use braid_tokio::{Buffer, Connection, Listener};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
//! let pd = engine.alloc_pd();
//! let listener = Listener::new(engine.listen(8)?)?;
//! let host = engine.local_addr().to_string();
//!
//! let server = async {
//!     let connection = Connection::new(&engine, &pd)?;
//!     let inbox = Buffer::zeroed(&pd, 64, Access::LOCAL_WRITE)?;
//!     let receive = connection.recv(&inbox); // posted before the client may send
//!     connection.accept(listener.accept().await?, b"welcome")?;
//!     let message = receive.await?;
//!     Ok::<_, Box<dyn std::error::Error>>(inbox.slice(..message.len)?.to_vec())
//! };
//! let client = async {
//!     let connection = Connection::new(&engine, &pd)?;
//!     let answer = connection.connect(&host, b"", Duration::from_secs(10)).await?;
//!     assert_eq!(answer, b"welcome");
//!     let hello = Buffer::from_vec(&pd, b"hello".to_vec(), Access::NONE)?;
//!     connection.send(&hello).await?;
//!     Ok(())
//! };
//! let (message, ()) = tokio::try_join!(server, client)?;
//! assert_eq!(message, b"hello");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod buffer;
mod completions;
mod connection;
mod error;
mod listener;
mod watch;

pub use buffer::Buffer;
pub use completions::{Message, Receive};
pub use connection::{Connection, Queues};
pub use error::Error;
pub use listener::Listener;
