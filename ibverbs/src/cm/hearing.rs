//! Connections to a listener that have not said yet what they want.
//!
//! Each has a thread that reads, and anybody can make one and say nothing, or a byte now and then. So there are only so many at
//! once: one more takes the place of the oldest, as in a TCP listener's cache of half-open connections (RFC 4987, section 3.4).

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// So many. Who connects in earnest is through in two round trips.
const MOST: usize = 128;

/// Those connections, oldest first.
#[derive(Default)]
pub(super) struct Hearing(Mutex<VecDeque<Arc<TcpStream>>>);

impl Hearing {
    /// Somebody has connected. The oldest ends where there are too many.
    pub(super) fn begin(&self, stream: &Arc<TcpStream>) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.push_back(stream.clone());
        if streams.len() > MOST
            && let Some(oldest) = streams.pop_front()
        {
            // Its thread reads the end.
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    /// It has been heard, or will not be. Returns whether it has kept its place until now.
    pub(super) fn end(&self, stream: &Arc<TcpStream>) -> bool {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = streams.iter().position(|other| Arc::ptr_eq(other, stream));
        place.and_then(|place| streams.remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_says_nothing_gives_way_to_those_who_come_later() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (hearing, mut near, mut far) = (Hearing::default(), Vec::new(), Vec::new());
        for _ in 0..MOST + 3 {
            near.push(TcpStream::connect(listener.local_addr().expect("bound")).expect("room"));
            let (stream, _) = listener.accept().expect("somebody connects");
            far.push(Arc::new(stream));
            hearing.begin(far.last().expect("just pushed"));
        }
        for mut ended in &near[..3] {
            assert_eq!(ended.read(&mut [0]).expect("the end, and no error"), 0);
        }
        let limit = Some(Duration::from_millis(1));
        near[3].set_read_timeout(limit).expect("a time");
        assert!(near[3].read(&mut [0]).is_err(), "it has its place still");
        let kept = far.iter().filter(|stream| hearing.end(stream)).count();
        assert_eq!(kept, MOST);
        assert!(!hearing.end(&far[5]), "it has ended");
    }
}
