-- Braid's packets in Wireshark and tshark: docs/wire.md says what each field means.
--
--   tshark -X lua_script:braid.lua -r capture.pcapng
--   Wireshark: copy this file into the folder "Personal Lua Plugins" of Help > About > Folders
--
-- Packets of UDP port 4791 and, of any other, those that begin as Braid's do and have the right check. What sends in
-- batches is seen in batches where the capture is taken above the segmentation: all packets of one are shown.

local bit = rawget(_G, "bit") or rawget(_G, "bit32") or load([[return {
  band = function(a, b) return a & b end, bxor = function(a, b) return a ~ b end,
  rshift = function(a, n) return a >> n end }]])()

local VERSION = 3
local PORT = 4791
local FIRST_PATH_PORT = 0xC000
-- More in one datagram than any batch has.
local MAX_PACKETS = 256

local OPCODES = {
  [0xC0] = "SEND", [0xC1] = "SEND with immediate", [0xC2] = "WRITE", [0xC3] = "WRITE with immediate",
  [0xC4] = "READ request", [0xC5] = "READ response", [0xC6] = "compare-and-swap", [0xC7] = "fetch-and-add",
  [0xC8] = "atomic response", [0xD0] = "ACK", [0xD1] = "CREDIT request", [0xD2] = "CREDIT grant", [0xE0] = "HELLO", [0xE1] = "COOKIE", [0xE2] = "CONNECT",
  [0xE3] = "ACCEPT", [0xE4] = "REJECT", [0xE5] = "DISCONNECT", [0xE6] = "CONFIRM", [0xE7] = "PING",
  [0xE8] = "PONG", [0xE9] = "UNKNOWN", [0xEA] = "PROBE", [0xEB] = "PROBED", [0xEC] = "PART",
  [0xED] = "sealed packet", [0xEE] = "sealed CONNECT", [0xEF] = "sealed ACCEPT",
}
local REFUSALS = {
  [0] = "none", [0x20] = "receiver not ready", [0x61] = "invalid request", [0x62] = "remote access",
  [0x63] = "remote operational",
}
local REASONS = {
  [0] = "none", "nobody listens there", "the backlog is full", "refused by the application", "another version",
  "wrong or old cookie", "datapaths do not fit", "it has no key", "it takes keyed connections only", "its key is another one",
  "no cipher in common", "its list does not allow this static key", "the static key of the listener is not allowed",
  "a pre-shared key here, a static one there",
}
local STREAMS = { [0] = "requests", "responses" }

local braid = Proto("braid", "Braid RDMA transport")
braid.prefs.payload_checks =
  Pref.bool("Verify payload checks", false, "A CRC-32 over every payload, which takes its time")

local f = {}
local function field(name, make, title, ...)
  f[name] = make("braid." .. name, title, ...)
end

field("opcode", ProtoField.uint8, "Opcode", base.HEX, OPCODES)
field("solicited", ProtoField.bool, "Solicited event", 8, nil, 0x80)
field("pkey", ProtoField.uint16, "Partition key", base.HEX)
field("qp", ProtoField.uint32, "Receiving queue pair", base.HEX, nil, 0xFFFFFF)
field("ack_requested", ProtoField.bool, "Acknowledgement requested", 32, nil, 0x80000000)
field("psn", ProtoField.uint32, "PSN", base.DEC, nil, 0xFFFFFF)
field("version", ProtoField.uint8, "Version")
field("path", ProtoField.uint16, "Path, by its source port")
field("token", ProtoField.uint32, "Token of the receiver", base.HEX)
field("header_check", ProtoField.uint32, "Check", base.HEX)
field("check_ok", ProtoField.bool, "Check is right")

field("last", ProtoField.bool, "Last segment of its message", 8, nil, 0x01)
field("repeated", ProtoField.bool, "Not the first transmission", 8, nil, 0x02)
field("payload_len", ProtoField.uint16, "Payload length")
field("number", ProtoField.uint32, "Number")
field("address", ProtoField.uint64, "Address", base.HEX)
field("rkey", ProtoField.uint32, "Remote key", base.HEX)
field("message_len", ProtoField.uint32, "Message length")
field("offset", ProtoField.uint32, "Offset in the message")
field("imm", ProtoField.uint32, "Immediate data", base.HEX)
field("stamp", ProtoField.uint32, "Stamp, 16 ns")
field("payload_check", ProtoField.uint32, "Payload check", base.HEX)
field("payload_check_ok", ProtoField.bool, "Payload check is right")
field("swap", ProtoField.uint64, "To swap in, or to add", base.HEX)
field("compare", ProtoField.uint64, "To compare with", base.HEX)
field("payload", ProtoField.bytes, "Payload")
field("padding", ProtoField.bytes, "Padding")

