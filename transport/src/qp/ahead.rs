//! Segments whose payload is still arriving, which a driver reads straight into its place.

use braid_wire::{DataHeader, Opcode, Time};

use super::arrive::stream_of;
use super::connected::ConnectedQp;
use crate::{Access, Arrival, Regions, SgList, Sge, sg_list};

impl ConnectedQp {
    /// Returns the place of the payload of a segment that has not arrived as a whole, if it may be
    /// written there now. Nothing is recorded: the whole segment is handed in by
    /// [`crate::Endpoint::on_arrival`]. Until then the answer may change, so ask before each write.
    pub(crate) fn place_ahead(
        &mut self,
        now: Time,
        arrival: &Arrival<'_>,
        regions: &Regions,
    ) -> Option<SgList> {
        let header = arrival.header;
        self.examine(now, stream_of(header.opcode), arrival).ok()?;
        match header.opcode {
            Opcode::Write | Opcode::WriteImm => self.written_ahead(header, regions),
            Opcode::Send | Opcode::SendImm => {
                let posted = self.qp.rq.get(self.qp.rq.expand(header.number)?)?;
                let fits = u64::from(header.message_len) <= posted.capacity;
                let sges = Some(&posted.wr.sges).filter(|_| fits)?;
                self.received_ahead(sges, header, regions)
            }
            Opcode::ReadResponse => {
                let (_, entry) = self.streams.requests.queue.awaiting(header.number)?;
                let fits = entry.len == header.message_len && !entry.wr.op.is_atomic();
                let sges = Some(&entry.wr.sges).filter(|_| fits)?;
                self.received_ahead(sges, header, regions)
            }
            _ => None,
        }
    }

    fn written_ahead(&self, header: &DataHeader, regions: &Regions) -> Option<SgList> {
        let needed = Access::REMOTE_WRITE;
        let message = self.check_remote(header, header.message_len, needed, regions).ok()?;
        let mut pieces = SgList::new();
        let addr = message.wrapping_add(header.offset.into());
        pieces.push(Sge { addr, len: header.len.into(), lkey: header.rkey });
        Some(pieces)
    }

    fn received_ahead(
        &self,
        sges: &SgList,
        header: &DataHeader,
        regions: &Regions,
    ) -> Option<SgList> {
        let mut pieces = sg_list::slice(sges, header.offset, header.len.into())?;
        self.check_local(&mut pieces, regions).ok()?;
        Some(pieces)
    }
}
