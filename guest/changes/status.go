package changes

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/fault"
)

// seen is the result of one poll.
type seen struct {
	head    head
	same    bool              // nothing differs from the last poll: entries is nil
	entries map[string]*entry // by raw path
	note    string            // text about what the set does not show
	racy    bool              // a file was written so recently that the next poll must not trust its times
	print   [sha256.Size]byte
}

// look polls once: one `git status`, a stat of each dirty path, and details only when something differs. full: git lists every
// folder, and believes nothing it has cached of them.
func (p *Poller) look(ctx context.Context, t *tracker, m *meter, full bool) (seen, error) {
	s, err := p.open(ctx)
	if err != nil {
		return seen{}, err
	}
	if err := s.prepare(ctx, m); err != nil {
		return seen{}, err
	}
	st, err := p.status(ctx, s, m, full)
	if err != nil {
		return seen{}, err
	}
	result := seen{head: s.head, note: st.note}
	at := time.Now().UnixNano()
	stats := make([]fileStat, len(st.paths))
	for i, d := range st.paths {
		path := filepath.Join(s.repo.root, d.path)
		stats[i], _ = lstat(path)
		stats[i].closed = stats[i].regular() && unix.Access(path, unix.R_OK) != nil
		result.racy = result.racy || stats[i].racy(at)
	}
	result.print = fingerprint(s, st, stats)
	if t.trusted && result.print == t.print {
		result.same = true
		return result, nil
	}
	d := details{s: s, m: m, base: t.base, paths: st.paths, stats: stats, prev: t.entries, degraded: st.degraded, links: &t.links, at: at}
	if result.entries, err = d.compute(ctx); err != nil {
		return seen{}, p.explain(ctx, s, err)
	}
	result.note = joinNotes(result.note, d.note)
	return result, nil
}

// statusResult is the result of one `git status`.
type statusResult struct {
	raw      []byte
	paths    []dirty
	note     string
	degraded bool // untracked files were not listed
}

// status runs `git status`. When a FIFO where git expects patterns would block it forever, it lists tracked files only and says
// why.
func (p *Poller) status(ctx context.Context, s *shadow, m *meter, full bool) (statusResult, error) {
	if err := p.blocked.check(s.repo.root); err != nil {
		return statusResult{}, err
	}
	var r statusResult
	out, err := []byte(nil), error(nil)
	if !p.blocked.active(s.repo.root) {
		out, err = s.status(ctx, m, "all", full, p.cfg.Timeout<<p.blocked.tries)
		if err == nil {
			p.blocked.tries = 0
		} else if errors.Is(err, errTimeout) {
			p.blocked.find(ctx, s.repo.root)
			if berr := p.blocked.check(s.repo.root); berr != nil {
				return r, berr
			}
		}
	}
	if p.blocked.active(s.repo.root) {
		r.degraded, r.note = true, p.blocked.note()
		out, err = s.status(ctx, m, "no", full, 0)
	}
	if err != nil {
		return r, err
	}
	r.raw = out
	paths, more, err := parseStatus(out, MaxChanges)
	if err != nil {
		return r, err
	}
	r.paths = paths
	if more {
		r.note = joinNotes(r.note, tooMany)
	}
	return r, nil
}

var tooMany = fmt.Sprintf("More than %d files differ; the rest is not shown.", MaxChanges)

