package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/parawork/parawork/internal/id"
)

// The reserve is a file of fixed size in which entries wait while the database has no room. Its bytes are written when it is made, so that
// a full disk can still overwrite them.
//
// It begins with two headers, which are written in turn so that one of them is always whole; records follow, then zeros. Header and record have
// the same form: the length of the body (4 bytes, big endian), an HMAC-SHA-256 with the audit's key over the position in the file and the
// body, and the body, which is JSON.
const (
	reserveSize = 1 << 20
	headerSize  = 16 << 10
	firstRecord = 2 * headerSize
	frameBegin  = 4 + sha256.Size // bytes of a record before its body
	mostBody    = 64 << 10
	// mostLosses bounds the losses in the header, so that they fit into it.
	mostLosses = 48
	// mostSearched bounds at how many positions a record is looked for behind damage.
	mostSearched = 4096
	// mostAside bounds the file of records that were not usable.
	mostAside = 1 << 20
)

// recordBegin is how the body of every record begins: see heldRow.
var recordBegin = []byte(`{"chain":"`)

// heldRow is the body of a record.
type heldRow struct {
	Chain string `json:"chain"`
	exported
}

// record is a row that waits, and where it lies in the file.
type record struct {
	row      Row
	at, size int64
}

// damage is what lies in the file and is not Parawork's.
type damage struct {
	at    int64
	bytes []byte
}

// reserveHeader is the body of a header.
type reserveHeader struct {
	Turn   uint64 `json:"turn"` // the header with the higher one counts
	Losses []loss `json:"losses,omitempty"`
}

// loss counts entries of a chain that neither the database nor the reserve had room for.
type loss struct {
	ID    string `json:"id"` // of the entry that will say so
	Chain string `json:"chain"`
	Count int64  `json:"count"`
	From  int64  `json:"from"` // ms UTC of the first and the last of them
	To    int64  `json:"to"`

	closed bool // its entry may be stored: what is lost from now on counts for another
}

// reserve is the opened file with what it holds. Safe for concurrent use.
type reserve struct {
	path string
	log  *slog.Logger

	taking sync.Mutex // held by whoever moves rows into the store

	mu      sync.Mutex // of what follows
	tried   bool       // somebody has tried to open it
	file    *os.File   // nil = not open
	keys    [][]byte
	turn    uint64
	end     int64    // where the next record goes
	held    []record // in the order of the file
	damaged []damage
	losses  []loss
}

func frameSeal(key []byte, at int64, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "parawork-audit-reserve-1:%d:", at)
	m.Write(body)
	return m.Sum(nil)
}

// frame returns a body as it is written at a position of the file.
func frame(key []byte, at int64, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, frameBegin+len(body)), uint32(len(body)))
	return append(append(b, frameSeal(key, at, body)...), body...)
}

// framed returns the body that lies at a position, nil when there is none with a seal of one of the keys. Without keys the seal is not checked.
func framed(file []byte, at int64, keys [][]byte) []byte {
	rest := file[min(at, int64(len(file))):]
	if len(rest) < frameBegin {
		return nil
	}
	n := binary.BigEndian.Uint32(rest)
	if n == 0 || n > mostBody || int(n) > len(rest)-frameBegin {
		return nil
	}
	body := rest[frameBegin : frameBegin+int(n)]
	if keys != nil && !slices.ContainsFunc(keys, func(k []byte) bool { return hmac.Equal(frameSeal(k, at, body), rest[4:frameBegin]) }) {
		return nil
	}
	return body
}

// rowAt returns the row at a position, and how many bytes of the file it takes; 0 when there is none.
func rowAt(file []byte, at int64, keys [][]byte) (Row, int64) {
	var h heldRow
	body := framed(file, at, keys)
	if !bytes.HasPrefix(body, recordBegin) || json.Unmarshal(body, &h) != nil || h.Chain == "" || h.ID == "" {
		return Row{}, 0
	}
	return h.row(h.Chain), frameBegin + int64(len(body))
}