field("refusal", ProtoField.uint8, "Refusal", base.HEX, REFUSALS)
field("bitmap_words", ProtoField.uint8, "Words of the bitmap")
field("stream", ProtoField.uint8, "Stream", base.DEC, STREAMS)
field("highest", ProtoField.uint32, "Highest PSN that has arrived", base.DEC, nil, 0xFFFFFF)
field("refused_psn", ProtoField.uint32, "Refused PSN", base.DEC, nil, 0xFFFFFF)
field("rnr_delay", ProtoField.uint32, "Receiver not ready for (us)")
field("echo_path", ProtoField.uint16, "Path of the echoed packet", base.DEC, nil, 0x0FFF)
field("echo_rail", ProtoField.uint16, "Its rail", base.DEC, nil, 0x7000)
field("marked_paths", ProtoField.uint16, "Paths with marks")
field("ack_delay", ProtoField.uint32, "Held back for (ns)")
field("received", ProtoField.uint32, "Packets so far")
field("duplicates", ProtoField.uint32, "Duplicates among them")
field("bitmap", ProtoField.uint64, "Bitmap", base.HEX)
field("mark_path", ProtoField.uint16, "Marked path", base.DEC, nil, 0x0FFF)
field("mark_rail", ProtoField.uint16, "Its rail", base.DEC, nil, 0x7000)
field("marks", ProtoField.uint16, "Marks so far")

field("credit_rail", ProtoField.uint8, "Rail")
field("granted", ProtoField.uint64, "Bytes granted so far")
field("credit_rate", ProtoField.uint64, "Rate of the receiver's link (bit/s)")
field("credit_target", ProtoField.uint64, "Bytes to have been sent")
field("unsolicited", ProtoField.uint64, "Bytes sent without credit")
field("credit_lost", ProtoField.uint64, "Bytes sent and lost")

field("sender", ProtoField.uint32, "Queue pair of the sender", base.HEX, nil, 0xFFFFFF)
field("last_request", ProtoField.uint32, "Requests below have arrived", base.DEC, nil, 0xFFFFFF)
field("last_response", ProtoField.uint32, "Responses below have arrived", base.DEC, nil, 0xFFFFFF)

field("probe_size", ProtoField.uint16, "Size of the datagram")
field("serial", ProtoField.uint32, "Serial", base.HEX)
field("part", ProtoField.uint8, "Part")
field("parts", ProtoField.uint8, "Parts of the packet")

field("reason", ProtoField.uint8, "Reason", base.DEC, REASONS)
field("nonce", ProtoField.uint64, "Nonce", base.HEX)
field("cookie", ProtoField.uint64, "Cookie", base.HEX)
field("key_id", ProtoField.uint64, "Static key of the listener, in this attempt", base.HEX)
field("offer_qp", ProtoField.uint32, "Offered queue pair", base.HEX, nil, 0xFFFFFF)
field("offer_token", ProtoField.uint32, "Offered token", base.HEX)
field("offer_psn", ProtoField.uint32, "First PSN", base.DEC, nil, 0xFFFFFF)
field("instance", ProtoField.uint64, "Instance", base.HEX)
field("rails", ProtoField.uint8, "Further rails")
field("mtu", ProtoField.uint16, "Largest payload of a segment")
field("receive_buffer", ProtoField.uint32, "Bytes that its socket holds")
field("window", ProtoField.uint16, "Packets that it tracks")
field("max_rd_atomic", ProtoField.uint8, "READs and atomics at a time")
field("payload_crc", ProtoField.uint8, "Payload checks wanted")
field("private_len", ProtoField.uint16, "Bytes of private data")
field("rnic_len", ProtoField.uint16, "Bytes about its RNIC")
field("private_data", ProtoField.bytes, "Private data")
field("rnic", ProtoField.bytes, "How its RNIC is reached")
field("rail_address", ProtoField.ipv6, "Rail's address")
field("rail_port", ProtoField.uint16, "Rail's port")

