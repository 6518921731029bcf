//! Invalid arguments: each must end in an error code, and none in a crash.

use std::ffi::c_int;
use std::ptr;

use super::check::{Check, Stage};
use crate::handle::Handle;
use crate::net::{CUDA, HOST, INVALID_ARGUMENT, NULL, Net, Recv, SUCCESS, Send};
use crate::pair::{Memory, Pair, Verdict, ensure, listen, returns};

pub(super) const CHECKS: &[Check] = &[
    Check::new("NULL before connecting", null_before),
    Check::new("NULL on a connection", null_on_a_connection),
    Check::new("wrong arguments", wrong),
];

fn refused(call: &str, code: c_int) -> Verdict {
    returns(call, code, INVALID_ARGUMENT)
}

fn null_before(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let (mut handle, mut comm) = (Handle([0; 128]), NULL);
        let (nowhere, no_handle) = (ptr::null_mut(), ptr::null_mut());
        refused("listen(handle NULL)", net.listen(ctx, 0, no_handle, &raw mut comm))?;
        refused("listen(comm NULL)", net.listen(ctx, 0, &raw mut handle, nowhere))?;
        refused("listen(device 99)", net.listen(ctx, 99, &raw mut handle, &raw mut comm))?;
        refused("connect(handle NULL)", net.connect(ctx, 0, no_handle, &raw mut comm))?;
        refused("connect(comm NULL)", net.connect(ctx, 0, &raw mut handle, nowhere))?;
        refused("accept(listenComm NULL)", net.accept(NULL, &raw mut comm))?;
        refused("closeSend(NULL)", net.close_send(NULL))?;
        refused("closeRecv(NULL)", net.close_recv(NULL))?;
        refused("closeListen(NULL)", net.close_listen(NULL))?;
        if net.has_context() {
            refused("listen(ctx NULL)", net.listen(NULL, 0, &raw mut handle, &raw mut comm))?;
            refused("finalize(NULL)", net.finalize(NULL))?;
        }
        let (listener, mut good) = listen(net, ctx, 0)?;
        refused("accept(recvComm NULL)", net.accept(listener, nowhere))?;
        refused("connect(device -1)", net.connect(ctx, -1, &raw mut good, &raw mut comm))?;
        returns("closeListen", net.close_listen(listener), SUCCESS)
    })
}

fn null_on_a_connection(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(4096)?;
        registering(pair.net, pair, &mut from)?;
        let data = from.at(0);
        let send =
            Send { comm: pair.send, data, size: 8, tag: 0, mhandle: from.mhandle, phandle: NULL };
        let mut request = NULL;
        let isend = |send: Send, request| pair.net.isend(&send, request);
        refused("isend(comm NULL)", isend(Send { comm: NULL, ..send }, &raw mut request))?;
        refused(
            "isend(data NULL)",
            isend(Send { data: ptr::null_mut(), ..send }, &raw mut request),
        )?;
        refused("isend(mhandle NULL)", isend(Send { mhandle: NULL, ..send }, &raw mut request))?;
        refused("isend(request NULL)", isend(send, ptr::null_mut()))?;
        let mut irecv = |change: fn(&mut Recv), request| {
            let mut recv = pair.receive(&mut to, &[(0, 8, 0)]);
            change(&mut recv);
            pair.net.irecv(&mut recv, request)
        };
        refused("irecv(comm NULL)", irecv(|recv| recv.comm = NULL, &raw mut request))?;
        refused("irecv(data[0] NULL)", irecv(|recv| recv.data[0] = NULL, &raw mut request))?;
        refused("irecv(mhandles[0] NULL)", irecv(|r| r.mhandles[0] = NULL, &raw mut request))?;
        refused("irecv(request NULL)", irecv(|_| (), ptr::null_mut()))?;
        let mut done = 0;
        refused("test(request NULL)", pair.net.test(NULL, &raw mut done, ptr::null_mut()))?;
        let received = pair.irecv(&mut to, &[(0, 8, 0)])?;
        let no_done = pair.net.test(received.0, ptr::null_mut(), ptr::null_mut());
        refused("test(done NULL)", no_done)?;
        // Nothing of that has broken the connection.
        let sent = pair.isend(&mut from, 0, 8, 0)?;
        pair.wait(received)?;
        pair.wait(sent)?;
        pair.exchange(1000, 1)
    })
}

fn registering(net: &Net, pair: &Pair<'_>, memory: &mut Memory<'_>) -> Verdict {
    let (mut mhandle, data) = (NULL, memory.at(0));
    refused("regMr(comm NULL)", net.reg_mr(NULL, data, 8, HOST, &raw mut mhandle))?;
    let nothing = net.reg_mr(pair.send, ptr::null_mut(), 8, HOST, &raw mut mhandle);
    refused("regMr(data NULL)", nothing)?;
    refused("regMr(mhandle NULL)", net.reg_mr(pair.send, data, 8, HOST, ptr::null_mut()))?;
    refused("deregMr(mhandle NULL)", net.dereg_mr(pair.send, NULL))
}

fn wrong(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(4096)?;
        let mut mhandle = NULL;
        let on_gpu = pair.net.reg_mr(pair.recv, to.at(0), 8, CUDA, &raw mut mhandle);
        refused("regMr of GPU memory", on_gpu)?;
        let mut request = NULL;
        for n in [-1, 0, 9] {
            let mut recv = pair.receive(&mut to, &[(0, 8, 0); 8]);
            recv.n = n;
            refused(&format!("irecv(n = {n})"), pair.net.irecv(&mut recv, &raw mut request))?;
        }
        if pair.net.version <= 8 {
            let (data, size) = (from.at(0), u32::MAX as usize);
            let mhandle = from.mhandle;
            let send = Send { comm: pair.send, data, size, tag: 0, mhandle, phandle: NULL };
            refused("isend(size -1)", pair.net.isend(&send, &raw mut request))?;
        }
        // The wrong kind of communicator.
        let (data, mhandle) = (from.at(0), from.mhandle);
        let send = Send { comm: pair.recv, data, size: 8, tag: 0, mhandle, phandle: NULL };
        refused("isend on a receive communicator", pair.net.isend(&send, &raw mut request))?;
        ensure!(request.is_null(), "a call that failed gave a request");
        let mut recv = pair.receive(&mut to, &[(0, 8, 0)]);
        recv.comm = pair.send;
        refused("irecv on a send communicator", pair.net.irecv(&mut recv, &raw mut request))?;
        pair.exchange(1000, 1)
    })
}
