// Package bundle is the guest's end of transfers to a sandbox with its own disk: a bundle arrives in pieces, in any order and
// over several pipes, and is then unpacked into the worktree. See guest.Bundle for the contents of a bundle.
//
// Everything is written below the root, without following a link out of it. git writes the checkout, using no filter, hook or
// configuration except the bundle's. A worktree appears whole: its .git gets its name last.
//
// Goroutines: each unpacking has one, which outlives the request that began it. Close waits for it.
package bundle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Config configures a Store. Dir and Root are absolute.
type Config struct {
	Dir     string // folder for incoming bundles, created if missing
	Root    string // the worktree
	GitPath string // default: git of PATH
	Log     *slog.Logger
}

// keepBundles is how many bundles are tracked at a time: the newest.
const keepBundles = 4

// Store holds the bundles of one guest. Safe for concurrent use.
type Store struct {
	cfg Config

	mu      sync.Mutex
	bundles map[string]*transfer
	order   []string // IDs, the oldest first
	closed  bool
	work    sync.WaitGroup
	stop    context.CancelFunc
	ctx     context.Context
}

// transfer is one bundle.
type transfer struct {
	id   string
	path string

	mu       sync.Mutex
	file     *os.File // nil before the first piece and after the end
	have     int64
	ahead    map[int64]int64 // pieces beyond have: length by offset
	state    guest.BundleState
	reported guest.Bundle  // step, done, all, error
	change   chan struct{} // closed and replaced at each change
}

// New returns a Store. It starts nothing. The first piece of another bundle removes bundles that an earlier guest left and never
// unpacked.
func New(cfg Config) *Store {
	cfg.GitPath = cmp.Or(cfg.GitPath, "git")
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	return &Store{cfg: cfg, bundles: make(map[string]*transfer), ctx: ctx, stop: stop}
}

// Close cancels unpackings and waits for them.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	all := make([]*transfer, 0, len(s.bundles))
	for _, b := range s.bundles {
		all = append(all, b)
	}
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	for _, b := range all {
		b.mu.Lock()
		b.drop()
		b.mu.Unlock()
	}
}

