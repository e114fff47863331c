package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"slices"
)

// Kind of an entry. The numbers are stored in files: they never change.
type Kind uint8

// Kinds of entries. The type of their data is noted for each, or is an object of the writer's.
const (
	Time      Kind = 1  // output had reached the offset; no data
	Size      Kind = 2  // the terminal's size changed: Dims
	Seat      Kind = 3  // somebody came to watch, or left: Visit
	Input     Kind = 4  // somebody typed: Keys
	State     Kind = 5  // the agent's state changed: Change
	Question  Kind = 6  // the agent asked
	Answer    Kind = 7  // somebody answered
	Prompt    Kind = 8  // a prompt was delivered
	Interrupt Kind = 9  // somebody interrupted the agent
	Control   Kind = 10 // control was requested, handed over or taken
	Files     Kind = 11 // files of the workspace changed: Touched
)

var names = [...]string{Time: "time", Size: "size", Seat: "seat", Input: "input", State: "state", Question: "question", Answer: "answer",
	Prompt: "prompt", Interrupt: "interrupt", Control: "control", Files: "files"}

// String is the kind's name in the API.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return ""
}

// ParseKind returns the kind of that name.
func ParseKind(name string) (Kind, bool) {
	i := slices.Index(names[:], name)
	return Kind(i), i > 0
}

// Dims is the data of a Size entry.
type Dims struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Visit is the data of a Seat entry.
type Visit struct {
	UserID string `json:"user_id"`
	Name   string `json:"name"`
	Role   string `json:"role"` // writer or viewer
	Left   bool   `json:"left"` // else: joined
}

// Keys is the data of an Input entry: who typed how much since when, never what.
type Keys struct {
	UserID string `json:"user_id"`
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Since  int64  `json:"since"` // ms UTC of the first key
	From   int64  `json:"from"`  // offset of the output at the first key
}

// Change is the data of a State entry.
type Change struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// Touched is the data of a Files entry.
type Touched struct {
	Paths []string `json:"paths"`
	More  int      `json:"more"` // number of files that are not named
}

// Entry is one event.
type Entry struct {
	Seq    int64 // its number in the journal, from 0
	At     int64 // ms UTC
	Offset int64 // of the output at that time
	Kind   Kind
	Data   json.RawMessage // nil for Time
}

// Layout of the file: blocks of
//
// \tu32 length of the body, u32 CRC-32C of the body, body
//
// all little-endian. A body is the base time and offset of its first entry (varint, uvarint), then entries:
//
// \tkind u8, time since the previous entry (varint), offset likewise (varint), and except for Time: length (uvarint) and JSON
const (
	blockHead = 8
	maxBlock  = 1 << 20 // of a body
	maxData   = 16 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errTorn = errors.New("torn block")

// seal writes the header before body; block begins with blockHead bytes for it.
func seal(block []byte) {
	binary.LittleEndian.PutUint32(block, uint32(len(block)-blockHead))
	binary.LittleEndian.PutUint32(block[4:], crc32.Checksum(block[blockHead:], castagnoli))
}

// cursor holds the base of the next entry of a block.
type cursor struct{ at, off int64 }

func begin(buf []byte, c cursor) []byte {
	buf = append(buf[:0], make([]byte, blockHead)...)
	buf = binary.AppendVarint(buf, c.at)
	return binary.AppendUvarint(buf, uint64(c.off))
}

func (c *cursor) put(buf []byte, k Kind, at, off int64, data []byte) []byte {
	buf = append(buf, byte(k))
	buf = binary.AppendVarint(buf, at-c.at)
	buf = binary.AppendVarint(buf, off-c.off)
	if k != Time {
		buf = binary.AppendUvarint(buf, uint64(len(data)))
		buf = append(buf, data...)
	}
	c.at, c.off = at, off
	return buf
}

// walk calls fn with each entry of a body, until fn returns false. Data is part of body. It returns the number of entries seen.
func walk(body []byte, seq int64, fn func(Entry) bool) (n int64, more bool, err error) {
	at, k := binary.Varint(body)
	if k <= 0 {
		return 0, false, errTorn
	}
	body = body[k:]
	u, k := binary.Uvarint(body)
	if k <= 0 {
		return 0, false, errTorn
	}
	body = body[k:]
	e := Entry{At: at, Offset: int64(u)}
	for len(body) > 0 {
		e.Seq, e.Kind, e.Data = seq+n, Kind(body[0]), nil
		body = body[1:]
		dt, k := binary.Varint(body)
		if k <= 0 {
			return n, false, errTorn
		}
		do, k2 := binary.Varint(body[k:])
		if k2 <= 0 {
			return n, false, errTorn
		}
		body = body[k+k2:]
		e.At, e.Offset = e.At+dt, e.Offset+do
		if e.Offset < 0 {
			return n, false, errTorn
		}
		if e.Kind != Time {
			size, k := binary.Uvarint(body)
			if k <= 0 || size > uint64(len(body)-k) {
				return n, false, errTorn
			}
			e.Data = json.RawMessage(body[k : k+int(size)])
			body = body[k+int(size):]
		}
		n++
		if !fn(e) {
			return n, false, nil
		}
	}
	return n, true, nil
}