// scan reads the records of a file. What lies between them and is neither a record nor zeros is damage. end is where the next record goes.
func scan(file []byte, keys [][]byte) (held []record, damaged []damage, end int64) {
	searched := 0
	at := int64(firstRecord)
	for end = at; at < int64(len(file)); {
		if row, size := rowAt(file, at, keys); size > 0 {
			held = append(held, record{row, at, size})
			at += size
			end = at
			continue
		}
		next := at
		for size := int64(0); size == 0 && next < int64(len(file)); searched++ {
			begin := min(next+1+frameBegin, int64(len(file)))
			i := bytes.Index(file[begin:], recordBegin)
			if i < 0 || searched >= mostSearched {
				next = int64(len(file))
				break
			}
			next = begin + int64(i) - frameBegin
			_, size = rowAt(file, next, keys)
		}
		if gap := bytes.TrimRight(file[at:next], "\x00"); len(gap) > 0 {
			damaged = append(damaged, damage{at, gap})
			end = at + int64(len(gap))
		}
		at = next
	}
	return held, damaged, end
}

// readHeader returns the newer of the two headers; damaged is the content of their positions when neither is valid.
func readHeader(file []byte, keys [][]byte) (h reserveHeader, damaged []byte) {
	found := false
	for at := int64(0); at < firstRecord; at += headerSize {
		var one reserveHeader
		if body := framed(file[:min(at+headerSize, int64(len(file)))], at, keys); body != nil && json.Unmarshal(body, &one) == nil && (!found || one.Turn > h.Turn) {
			h, found = one, true
		}
	}
	if !found {
		damaged = bytes.TrimRight(file[:min(firstRecord, len(file))], "\x00")
	}
	return h, damaged
}

// open opens the file, and makes it when there is none. When the open file is no longer the one in the folder, it opens that one
// and writes what is held into it.
func (r *reserve) open(keys [][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = true
	if r.file != nil {
		mine, err := r.file.Stat()
		there, terr := os.Stat(r.path)
		if err == nil && terr == nil && os.SameFile(mine, there) {
			return nil
		}
		_ = r.file.Close() // everything in it is in memory
		r.file = nil
	}
	f, file, err := openReserveFile(r.path)
	if err != nil {
		return fmt.Errorf("opening the reserve of the audit: %w", err)
	}
	h, odd := readHeader(file, keys)
	held, damaged, end := scan(file, keys)
	if len(odd) > 0 {
		damaged = append(damaged, damage{0, odd})
	}
	if len(damaged) > 0 {
		r.log.Error("the reserve of the audit was damaged, or changed by somebody else than Parawork", "file", r.path, "damaged_records", len(damaged))
	}
	for i := range h.Losses {
		h.Losses[i].closed = true // the entry may be stored already
	}
	before := r.held
	r.file, r.keys, r.turn, r.end, r.held, r.damaged, r.losses = f, keys, h.Turn, end, held, damaged, append(h.Losses, r.losses...)
	rows := make([]Row, len(before))
	for i, h := range before {
		rows[i] = h.row
	}
	n := r.write(rows)
	for _, row := range rows[n:] {
		r.held = append(r.held, record{row: row})
	}
	return nil
}

// openReserveFile returns the file and what is in it. All of its blocks are allocated on the disk when it returns.
func openReserveFile(path string) (*os.File, []byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	file, err := fillReserve(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, file, nil
}

func fillReserve(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", f.Name())
	}
	if err := f.Chmod(0o600); err != nil {
		return nil, err
	}
	file := make([]byte, reserveSize)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, reserveSize), file); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && st.Size() >= reserveSize && sys.Blocks*512 >= reserveSize {
		return file, nil
	}
	// New, or a copy with holes where zeros were. What is there is written once more as it is.
	_, err = f.WriteAt(file, 0)
	if err = errors.Join(err, f.Sync()); err != nil && st.Size() < reserveSize {
		if err := f.Truncate(st.Size()); err == nil && st.Size() == 0 {
			_ = os.Remove(f.Name()) // it would take room of a full disk for nothing
		}
		return nil, err
	}
	return file, syncFolder(filepath.Dir(f.Name()))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// wasTried reports whether somebody has tried to open the file.
