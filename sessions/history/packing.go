package history

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/find"
)

// keepEach is the amount of output after which a session's history is packed and indexed for searches.
const keepEach = bytelog.DefaultSegmentBytes

// keeping lists the sessions whose history is to be packed, by ID.
type keeping struct {
	mu   sync.Mutex
	ids  map[string]struct{}
	wake chan struct{}
}

func newKeeping() keeping { return keeping{ids: map[string]struct{}{}, wake: make(chan struct{}, 1)} }

func (k *keeping) add(id string) {
	k.mu.Lock()
	k.ids[id] = struct{}{}
	k.mu.Unlock()
	tasks.Wake(k.wake)
}

func (k *keeping) take() (id string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.ids {
		delete(k.ids, id)
		return id, true
	}
	return "", false
}

// keepLoop packs the output of sessions, one session at a time: first what an earlier server left, then new output.
func (s *Recordings) keepLoop(ctx context.Context) {
	s.keepLeft(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.keeping.wake:
		}
		for id, ok := s.keeping.take(); ok && ctx.Err() == nil; id, ok = s.keeping.take() {
			s.keep(ctx, id)
		}
	}
}

// keepLeft packs the sessions that ended before they were packed.
func (s *Recordings) keepLeft(ctx context.Context) {
	entries, err := os.ReadDir(filepath.Join(s.cfg.DataDir, "sessions"))
	if err != nil {
		return // there is none yet
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		if plain, err := filepath.Glob(filepath.Join(s.dir(e.Name()), "*.seg")); err == nil && len(plain) > 0 && s.cfg.Sessions.InMemory(e.Name()) == nil {
			s.keep(ctx, e.Name())
		}
	}
}

// keep packs a session's output and indexes it for searches.
func (s *Recordings) keep(ctx context.Context, id string) {
	r, err := s.open(ctx, id)
	if err != nil {
		if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) && ctx.Err() == nil {
			s.cfg.Log.Warn("history of a session could not be packed", "session_id", id, "error", err)
		}
		return
	}
	defer r.Close()
	if r.log.Degraded() != nil {
		return // it is requested again once all output is on disk
	}
	// The screen reads first: from a packed segment it would have to decompress each byte.
	if _, end := r.log.Bounds(); (r.throttle.now() || r.model.behind()) && end-r.indexed < keepLag && !r.over() {
		s.cfg.Tasks.After(throttleLook, func() { s.keeping.add(id) })
		return
	}
	if err := r.index(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("history of a session could not be indexed for searches", "session_id", id, "error", err)
	}
	if _, err := r.log.Pack(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("history of a session could not be packed", "session_id", id, "error", err)
	}
	tasks.Wake(s.packed)
}

// Pack has the history packed and indexed for searches. It never blocks.
func (r *Recording) Pack() { r.all.keeping.add(r.id) }

// index writes search files for the output since the last one, as far as it fills files; to the end for an ended session.
func (r *Recording) index(ctx context.Context) error {
	dir := r.all.dir(r.id)
	starts, err := find.Shards(dir)
	if err != nil {
		return err
	}
	first, end := r.log.Bounds()
	off := max(first, r.indexed)
	for i, start := range starts {
		if r.indexed > 0 && (i == len(starts)-1 || starts[i+1] > first) {
			break // read before
		}
		blocks := find.ReadShard(dir, start)
		if len(blocks) == 0 { // damaged: rewrite it, and those after it
			for _, s := range starts[i:] {
				_ = os.Remove(find.ShardPath(dir, s))
			}
			off = max(off, start)
			break
		}
		if blocks[len(blocks)-1].End <= first { // its bytes were dropped
			_ = os.Remove(find.ShardPath(dir, start))
			continue
		}
		off = max(off, blocks[len(blocks)-1].End)
	}
	ended := r.over()
	reader := find.NewReader(r.log)
	for off < end && ctx.Err() == nil {
		blocks, next, err := reader.Shard(ctx, off, ended)
		if err != nil || len(blocks) == 0 || next == off {
			return err
		}
		if full := next-off >= find.ShardBytes; !full && !ended {
			return nil
		}
		r.dateBlocks(blocks)
		if err := atomicfile.Write(find.ShardPath(dir, off), find.Encode(blocks), 0o600); err != nil {
			return err
		}
		off = next
		r.indexed = off
	}
	return ctx.Err()
}

// dateBlocks fills in when the bytes of blocks came.
func (r *Recording) dateBlocks(blocks []find.Block) {
	var offs []int64
	for _, b := range blocks {
		offs = append(offs, b.Start, b.End-1)
	}
	at, err := r.notes.TimesAt(offs)
	if err != nil {
		return
	}
	for i := range blocks {
		blocks[i].From, blocks[i].To = at[2*i], at[2*i+1]
	}
}
