//! Connections between tasks of one runtime.

use std::sync::Arc;
use std::time::Duration;

use braid::{
    Access, ConnectError, Engine, EngineConfig, EngineError, PostError, ProtectionDomain, Status,
};
use braid_tokio::{Buffer, Connection, Error, Listener, Queues};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// A limit far above the duration of these tests.
const PATIENCE: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn engine() -> Result<(Engine, ProtectionDomain), EngineError> {
    let bind = "127.0.0.1:0".parse().expect("an address");
    let engine = Engine::new(EngineConfig { bind, ..EngineConfig::default() })?;
    let pd = engine.alloc_pd();
    Ok((engine, pd))
}

/// Two connected ends.
struct Ends {
    client: Connection,
    server: Connection,
    /// The domain of both.
    pd: ProtectionDomain,
    _engine: Engine,
}

async fn connected(queues: Queues) -> Ends {
    let (engine, pd) = engine().expect("an engine");
    let listener = Listener::new(engine.listen(4).expect("a listener")).expect("it is watched");
    let make = || Connection::with(&engine, &pd, queues).expect("a queue pair");
    let (client, server) = (make(), make());
    let host = format!("localhost:{}", listener.local_addr().port());
    let accept = async { server.accept(listener.accept().await?, b"hello") };
    let connect = client.connect(&host, b"", PATIENCE);
    let (answer, ()) = tokio::try_join!(connect, accept).expect("they connect");
    assert_eq!(answer, b"hello");
    Ends { client, server, pd, _engine: engine }
}

fn test(work: impl AsyncFnOnce()) {
    runtime().block_on(async { timeout(PATIENCE, work()).await.expect("it ends") });
}

#[test]
fn every_operation_moves_its_bytes() {
    test(async || {
        let ends = connected(Queues::default()).await;
        let from = Buffer::from_vec(&ends.pd, b"0123456789".to_vec(), Access::NONE).unwrap();
        let board = Buffer::zeroed(&ends.pd, 16, Access::ALL).unwrap();
        let part = from.slice(2..6).unwrap();
        ends.client.write(&part, board.remote().at(3)).await.unwrap();
        assert_eq!(&board.to_vec()[..8], b"\0\0\x002345\0");
        let back = Buffer::zeroed(&ends.pd, 4, Access::LOCAL_WRITE).unwrap();
        ends.client.read(&back, board.slice(3..).unwrap().remote().at(0)).await.unwrap();
        assert_eq!(back.to_vec(), b"2345");
        let receive = ends.server.recv(&board);
        ends.client.send(&from).await.unwrap();
        assert_eq!(receive.await.unwrap().len, 10);
        assert_eq!(&board.to_vec()[..10], b"0123456789");
        let receive = ends.server.recv(&board);
        ends.client.write_imm(&part, board.remote().at(0), 77).await.unwrap();
        assert_eq!(receive.await.unwrap().imm, Some(77));
        drop(part);
        assert_eq!(from.into_vec().unwrap(), b"0123456789");
    });
}

#[test]
fn more_tasks_than_places_all_get_their_turn() {
    test(async || {
        let ends = connected(Queues { sends: 2, receives: 2 }).await;
        let board = Buffer::zeroed(&ends.pd, 8 * 300, Access::ALL).unwrap();
        let ends = Arc::new(ends);
        let tasks = (0..300_u64).map(|index| {
            let (ends, board) = (ends.clone(), board.clone());
            tokio::spawn(async move {
                let bytes = (index + 1).to_le_bytes().to_vec();
                let from = Buffer::from_vec(&ends.pd, bytes, Access::NONE)?;
                ends.client.write(&from, board.remote().at(8 * index)).await
            })
        });
        let tasks: Vec<_> = tasks.collect();
        // Some are cancelled while they wait for room; the others do not miss their turn.
        tasks.iter().skip(250).for_each(|task| task.abort());
        for (index, task) in tasks.into_iter().enumerate() {
            match task.await {
                Ok(done) => done.unwrap(),
                Err(aborted) => assert!(aborted.is_cancelled() && index >= 250),
            }
        }
        let words = board.to_vec();
        for index in 0..250 {
            let word = u64::from_le_bytes(words[8 * index..8 * index + 8].try_into().unwrap());
            assert_eq!(word, index as u64 + 1);
        }
    });
}