// Status returns the progress of a bundle.
func (s *Store) Status(id string) (guest.Bundle, error) {
	b, err := s.transfer(id)
	if err != nil {
		return guest.Bundle{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status(), nil
}

// status is the state reported to the host. The caller holds b.mu.
func (b *transfer) status() guest.Bundle {
	p := b.reported
	p.ID, p.State, p.Have = b.id, b.state, b.have
	return p
}

// transfer returns a bundle's transfer, created on first use.
func (s *Store) transfer(id string) (*transfer, error) {
	if !guest.CheckBundleID(id) {
		return nil, fault.New(fault.Invalid, "invalid_bundle", "The bundle's ID is invalid.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Unavailable, "guest_ending", "The guest is ending.")
	}
	if b := s.bundles[id]; b != nil {
		return b, nil
	}
	if len(s.order) == 0 {
		s.sweep()
	}
	for len(s.order) >= keepBundles {
		old := s.bundles[s.order[0]]
		old.mu.Lock()
		busy := old.state == guest.BundleUnpacking
		if !busy {
			old.drop()
			old.state = guest.BundleFailed
		}
		old.mu.Unlock()
		if busy {
			return nil, fault.New(fault.Conflict, "bundle_busy", "Other bundles are still being unpacked.")
		}
		delete(s.bundles, s.order[0])
		s.order = s.order[1:]
	}
	b := &transfer{id: id, path: filepath.Join(s.cfg.Dir, id+".bundle"), ahead: make(map[int64]int64), state: guest.BundleComing, change: make(chan struct{})}
	if text, err := os.ReadFile(filepath.Join(s.cfg.Dir, id+".json")); err == nil {
		var was record
		if json.Unmarshal(text, &was) == nil && was.State == guest.BundleDone {
			b.state = guest.BundleDone
		}
	}
	s.bundles[id] = b
	s.order = append(s.order, id)
	return b, nil
}

// record is what remains of an unpacked bundle for the next guest.
type record struct {
	State guest.BundleState `json:"state"`
	At    int64             `json:"at"` // ms UTC
}

// sweep removes bundles an earlier guest left: which of their pieces arrived is unknown.
func (s *Store) sweep() {
	left, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*.bundle"))
	if err != nil {
		return
	}
	for _, f := range left {
		_ = os.Remove(f)
	}
}

// Write takes a piece of a bundle. Pieces may come in any order, and repeatedly. The received part of an interrupted piece stays.
func (s *Store) Write(id string, off int64, r io.Reader) (guest.Bundle, error) {
	b, err := s.transfer(id)
	if err != nil {
		return guest.Bundle{}, err
	}
	if off < 0 || off > guest.MaxBundle-guest.MaxBundlePiece {
		return guest.Bundle{}, fault.New(fault.TooLarge, "bundle_too_large", "The bundle is larger than the guest accepts.")
	}
	f, err := s.open(b)
	if err != nil {
		return guest.Bundle{}, err
	}
	n, err := io.Copy(io.NewOffsetWriter(f, off), io.LimitReader(r, guest.MaxBundlePiece+1))
	if err == nil && n > guest.MaxBundlePiece {
		n, err = guest.MaxBundlePiece, fault.New(fault.TooLarge, "bundle_piece_too_large", "A piece is larger than %d bytes.", guest.MaxBundlePiece)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == guest.BundleComing {
		b.took(off, n)
	}
	return b.status(), err
}

// open opens the file for the pieces.
func (s *Store) open(b *transfer) (*os.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != guest.BundleComing {
		return nil, fault.New(fault.Conflict, "bundle_complete", "The bundle is complete: nothing can be added to it.")
	}
	if b.file != nil {
		return b.file, nil
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of bundles: %w", err)
	}
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle: %w", err)
	}
	b.file = f
	return f, nil
}

// took records received bytes. The caller holds b.mu.
func (b *transfer) took(off, n int64) {
	if n <= 0 {
		return
	}
	if off > b.have {
		b.ahead[off] = max(b.ahead[off], n)
		return
	}
	b.have = max(b.have, off+n)
	for again := true; again; {
		again = false
		for o, l := range b.ahead {
			if o <= b.have {
				b.have = max(b.have, o+l)
				delete(b.ahead, o)
				again = true
			}
		}
	}
}

// drop frees the bytes. The caller holds b.mu.
func (b *transfer) drop() {
	if b.file != nil {
		_ = b.file.Close()
		b.file = nil
	}
	_ = os.Remove(b.path)
}

// Unpack unpacks a received bundle, once, and reports the progress to fn until it has ended or ctx has. In the latter case the
// unpacking continues, and a later call reports its progress.
func (s *Store) Unpack(ctx context.Context, id string, r guest.UnpackRequest, fn func(guest.Bundle) error) error {
	b, err := s.transfer(id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if b.state == guest.BundleComing {
		if r.Size <= 0 || b.have < r.Size {
			b.mu.Unlock()
			return fault.New(fault.Conflict, "bundle_incomplete", "Of the bundle's %d bytes only %d have arrived.", r.Size, b.have)
		}
		if !s.begin(func() { s.unpack(b, r) }) {
			b.mu.Unlock()
			return fault.New(fault.Unavailable, "guest_ending", "The guest is ending.")
		}
		b.state = guest.BundleUnpacking
	}
	b.mu.Unlock()
	for {
		b.mu.Lock()
		p, change := b.status(), b.change
		b.mu.Unlock()
		if err := fn(p); err != nil {
			return err
		}
		if p.State != guest.BundleUnpacking {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin starts a goroutine for which Close waits.
func (s *Store) begin(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(fn)
	return true
}

// unpack does it, and reports the result.
func (s *Store) unpack(b *transfer, r guest.UnpackRequest) {
	err := s.checked(b, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	b.state = guest.BundleDone
	if err != nil {
		s.cfg.Log.Warn("bundle could not be unpacked", "bundle", b.id, "error", err)
		b.state = guest.BundleFailed
		b.reported.Error = errorBody(err)
	}
	close(b.change)
	b.change = make(chan struct{})
}

func errorBody(err error) *guest.ErrorBody {
	e := guest.ErrorBody{Kind: string(fault.KindOf(err)), Code: fault.CodeOf(err), Message: err.Error()}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		e.Message = f.Message
	} else {
		e.Kind, e.Code = string(fault.Unavailable), "bundle_failed"
	}
	if full(err) {
		e = guest.ErrorBody{Kind: string(fault.DiskFull), Code: "disk_full", Message: "The sandbox's disk is full: the repository does not fit. Choose a larger size."}
	}
	return &e
}

// checked unpacks a bundle that matches the host's size and hash.
func (s *Store) checked(b *transfer, r guest.UnpackRequest) error {
	b.mu.Lock()
	f := b.file
	b.mu.Unlock()
	h := sha256.New()
	if n, err := io.Copy(h, io.NewSectionReader(f, 0, r.Size)); err != nil || n != r.Size {
		return errors.Join(err, fault.New(fault.Conflict, "bundle_corrupt", "The bundle cannot be read to its end."))
	}
	if hex.EncodeToString(h.Sum(nil)) != strings.ToLower(r.Hash) {
		return fault.New(fault.Conflict, "bundle_corrupt", "The received bundle does not match the one that was sent.")
	}
	root, err := os.OpenRoot(s.cfg.Root)
	if err != nil {
		return fmt.Errorf("opening the worktree: %w", err)
	}
	defer root.Close()
	u := unpacker{s: s, b: b, root: root, reported: time.Now()}
	if err := u.run(s.ctx, io.NewSectionReader(f, 0, r.Size)); err != nil {
		return err
	}
	text, err := json.Marshal(record{State: guest.BundleDone, At: time.Now().UnixMilli()})
	if err != nil {
		return err
	}
	// The .git folder tells a guest without this record that the worktree is unpacked.
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, b.id+".json"), text, fs.FileMode(0o600)); err != nil {
		s.cfg.Log.Warn("the unpacking of a bundle could not be recorded", "bundle", b.id, "error", err)
	}
	return nil
}