field("transmission", ProtoField.uint64, "Number of this transmission")
field("sealed", ProtoField.bytes, "Sealed, and its tag")
field("exchange", ProtoField.bytes, "Message of the key exchange")

local fields = {}
for _, one in pairs(f) do fields[#fields + 1] = one end
braid.fields = fields

local malformed = ProtoExpert.new("braid.malformed", "Not a whole packet", expert.group.MALFORMED, expert.severity.ERROR)
local damaged = ProtoExpert.new("braid.damaged", "The check is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
local foreign = ProtoExpert.new("braid.other_version", "Another version", expert.group.PROTOCOL, expert.severity.WARN)
braid.experts = { malformed, damaged, foreign }

-- CRC-32 (IEEE 802.3), as zlib's.
local crc_table = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do
    local odd = bit.band(c, 1) == 1
    c = bit.rshift(c, 1)
    if odd then c = bit.bxor(c, 0xEDB88320) end
  end
  crc_table[i] = c
end

local function crc32(texts)
  local crc = 0xFFFFFFFF
  for _, text in ipairs(texts) do
    for i = 1, #text do
      crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, text:byte(i)), 0xFF)])
    end
  end
  -- One of the libraries has signed numbers.
  return bit.bxor(crc, 0xFFFFFFFF) % 0x100000000
end

-- How long the packet at the start of `tvb` is, what its check covers, and where that stands. nil: not whole.
local layouts = {}

local function is_data(opcode) return opcode >= 0xC0 and opcode <= 0xC8 end
local function has_operands(opcode) return opcode == 0xC6 or opcode == 0xC7 end

local function data_layout(tvb, opcode)
  if tvb:len() < 60 then return nil end
  local header = has_operands(opcode) and 76 or 60
  local len = header + tvb(14, 2):uint()
  if tvb:len() < len then return nil end
  return { len = len, header = header, check = 56, covers = { { 0, 56 }, { 60, header - 60 } } }
end

local function until_check(tvb, len)
  if len < 16 or tvb:len() < len then return nil end
  return { len = len, check = len - 4, covers = { { 0, len - 4 } } }
end

local function ack_layout(tvb)
  if tvb:len() < 56 then return nil end
  return until_check(tvb, 52 + 8 * tvb(14, 1):uint() + 4 * tvb(34, 2):uint() + 4)
end

local function probe_layout(tvb)
  if tvb:len() < 32 then return nil end
  local size = tvb(14, 2):uint()
  if size < 32 then return nil end
  return until_check(tvb, size)
end

local function part_layout(tvb)
  if tvb:len() < 29 then return nil end
  local is_last = tvb(13, 1):uint() + 1 >= tvb(14, 1):uint()
  local len = is_last and tvb:len() or 28 + 1172
  if tvb:len() < len then return nil end
  return { len = len, check = 24, covers = { { 0, 24 } } }
end

-- It does not say how long it is: a batch of them is shown as one. Its tag is its check, and takes the key.
local function sealed_layout(tvb)
  return tvb:len() >= 44 and { len = tvb:len() } or nil
end

-- The header of a sealed packet has nothing in it but those of its fields that are shown.
local function is_sealed(tvb)
  return tvb(1, 1):uint() == 0 and tvb(8, 4):uint() == 0 and tvb(13, 3):uint() == 0
end

for opcode = 0xC0, 0xC8 do layouts[opcode] = data_layout end
layouts[0xD0] = ack_layout
layouts[0xD1] = function(tvb) return until_check(tvb, 64) end
layouts[0xD2] = function(tvb) return until_check(tvb, 32) end
-- HELLO and COOKIE are padded, CONNECT and ACCEPT end with the datagram: no batch holds them.
for opcode = 0xE0, 0xE3 do layouts[opcode] = function(tvb) return tvb:len() >= 36 and until_check(tvb, tvb:len()) or nil end end
-- A COOKIE has the identity of a key behind what the others begin with.
layouts[0xE1] = function(tvb) return tvb:len() >= 44 and until_check(tvb, tvb:len()) or nil end
layouts[0xE4] = function(tvb) return until_check(tvb, 36) end
for opcode = 0xE5, 0xE9 do layouts[opcode] = function(tvb) return until_check(tvb, 40) end end
layouts[0xEA] = probe_layout
layouts[0xEB] = function(tvb) return until_check(tvb, 32) end
layouts[0xEC] = part_layout
layouts[0xED] = sealed_layout
for opcode = 0xEE, 0xEF do layouts[opcode] = layouts[0xE2] end

