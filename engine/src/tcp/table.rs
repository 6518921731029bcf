//! The table of connections.

use super::connection::{ConnId, TcpConnection};

/// The connections by index. Places are used again, and the serial number tells their users apart.
#[derive(Default)]
pub(super) struct ConnTable {
    list: Vec<Option<Box<TcpConnection>>>,
    free: Vec<u32>,
    serial: u32,
}

impl ConnTable {
    /// Takes a free place for a connection. [`ConnTable::put`] or [`ConnTable::release`] follows.
    pub(super) fn reserve(&mut self) -> ConnId {
        // The listener's event data has all bits set.
        self.serial = self.serial.wrapping_add(1) & (u32::MAX >> 1);
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() as u32 - 1
        });
        ConnId { index, serial: self.serial }
    }

    /// Puts a connection into its place.
    pub(super) fn put(&mut self, connection: Box<TcpConnection>) -> &mut TcpConnection {
        let index = connection.id.index as usize;
        self.list[index].insert(connection)
    }

    /// Frees the place of a connection that is out of the table.
    pub(super) fn release(&mut self, id: ConnId) {
        self.free.push(id.index);
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&TcpConnection> {
        let place = self.list.get(id.index as usize)?.as_deref();
        place.filter(|connection| connection.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut TcpConnection> {
        let place = self.list.get_mut(id.index as usize)?.as_deref_mut();
        place.filter(|connection| connection.id == id)
    }

    /// Takes a connection out of the table. Its place stays reserved.
    pub(super) fn take(&mut self, id: ConnId) -> Option<Box<TcpConnection>> {
        self.list.get_mut(id.index as usize)?.take_if(|connection| connection.id == id)
    }

    /// Each connection.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TcpConnection> {
        self.list.iter_mut().filter_map(|place| place.as_deref_mut())
    }

    /// Takes all connections out of the table.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<TcpConnection>> + '_ {
        self.list.iter_mut().filter_map(Option::take)
    }

    /// The number of connections.
    pub(super) fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }
}
