//! The XDP program, which examines every frame that an interface receives. It puts short datagrams
//! for one address and port into the socket of their queue, and leaves other frames to the network
//! stack.
//!
//! The stack also gets some short datagrams: fragments, packets with IP options, datagrams without
//! a checksum, and datagrams whose checksum the network card would have completed. The latter have
//! not left this machine and may be several that the stack sends as one (GSO), which only the stack
//! can split.

use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::LONGEST;
use super::bpf::Instruction;
use super::frame::{
    ETHERNET, FRAGMENT, HEADERS, MAC_LEN, Mac, PROTOCOL_UDP, TYPE_IPV4, VERSION_AND_LENGTH,
};

/// Leave the frame to the network stack (`enum xdp_action`).
pub(super) const XDP_PASS: u32 = 2;
/// Put the frame into the socket of the map.
#[cfg(test)]
pub(super) const XDP_REDIRECT: u32 = 4;

// Members of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

// Fields of the frame.
const TARGET_MAC: i16 = 0;
const ETHER_TYPE: i16 = 2 * MAC_LEN as i16;
const IP: i16 = ETHERNET as i16;
const FRAGMENT_OFFSET: i16 = IP + 6;
const PROTOCOL: i16 = IP + 9;
const SOURCE: i16 = IP + 12;
const DESTINATION: i16 = IP + 16;
const UDP: i16 = IP + 20;
const DESTINATION_PORT: i16 = UDP + 2;
const UDP_LENGTH: i16 = UDP + 4;
const UDP_CHECKSUM: i16 = UDP + 6;
const UDP_HEADER: u32 = 8;