#[test]
fn abandoned_work_keeps_its_memory_and_harms_no_other() {
    test(async || {
        let ends = connected(Queues::default()).await;
        let small = Buffer::zeroed(&ends.pd, 8, Access::LOCAL_WRITE).unwrap();
        // A receive that a `select!` keeps, and one that is dropped with its buffer.
        let mut kept = ends.server.recv(&small);
        let dropped = Buffer::zeroed(&ends.pd, 8, Access::LOCAL_WRITE).unwrap();
        drop((ends.server.recv(&dropped), dropped));
        tokio::select! {
            _ = &mut kept => panic!("nobody has sent"),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        let from = Buffer::from_vec(&ends.pd, b"message".to_vec(), Access::NONE).unwrap();
        ends.client.send(&from).await.unwrap();
        assert_eq!(kept.await.unwrap().len, 7);
        assert_eq!(&small.to_vec()[..7], b"message");
        // Into the abandoned one, whose memory is still registered.
        ends.client.send(&from).await.unwrap();
        let last = ends.server.recv(&small);
        ends.client.send(&from).await.unwrap();
        assert_eq!(last.await.unwrap().len, 7);
    });
}

#[test]
fn the_end_of_a_connection_ends_all_work() {
    test(async || {
        let ends = connected(Queues::default()).await;
        let inbox = Buffer::zeroed(&ends.pd, 8, Access::LOCAL_WRITE).unwrap();
        let receive = ends.client.recv(&inbox);
        drop(ends.server);
        let error = receive.await.unwrap_err();
        let flushed = matches!(error, Error::Failed { status: Status::Flushed, cause: Some(_) });
        assert!(flushed, "{error}");
        let error = ends.client.send(&inbox).await.unwrap_err();
        assert!(matches!(error, Error::Failed { status: Status::Flushed, .. }), "{error}");
        // A receive that outlives its own connection ends as well.
        let ends = connected(Queues::default()).await;
        let inbox = Buffer::zeroed(&ends.pd, 8, Access::LOCAL_WRITE).unwrap();
        let receive = ends.client.recv(&inbox);
        drop(ends.client);
        assert!(matches!(receive.await.unwrap_err(), Error::Dropped));
    });
}

#[test]
fn wrong_uses_are_errors_with_the_reason() {
    let (engine, pd) = engine().unwrap();
    let outside = Connection::new(&engine, &pd).unwrap_err();
    assert!(matches!(outside, Error::NoRuntime), "{outside}");
    test(async || {
        let connection = Connection::with(&engine, &pd, Queues { sends: 1, receives: 1 }).unwrap();
        let buffer = Buffer::zeroed(&pd, 8, Access::NONE).unwrap();
        let early = connection.send(&buffer).await.unwrap_err();
        assert!(matches!(early, Error::Post(PostError::State { .. })), "{early}");
        let read_only = connection.recv(&buffer).await.unwrap_err();
        assert!(matches!(read_only, Error::Post(PostError::Access(_))), "{read_only}");
        let buffer = Buffer::zeroed(&pd, 8, Access::LOCAL_WRITE).unwrap();
        let _first = connection.recv(&buffer);
        let second = connection.recv(&buffer).await.unwrap_err();
        assert!(matches!(second, Error::Post(PostError::QueueFull { .. })), "{second}");
        for (host, limit) in [("no.such.host.invalid", PATIENCE), ("127.0.0.1:9", PATIENCE)] {
            let error = connection.connect(host, b"", limit).await.unwrap_err();
            let is_it = matches!(
                error,
                Error::Connect(ConnectError::Resolve(_) | ConnectError::Unreachable { .. })
            );
            assert!(is_it, "{host}: {error}");
        }
        assert!(buffer.slice(4..9).is_err() && buffer.write(&[0; 9]).is_err());
        assert!(buffer.slice(..=7).unwrap().slice(8..).unwrap().is_empty());
        let zero = Buffer::from_vec(&pd, Vec::new(), Access::NONE).unwrap_err();
        assert!(matches!(zero, Error::Register(_)), "{zero}");
    });
}
