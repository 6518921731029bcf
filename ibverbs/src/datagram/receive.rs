//! Receiving datagrams.

use braid::{Completion, ConnectionRequest, Status};

use super::datagrams::Datagrams;
use crate::connect::hello::Hello;
use crate::qp::queue_pair::QueuePair;
use crate::routes::Route;

impl QueuePair {
    /// A completed receive, as the program sees it. `None`: the sender is gone, and the receive
    /// takes another datagram.
    pub(crate) fn on_datagram(&self, completion: Completion) -> Option<Completion> {
        let datagrams = self.datagrams.as_ref()?;
        let Some(posted) = &datagrams.posted else { return Some(completion) };
        let wr = posted.take(completion.wr_id)?;
        if completion.status == Status::Flushed && self.takes_datagrams() {
            let again = posted.keep(wr);
            // The queue has room, because the receive has just left it.
            let _ = datagrams.receives.post_recv(again);
            return None;
        }
        Some(Completion { wr_id: wr.id, ..completion })
    }

    /// Accepts or rejects a flow from another queue pair.
    pub(crate) fn take_flow(
        &self,
        datagrams: &Datagrams,
        hello: &Hello,
        request: ConnectionRequest,
    ) {
        if hello.key != Some(self.q_key()) || !self.takes_datagrams() {
            return request.reject();
        }
        let Ok(engine) = datagrams.engine_qp(&self.queues) else { return request.reject() };
        let (number, source) = (self.number, hello.from.number);
        self.running.routes.set(engine.number(), Route::Incoming { number, source });
        match request.accept(&engine, &[]) {
            Ok(()) => {
                let mut flows = datagrams.flows();
                // Forget the flows of peers that are gone.
                flows.incoming.retain(|_, other| other.state() != braid::QpState::Error);
                flows.incoming.insert(engine.number().get(), engine);
            }
            Err(error) => {
                tracing::debug!(qp = number, %error, "a flow of datagrams was not accepted")
            }
        }
    }
}