// Instructions (RFC 9669).
const LOAD_8: u8 = 0x71;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const LOAD_MAP: u8 = 0x18;
const PSEUDO_MAP_FD: u8 = 1;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_IMMEDIATE: u8 = 0x07;
const AND_IMMEDIATE: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const TO_BIG_ENDIAN: u8 = 0xdc;
const IF_ABOVE: u8 = 0x2d;
const IF_ABOVE_IMMEDIATE: u8 = 0x25;
const IF_EQUAL: u8 = 0x1d;
/// Compares 32 bits for equality.
const IF_EQUAL_IMMEDIATE: u8 = 0x16;
/// Compares 32 bits for inequality.
const IF_UNEQUAL_IMMEDIATE: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The function `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;

// Registers. A call takes its arguments in 1 to 5 and returns its result in 0.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const FRAME: u8 = 2;
const END: u8 = 3;
const VALUE: u8 = 5;
const KEPT_CONTEXT: u8 = 6;
const LENGTH: u8 = 7;
const SUM: u8 = 8;
const CARRY: u8 = 9;

/// The program for datagrams to `to` in frames to `mac`, with the sockets in `map`.
pub(super) fn program(mac: Mac, to: SocketAddrV4, map: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut code = Assembler::default();
    code.copy(KEPT_CONTEXT, CONTEXT);
    code.load(LOAD_32, END, CONTEXT, DATA_END);
    code.load(LOAD_32, FRAME, CONTEXT, DATA);
    code.copy(VALUE, FRAME);
    code.immediate(ADD_IMMEDIATE, VALUE, HEADERS as i32);
    code.pass_if(IF_ABOVE, VALUE, END);
    // A switch also floods frames for other hosts, and broadcasts have no single destination.
    let [first, second, third, fourth, fifth, sixth] = mac;
    code.need(LOAD_32, TARGET_MAC, i32::from_ne_bytes([first, second, third, fourth]));
    code.need(LOAD_16, TARGET_MAC + 4, u16::from_ne_bytes([fifth, sixth]).into());
    code.need(LOAD_16, ETHER_TYPE, big_endian(TYPE_IPV4));
    code.need(LOAD_8, IP, VERSION_AND_LENGTH.into());
    code.need(LOAD_8, PROTOCOL, PROTOCOL_UDP.into());
    code.need(LOAD_32, DESTINATION, i32::from_ne_bytes(to.ip().octets()));
    code.need(LOAD_16, DESTINATION_PORT, big_endian(to.port()));
    code.load(LOAD_16, VALUE, FRAME, FRAGMENT_OFFSET);
    code.immediate(AND_IMMEDIATE, VALUE, big_endian(FRAGMENT));
    code.pass_if_value(IF_UNEQUAL_IMMEDIATE, 0);
    code.load(LOAD_16, LENGTH, FRAME, UDP_LENGTH);
    code.copy(VALUE, LENGTH);
    code.immediate(TO_BIG_ENDIAN, VALUE, 16);
    code.pass_if_value(IF_ABOVE_IMMEDIATE, (LONGEST as u32 + UDP_HEADER) as i32);
    code.load(LOAD_16, VALUE, FRAME, UDP_CHECKSUM);
    code.pass_if_value(IF_EQUAL_IMMEDIATE, 0);
    sum_pseudo_header(&mut code);
    code.pass_if(IF_EQUAL, SUM, VALUE);
    code.load(LOAD_32, 2, KEPT_CONTEXT, RX_QUEUE_INDEX);
    code.load_map(1, map);
    // The action if the queue has no socket.
    code.immediate(MOVE_IMMEDIATE, 3, XDP_PASS as i32);
    code.immediate(CALL, 0, REDIRECT_MAP);
    code.immediate(EXIT, 0, 0);
    code.finish()
}

/// The value in place of a checksum that the network card would have completed.
fn sum_pseudo_header(code: &mut Assembler) {
    code.load(LOAD_32, SUM, FRAME, SOURCE);
    code.load(LOAD_32, CARRY, FRAME, DESTINATION);
    code.registers(ADD, SUM, CARRY);
    code.registers(ADD, SUM, LENGTH);
    code.immediate(ADD_IMMEDIATE, SUM, big_endian(PROTOCOL_UDP.into()));
    // The sum has 33 bits, then 18, 17 and 16.
    for _ in 0..3 {
        code.copy(CARRY, SUM);
        code.immediate(SHIFT_RIGHT, CARRY, 16);
        code.immediate(AND_IMMEDIATE, SUM, 0xffff);
        code.registers(ADD, SUM, CARRY);
    }
}

/// The value as the program loads it from a field of the frame.
fn big_endian(value: u16) -> i32 {
    value.to_be().into()
}

#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    /// The jumps to the instruction that leaves the frame to the stack.
    to_pass: Vec<usize>,
}

impl Assembler {
    fn add(&mut self, code: u8, (target, source): (u8, u8), offset: i16, immediate: i32) {
        let registers = target | source << 4;
        self.code.push(Instruction { code, registers, offset, immediate });
    }

    fn registers(&mut self, code: u8, target: u8, source: u8) {
        self.add(code, (target, source), 0, 0);
    }

    fn immediate(&mut self, code: u8, target: u8, immediate: i32) {
        self.add(code, (target, 0), 0, immediate);
    }

    fn copy(&mut self, target: u8, source: u8) {
        self.registers(MOVE, target, source);
    }

    fn load(&mut self, code: u8, target: u8, base: u8, offset: i16) {
        self.add(code, (target, base), offset, 0);
    }

    fn load_map(&mut self, target: u8, map: BorrowedFd<'_>) {
        self.add(LOAD_MAP, (target, PSEUDO_MAP_FD), 0, map.as_raw_fd());
        self.add(0, (0, 0), 0, 0);
    }

    fn pass_if(&mut self, code: u8, left: u8, right: u8) {
        self.to_pass.push(self.code.len());
        self.registers(code, left, right);
    }

    fn pass_if_value(&mut self, code: u8, immediate: i32) {
        self.to_pass.push(self.code.len());
        self.immediate(code, VALUE, immediate);
    }

    /// Requires a field of the frame to have this value.
    fn need(&mut self, load: u8, field: i16, value: i32) {
        self.load(load, VALUE, FRAME, field);
        self.pass_if_value(IF_UNEQUAL_IMMEDIATE, value);
    }

    fn finish(mut self) -> Vec<Instruction> {
        let pass = self.code.len();
        self.immediate(MOVE_IMMEDIATE, RESULT, XDP_PASS as i32);
        self.immediate(EXIT, 0, 0);
        for jump in self.to_pass {
            // An offset counts from the next instruction.
            self.code[jump].offset = (pass - jump - 1) as i16;
        }
        self.code
    }
}