func joinNotes(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return a + " " + b
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// status is the only call of a cheap poll. It may write our copy of the index: that is how git remembers the untracked cache, and
// the times of files found unchanged. full makes it list every folder, and drops the untracked cache.
func (s *shadow) status(ctx context.Context, m *meter, untracked string, full bool, timeout time.Duration) ([]byte, error) {
	c := call{locks: untracked == "all", timeout: timeout, args: []string{
		"status", "--porcelain=v2", "-z", "--untracked-files=" + untracked, "--ignore-submodules=all", "--no-renames"}}
	if full || s.foreign {
		c.config = []string{"core.untrackedCache=false"}
	}
	was, _ := lstat(s.path("index"))
	begin := time.Now()
	out, err := s.run(ctx, m, c)
	if err == nil && c.locks {
		s.foreign = false
	}
	return out, errors.Join(err, s.backdate(was, begin))
}

// clockTick is how much the clock of file times may lag behind ours: it ticks only every few milliseconds.
const clockTick = 20 * time.Millisecond

// backdate sets the time of an index that a status has rewritten to the time at which that status began.
//
// git believes what it has seen of a file or folder as long as its times are the same in whole seconds, and older than the index.
// But the index is dated by its writing, not by the looking: a change in between, in the same second as the previous change,
// would never be seen. With the earlier time git looks again at everything that had just changed when it looked.
func (s *shadow) backdate(was fileStat, begin time.Time) error {
	now, err := lstat(s.path("index"))
	if err != nil || now == was {
		return nil //nolint:nilerr // there is none
	}
	at := begin.Add(-clockTick)
	if err := os.Chtimes(s.path("index"), at, at); err != nil {
		return fmt.Errorf("dating the copy of the index: %w", err)
	}
	return nil
}

// fingerprint summarizes everything that determines the set of changes.
func fingerprint(s *shadow, st statusResult, stats []fileStat) [sha256.Size]byte {
	h := sha256.New()
	var buf [56]byte
	buf[0] = byte(boolInt(st.degraded))
	binary.LittleEndian.PutUint64(buf[1:], uint64(len(s.head.branch)))
	h.Write(buf[:9])
	h.Write([]byte(s.head.branch))
	h.Write([]byte(s.head.commit))
	binary.LittleEndian.PutUint64(buf[:], uint64(len(st.raw)))
	h.Write(buf[:8])
	h.Write(st.raw)
	for _, f := range stats {
		for i, v := range []uint64{f.dev, f.ino, uint64(f.mode), uint64(f.size), uint64(f.mtime), uint64(f.ctime)} {
			binary.LittleEndian.PutUint64(buf[i*8:], v)
		}
		h.Write(buf[:48])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// explain names the file that makes git hang, when that is the cause.
func (p *Poller) explain(ctx context.Context, s *shadow, err error) error {
	if !errors.Is(err, errTimeout) {
		return err
	}
	p.blocked.find(ctx, s.repo.root)
	if berr := p.blocked.check(s.repo.root); berr != nil {
		return berr
	}
	return err
}

// blocked remembers a file on which git would block.
type blocked struct {
	path  string    // relative to the root; "" = unknown
	until time.Time // without a path: when to try again
	tries int       // attempts without a path, one after another; each doubles git's time
}

const (
	maxTries   = 3
	retryAfter = 30 * time.Second
)

// check looks at the two names at the root in any case, so that the simplest case never waits, and does not run git at all while
// a FIFO is where git expects attributes.
func (b *blocked) check(root string) error {
	for _, name := range []string{".gitignore", ".gitattributes"} {
		if b.path == "" && blocks(filepath.Join(root, name)) {
			b.path = name
		}
	}
	if b.path == "" || !blocks(filepath.Join(root, b.path)) || filepath.Base(b.path) == ".gitignore" {
		return nil
	}
	return fault.New(fault.Conflict, "git_blocked",
		"The file %q is a FIFO or a device, and git would wait for it forever. Remove it to see changes again.", b.path)
}

// active reports whether untracked files cannot be listed now.
func (b *blocked) active(root string) bool {
	if b.path != "" {
		if blocks(filepath.Join(root, b.path)) {
			return true
		}
		b.path = ""
	}
	return time.Now().Before(b.until)
}

func (b *blocked) note() string {
	if b.path != "" {
		return fmt.Sprintf("The file %q is a FIFO or a device, and git would wait for it forever: new untracked files are not shown until it is removed.", b.path)
	}
	return "Git does not answer in time when it looks for untracked files: new ones are not shown for now."
}

// find searches the worktree for a file on which git would block, within bounds.
func (b *blocked) find(ctx context.Context, root string) {
	const maxVisits, maxTime = 500_000, 5 * time.Second
	b.path, b.until = "", time.Now().Add(retryAfter<<b.tries)
	b.tries = min(b.tries+1, maxTries)
	end, visits := time.Now().Add(maxTime), 0
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		visits++
		if visits > maxVisits || ctx.Err() != nil || time.Now().After(end) {
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir
		}
		if name := d.Name(); (name == ".gitignore" || name == ".gitattributes") && blocks(path) {
			b.path, _ = filepath.Rel(root, path)
			b.until, b.tries = time.Time{}, 0
			return fs.SkipAll
		}
		return nil
	})
}

// blocks reports whether opening path for reading could block forever.
func blocks(path string) bool {
	st, err := lstat(path)
	kind := st.mode & unix.S_IFMT
	return err == nil && (kind == unix.S_IFIFO || kind == unix.S_IFCHR)
}