local function check_is_right(tvb, layout)
  local covered = {}
  for _, range in ipairs(layout.covers) do
    if range[2] > 0 then covered[#covered + 1] = tvb:raw(range[1], range[2]) end
  end
  return crc32(covered) == tvb(layout.check, 4):uint()
end

-- The fields of each kind, from byte 13 on.
local function all(tree, tvb, list)
  for _, one in ipairs(list) do tree:add(f[one[1]], tvb(one[2], one[3])) end
end

local function data_fields(tree, tvb, opcode, layout)
  all(tree, tvb, {
    { "last", 13, 1 }, { "repeated", 13, 1 }, { "payload_len", 14, 2 }, { "token", 16, 4 }, { "number", 20, 4 },
    { "address", 24, 8 }, { "rkey", 32, 4 }, { "message_len", 36, 4 }, { "offset", 40, 4 }, { "imm", 44, 4 },
    { "stamp", 48, 4 }, { "payload_check", 52, 4 },
  })
  if has_operands(opcode) then all(tree, tvb, { { "swap", 60, 8 }, { "compare", 68, 8 } }) end
  local len = layout.len - layout.header
  if len == 0 then return "" end
  tree:add(f.payload, tvb(layout.header, len))
  local told = tvb(52, 4):uint()
  if braid.prefs.payload_checks and told ~= 0 then
    local right = crc32({ tvb:raw(layout.header, len) }) == told
    tree:add(f.payload_check_ok, tvb(52, 4), right):set_generated()
    if not right then tree:add_proto_expert_info(damaged) end
  end
  return string.format(" bytes %u to %u of %u", tvb(40, 4):uint(), tvb(40, 4):uint() + len, tvb(36, 4):uint())
end

local function ack_fields(tree, tvb)
  all(tree, tvb, {
    { "refusal", 13, 1 }, { "bitmap_words", 14, 1 }, { "stream", 15, 1 }, { "token", 16, 4 }, { "highest", 20, 4 },
    { "refused_psn", 24, 4 }, { "rnr_delay", 28, 4 }, { "echo_path", 32, 2 }, { "echo_rail", 32, 2 },
    { "marked_paths", 34, 2 }, { "stamp", 36, 4 }, { "ack_delay", 40, 4 }, { "received", 44, 4 }, { "duplicates", 48, 4 },
  })
  local words, marked = tvb(14, 1):uint(), tvb(34, 2):uint()
  for word = 0, words - 1 do tree:add(f.bitmap, tvb(52 + 8 * word, 8)) end
  for mark = 0, marked - 1 do
    local at = 52 + 8 * words + 4 * mark
    all(tree, tvb, { { "mark_path", at, 2 }, { "mark_rail", at, 2 }, { "marks", at + 2, 2 } })
  end
  local refusal = tvb(13, 1):uint()
  local said = refusal ~= 0 and (", " .. (REFUSALS[refusal] or "unknown refusal")) or ""
  return " of " .. (STREAMS[tvb(15, 1):uint()] or "no stream") .. said
end

local function credit_fields(tree, tvb, opcode)
  all(tree, tvb, { { "stream", 13, 1 }, { "credit_rail", 14, 1 }, { "token", 16, 4 }, { "granted", 20, 8 } })
  if opcode == 0xD1 then
    all(tree, tvb, {
      { "credit_rate", 28, 8 }, { "credit_target", 36, 8 }, { "unsolicited", 44, 8 }, { "credit_lost", 52, 8 },
    })
  end
  return " of " .. (STREAMS[tvb(13, 1):uint()] or "no stream")
end

local function control_fields(tree, tvb, opcode)
  local disconnects = opcode == 0xE5
  if disconnects then all(tree, tvb, { { "refusal", 13, 1 } }) end
  all(tree, tvb, { { "token", 16, 4 }, { "sender", 20, 4 }, { "stamp", 24, 4 } })
  if disconnects then all(tree, tvb, { { "last_request", 28, 4 }, { "last_response", 32, 4 } }) end
  return ""
end

local function probe_fields(tree, tvb)
  all(tree, tvb, { { "probe_size", 14, 2 }, { "token", 16, 4 }, { "sender", 20, 4 }, { "serial", 24, 4 } })
  return string.format(" %u bytes", tvb(14, 2):uint())
end

local function part_fields(tree, tvb, _, layout)
  all(tree, tvb, { { "part", 13, 1 }, { "parts", 14, 1 }, { "token", 16, 4 }, { "serial", 20, 4 } })
  tree:add(f.payload, tvb(28, layout.len - 28))
  return string.format(" %u of %u", tvb(13, 1):uint(), tvb(14, 1):uint())
end

-- Returns nil if the lengths that it says do not fit.
local function offer_fields(tree, tvb, len)
  if len < 72 then return nil end
  all(tree, tvb, {
    { "offer_qp", 32, 4 }, { "offer_token", 36, 4 }, { "offer_psn", 40, 4 }, { "instance", 44, 8 }, { "rails", 52, 1 },
    { "mtu", 54, 2 }, { "receive_buffer", 56, 4 }, { "window", 60, 2 }, { "max_rd_atomic", 62, 1 }, { "payload_crc", 63, 1 },
    { "private_len", 64, 2 }, { "rnic_len", 66, 2 },
  })
  local private, rnic, at = tvb(64, 2):uint(), tvb(66, 2):uint(), 68
  if at + private + rnic > len - 4 then return nil end
  if private > 0 then tree:add(f.private_data, tvb(at, private)) end
  at = at + private
  if rnic > 0 then tree:add(f.rnic, tvb(at, rnic)) end
  at = at + rnic
  for _ = 1, tvb(52, 1):uint() do
    if at + 20 > len - 4 then return nil end
    local more = tvb(at + 18, 2):uint()
    if at + 20 + more > len - 4 then return nil end
    all(tree, tvb, { { "rail_address", at, 16 }, { "rail_port", at + 16, 2 } })
    if more > 0 then tree:add(f.rnic, tvb(at + 20, more)) end
    at = at + 20 + more
  end
  return string.format(" offers queue pair 0x%06x", bit.band(tvb(32, 4):uint(), 0xFFFFFF))
end

local function setup_fields(tree, tvb, opcode, layout)
  if opcode == 0xE4 then all(tree, tvb, { { "reason", 13, 1 } }) end
  all(tree, tvb, { { "nonce", 16, 8 } })
  if opcode == 0xE1 or opcode == 0xE2 then all(tree, tvb, { { "cookie", 24, 8 } }) end
  if opcode == 0xE1 then all(tree, tvb, { { "key_id", 32, 8 } }) end
  if opcode == 0xE4 then return ": " .. (REASONS[tvb(13, 1):uint()] or "unknown reason") end
  if opcode == 0xE2 or opcode == 0xE3 then return offer_fields(tree, tvb, layout.len) end
  return string.format(" %u bytes", layout.len)
end

local function sealed_fields(tree, tvb)
  all(tree, tvb, { { "token", 16, 4 }, { "transmission", 20, 8 } })
  tree:add(f.sealed, tvb(28))
  return " " .. tostring(tvb(20, 8):uint64())
end

local function exchange_fields(tree, tvb, opcode, layout)
  all(tree, tvb, { { "nonce", 16, 8 } })
  if opcode == 0xEE then all(tree, tvb, { { "cookie", 24, 8 } }) end
  tree:add(f.exchange, tvb(32, layout.len - 36))
  return string.format(" %u bytes", layout.len)
end

local kinds = { [0xD0] = ack_fields, [0xEA] = probe_fields, [0xEB] = probe_fields, [0xEC] = part_fields }
for opcode = 0xD1, 0xD2 do kinds[opcode] = credit_fields end
for opcode = 0xC0, 0xC8 do kinds[opcode] = data_fields end
for opcode = 0xE0, 0xE4 do kinds[opcode] = setup_fields end
for opcode = 0xE5, 0xE9 do kinds[opcode] = control_fields end
kinds[0xED] = sealed_fields
for opcode = 0xEE, 0xEF do kinds[opcode] = exchange_fields end

local function begin_fields(tree, tvb, pinfo, opcode)
  all(tree, tvb, {
    { "opcode", 0, 1 }, { "solicited", 1, 1 }, { "pkey", 2, 2 }, { "qp", 4, 4 }, { "ack_requested", 8, 4 }, { "psn", 8, 4 },
    { "version", 12, 1 },
  })
  if (is_data(opcode) or opcode == 0xD0 or opcode == 0xEC) and pinfo.src_port >= FIRST_PATH_PORT then
    tree:add(f.path, tvb(0, 0), bit.band(pinfo.src_port, 0x0FFF)):set_generated()
  end
end

-- One packet. Returns its length, or nil where the rest of the datagram is not understood.
local function packet(tvb, pinfo, root)
  if tvb:len() < 13 then
    root:add(braid, tvb()):add_proto_expert_info(malformed)
    return nil
  end
  local opcode = tvb(0, 1):uint()
  local layout = layouts[opcode] and layouts[opcode](tvb, opcode)
  local tree = root:add(braid, layout and tvb(0, layout.len) or tvb())
  begin_fields(tree, tvb, pinfo, opcode)
  if tvb(12, 1):uint() ~= VERSION then
    tree:add_proto_expert_info(foreign)
    return nil
  end
  local said = layout and kinds[opcode](tree, tvb, opcode, layout)
  if not said then
    tree:add_proto_expert_info(malformed)
    return nil
  end
  if layout.check then
    local right = check_is_right(tvb, layout)
    tree:add(f.header_check, tvb(layout.check, 4))
    tree:add(f.check_ok, tvb(layout.check, 4), right):set_generated()
    if not right then tree:add_proto_expert_info(damaged) end
  end
  local psn = (is_data(opcode) or opcode == 0xD0) and string.format(" PSN %u", bit.band(tvb(8, 4):uint(), 0xFFFFFF)) or ""
  local line = OPCODES[opcode] .. psn .. said
  tree:append_text(", " .. line)
  return layout.len, line
end

-- The zeros behind a payload that make packets of a batch alike.
local function padding(tvb, at)
  local len = 0
  while at + len < tvb:len() and tvb(at + len, 1):uint() == 0 do len = len + 1 end
  return len
end

function braid.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "Braid"
  local at, count, first = 0, 0, nil
  while at < tvb:len() and count < MAX_PACKETS do
    local len, line = packet(tvb(at):tvb(), pinfo, root)
    count, first = count + 1, first or line
    if not len then break end
    at = at + len
    local zeros = padding(tvb, at)
    if zeros > 0 then root:add(f.padding, tvb(at, zeros)) end
    at = at + zeros
  end
  local more = count > 1 and string.format(" and %u more", count - 1) or ""
  pinfo.cols.info = (first or "not understood") .. more
  return tvb:len()
end

-- Plain RoCEv2 has opcodes of its own on the same port.
local ports = DissectorTable.get("udp.port")
local roce = ports:get_dissector(PORT)
local by_port = Proto("braid_port", "Braid or RoCEv2")
function by_port.dissector(tvb, pinfo, root)
  if tvb:len() > 0 and tvb(0, 1):uint() >= 0xC0 or not roce then return braid.dissector(tvb, pinfo, root) end
  -- What it says of a malformed packet is an error here, and in the tree already.
  pcall(roce.call, roce, tvb, pinfo, root)
  return tvb:len()
end
ports:add(PORT, by_port)

braid:register_heuristic("udp", function(tvb, pinfo, root)
  if tvb:len() < 28 or tvb(12, 1):uint() ~= VERSION or tvb(2, 2):uint() ~= 0xFFFF then return false end
  local opcode = tvb(0, 1):uint()
  local layout = layouts[opcode] and layouts[opcode](tvb, opcode)
  if not layout then return false end
  local is_braid = layout.check and check_is_right or is_sealed
  if not is_braid(tvb, layout) then return false end
  braid.dissector(tvb, pinfo, root)
  return true
end)
