package history

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"path/filepath"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/sessions/screen"
)

// A stored screen is one file next to the log:
//
// \t"PWS1", u64 offset in the log, u16 columns, u16 rows, u32 checksum of the log's bytes before the offset,
// \tu32 checksum of everything else, the snapshot
//
// All numbers are big-endian, checksums CRC-32C. A file that does not match the log is ignored: the screen is then rebuilt from
// the log.
const (
	screenFile  = "screen"
	screenMagic = "PWS1"
	screenHead  = 4 + 8 + 2 + 2 + 4 + 4
	maxStored   = 32 << 20 // bytes; a larger file is not one of ours
	proofBytes  = 256      // bytes of the log before the offset that must match
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sealScreen(off int64, size guest.Size, proof uint32, snapshot []byte) []byte {
	raw := make([]byte, 0, screenHead+len(snapshot))
	raw = append(raw, screenMagic...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(off))
	raw = binary.BigEndian.AppendUint16(raw, size.Cols)
	raw = binary.BigEndian.AppendUint16(raw, size.Rows)
	raw = binary.BigEndian.AppendUint32(raw, proof)
	sum := crc32.Update(crc32.Checksum(raw, castagnoli), castagnoli, snapshot)
	raw = binary.BigEndian.AppendUint32(raw, sum)
	return append(raw, snapshot...)
}

var errNoScreen = errors.New("not a stored screen")

func unsealScreen(raw []byte) (off int64, size guest.Size, proof uint32, snapshot []byte, err error) {
	if len(raw) < screenHead || string(raw[:4]) != screenMagic {
		return 0, size, 0, nil, errNoScreen
	}
	head, snapshot := raw[:screenHead-4], raw[screenHead:]
	if crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, snapshot) != binary.BigEndian.Uint32(raw[screenHead-4:]) {
		return 0, size, 0, nil, errNoScreen
	}
	off = int64(binary.BigEndian.Uint64(raw[4:]))
	size = guest.Size{Cols: binary.BigEndian.Uint16(raw[12:]), Rows: binary.BigEndian.Uint16(raw[14:])}
	if off < 0 || size.Cols == 0 || size.Rows == 0 {
		return 0, size, 0, nil, errNoScreen
	}
	return off, size, binary.BigEndian.Uint32(raw[16:]), snapshot, nil
}

// proof is the checksum of the log's bytes before off, as far as they are retained.
func (r *Recording) proof(off int64) uint32 {
	var buf [proofBytes]byte
	sum := uint32(0)
	for at := max(0, off-proofBytes); at < off; {
		n, from, err := r.log.ReadAt(buf[:off-at], at)
		if n == 0 || err != nil || from >= off {
			break
		}
		n = int(min(int64(n), off-from))
		sum = crc32.Update(sum, castagnoli, buf[:n])
		at = from + int64(n)
	}
	return sum
}

// store stores a snapshot of the screen next to the log, or in memory while the disk fails. The caller holds mu; the model is
// awake.
func (m *model) store() {
	off := m.off - int64(m.scr.Held())
	if off == m.stored {
		return
	}
	m.fit()
	raw := sealScreen(off, m.size, m.r.proof(off), m.scr.Snapshot(screen.AllLines))
	m.stored, m.packed = off, nil
	if err := atomicfile.Write(filepath.Join(m.r.all.dir(m.r.id), screenFile), raw, 0o600); err != nil {
		m.r.all.cfg.Log.Debug("screen kept in memory only", "session_id", m.r.id, "error", err)
		m.packed = raw
	}
}

// sleep stores the screen and frees its memory. The caller holds mu; the model is awake.
func (m *model) sleep() {
	m.store()
	m.scr = nil
	m.noteAnswered(m.from)
}

// wake restores the screen from the snapshot, or creates a new one; the log is read from there. The caller holds mu; the model is
// asleep.
func (m *model) wake() {
	first, end := m.r.log.Bounds()
	raw := m.packed
	if raw == nil {
		raw, _ = readRegular(filepath.Join(m.r.all.dir(m.r.id), screenFile), maxStored) // none: the log has everything
	}
	off, size, proof, snapshot, err := unsealScreen(raw)
	if err != nil || off > end || off < first-modelBack || m.r.proof(off) != proof {
		m.packed, m.stored = nil, 0
		off = max(first, end-modelBack)
		size, _ = m.r.SizeAt(off)
		snapshot = nil
	} else {
		m.stored = off
		m.from = max(m.from, off) // the server that stored it had answered what came before
	}
	m.off, m.size = off, size
	m.page = max(m.r.lastPage(), first)
	m.scr = screen.New(screen.Config{Cols: int(size.Cols), Rows: int(size.Rows), Scrollback: modelLines, Answer: m.answer, Colors: darkTheme})
	m.reported = nil
	m.write(snapshot)
}