func (r *reserve) wasTried() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tried
}

// holding reports whether rows wait: what comes after them waits, too.
func (r *reserve) holding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held) > 0
}

// add appends rows, and returns how many of them, from the first on, lie on the disk now.
func (r *reserve) add(rows []Row) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) == 0 && r.file != nil {
		r.log.Warn("the database is full: entries of the audit wait in a file until there is room", "file", r.path)
	}
	return r.write(rows)
}

// write does that with r.mu held.
func (r *reserve) write(rows []Row) int {
	if r.file == nil || len(rows) == 0 {
		return 0
	}
	var b []byte
	var added []record
	for _, row := range rows {
		body := row.body()
		at, size := r.end+int64(len(b)), frameBegin+int64(len(body))
		if len(body) > mostBody || at+size+4 > reserveSize {
			break
		}
		b = append(b, frame(r.keys[len(r.keys)-1], at, body)...)
		added = append(added, record{row, at, size})
	}
	if len(added) == 0 {
		return 0
	}
	if err := r.put(append(b, 0, 0, 0, 0), r.end); err != nil {
		r.log.Error("the reserve of the audit could not be written", "error", err)
		return 0
	}
	r.end += int64(len(b))
	r.held = append(r.held, added...)
	return len(added)
}

// put writes bytes at a position, and returns when they are on the disk.
func (r *reserve) put(b []byte, at int64) error {
	_, err := r.file.WriteAt(b, at)
	if err != nil {
		return err
	}
	return r.file.Sync()
}

// body returns what a row's record holds.
func (r Row) body() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // six bytes for one: a row would not fit
	_ = e.Encode(heldRow{r.Chain, r.exported(nil)})
	return bytes.TrimRight(b.Bytes(), "\n")
}

// next returns the first of the rows that wait.
func (r *reserve) next(most int) (rows []Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held[:min(most, len(r.held))] {
		rows = append(rows, h.row)
	}
	return rows
}

// taken removes the first n rows from those that wait. They stay in the file until it is cleared.
func (r *reserve) taken(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = r.held[n:]
}

// refuse puts a row that waits, and that the store does not take, into the file of records that could not be used, and counts it as lost.
func (r *reserve) refuse(at int64, row Row) {
	r.log.Error("the database does not take an entry of the audit", "id", row.ID, "chain", row.Chain, "action", row.Action)
	err := r.aside(at, "the database does not take it", row.body())
	r.mu.Lock()
	if i := slices.IndexFunc(r.held, func(h record) bool { return h.row.ID == row.ID }); i >= 0 {
		err = errors.Join(err, r.erase(r.held[i].at, r.held[i].size))
	}
	r.mu.Unlock()
	if err != nil {
		r.log.Error("a record of the audit's reserve could not be put aside", "id", row.ID, "error", err)
	}
	r.lose([]Row{row})
}

// erase writes zeros over a piece of the file, so that a later reader does not find it again.
func (r *reserve) erase(at, size int64) error {
	if r.file == nil || size == 0 {
		return nil
	}
	return r.put(make([]byte, size), at)
}

// lose counts rows that there is no room for.
func (r *reserve) lose(rows []Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range rows {
		x := r.lossOf(row.Chain)
		if x.Count++; x.Count == 1 {
			x.From = row.At
		}
		x.From, x.To = min(x.From, row.At), max(x.To, row.At)
	}
	r.writeHeader()
}

// lossOf returns the loss that counts for a chain: its own, else the one of the instance, else the last.
func (r *reserve) lossOf(chain string) *loss {
	for _, c := range []string{chain, Instance} {
		if i := slices.IndexFunc(r.losses, func(x loss) bool { return x.Chain == c && !x.closed }); i >= 0 {
			return &r.losses[i]
		}
		if len(r.losses) < mostLosses-1 && len(c) <= 64 || len(r.losses) < mostLosses && c == Instance {
			r.losses = append(r.losses, loss{ID: id.New("aud"), Chain: c})
			break
		}
	}
	return &r.losses[len(r.losses)-1]
}

// unreported returns the losses that no entry reports yet. Losses from now on are counted separately.
func (r *reserve) unreported() []loss {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.losses {
		r.losses[i].closed = true
	}
	return slices.Clone(r.losses)
}

// reported forgets losses whose entries are stored.
func (r *reserve) reported(losses []loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = slices.DeleteFunc(r.losses, func(x loss) bool {
		return slices.ContainsFunc(losses, func(y loss) bool { return x.ID == y.ID })
	})
	r.writeHeader()
}

func (r *reserve) writeHeader() {
	if r.file == nil {
		return // kept in memory, and written when it is open
	}
	r.turn++
	body, err := json.Marshal(reserveHeader{r.turn, r.losses})
	at := int64(r.turn%2) * headerSize
	if err == nil && frameBegin+len(body) > headerSize {
		err = errors.New("the header is too large")
	}
	if err == nil {
		err = r.put(frame(r.keys[len(r.keys)-1], at, body), at)
	}
	if err != nil {
		r.log.Error("how many entries of the audit were lost could not be written down", "error", err)
	}
}

// clear empties the file when no entry in it waits.
func (r *reserve) clear() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || len(r.held) > 0 || len(r.damaged) > 0 || r.end == firstRecord {
		return nil
	}
	// Zeros over all of it: an entry that is dropped for its age later is not to be read here.
	if err := r.erase(firstRecord, r.end-firstRecord); err != nil {
		return fmt.Errorf("emptying the reserve of the audit: %w", err)
	}
	r.end = firstRecord
	return nil
}

// asideFile is where records go that could not be used.
func asideFile(path string) string { return path + ".bad" }

// aside appends a record that cannot be used to a file of such records, as a line of JSON, unless that is full.
func (r *reserve) aside(at int64, why string, record []byte) error {
	f, err := os.OpenFile(asideFile(r.path), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := json.Marshal(map[string]any{"noticed": at, "why": why, "record": base64.StdEncoding.EncodeToString(record[:min(len(record), mostAside/2)])})
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if room := mostAside - st.Size(); int64(len(line)) >= room {
		r.log.Error("a record of the audit's reserve was dropped: the file of those that could not be used is full", "file", f.Name(), "why", why, "bytes", len(record))
		return nil
	}
	if _, err = f.Write(append(line, '\n')); err != nil {
		return errors.Join(err, f.Truncate(st.Size()))
	}
	return f.Sync()
}

// asideDamage puts what lies in the file and is not Parawork's into the file of such records, and counts each as an entry that was lost.
func (r *reserve) asideDamage(at int64) error {
	r.mu.Lock()
	damaged := r.damaged
	r.mu.Unlock()
	for _, d := range damaged {
		err := r.aside(at, "damaged, or not written by Parawork", d.bytes)
		if err == nil {
			r.mu.Lock()
			r.damaged = r.damaged[1:]
			err = r.erase(d.at, int64(len(d.bytes)))
			r.mu.Unlock()
			r.lose([]Row{{Chain: Instance, At: at}})
		}
		if err != nil {
			return fmt.Errorf("putting a damaged record of the audit's reserve aside: %w", err)
		}
	}
	return nil
}

// ReserveState is what the file of entries that wait holds, as it says itself.
type ReserveState struct {
	Held  int    // entries that wait for room in the database
	Lost  int64  // entries that did not fit, and that the audit does not report yet
	Aside string // file with records that could not be used; "" = none
}

// LookAtReserve reads the file of entries that wait, without the audit's keys. It changes nothing. A file that does not exist holds nothing; one
// that the server could not use is an error.
func LookAtReserve(path string) (s ReserveState, err error) {
	if _, err := os.Stat(asideFile(path)); err == nil {
		s.Aside = asideFile(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	file := make([]byte, reserveSize)
	if _, err := io.ReadFull(f, file); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s, fmt.Errorf("%s is shorter than %d bytes", path, reserveSize)
	} else if err != nil {
		return s, err
	}
	held, _, _ := scan(file, nil)
	s.Held = len(held)
	h, _ := readHeader(file, nil)
	for _, x := range h.Losses {
		s.Lost += x.Count
	}
	return s, nil
}
