package changes

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
)

// MaxChanges is the largest number of changes in a set. Further ones are left out, and the set says so.
const MaxChanges = 200_000

// defaultTimeout bounds one call of git. A repository of 100,000 files on a slow disk needs seconds; a hang must be noticed.
const defaultTimeout = 30 * time.Second

// Config configures a Poller. Only Root is required.
type Config struct {
	Root    string           // absolute path of the worktree
	GitDir  string           // the worktree's git directory; "" = found from Root/.git at first use and fixed from then on
	Dir     string           // private folder for our own index copies, outside Root; "" = a temporary folder
	GitPath string           // git program; "" = found in PATH
	Timeout time.Duration    // for one call of git; 0 = 30 s
	Now     func() time.Time // nil = time.Now
	Log     *slog.Logger     // nil = slog.Default
}

// Poller watches one worktree. All methods are safe for concurrent use.
type Poller struct {
	cfg Config

	turn  locks.Turn    // its holder may use git and the shadow
	diffs chan struct{} // as many as may run at once
	// The fields below are used only with the turn.
	shadow  *shadow
	blocked blocked // a file that makes git hang, once found

	hinted atomic.Bool // a weak hint is already recorded, and no poll has begun since

	mu       sync.Mutex // guards the fields below, never held while git runs
	trackers map[string]*tracker
	notify   *notifier
	watchers int
	started  uint64 // polls begun, of all trackers
	tempDir  string
}

// New returns a Poller. It touches nothing until first used.
func New(cfg Config) *Poller {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Poller{cfg: cfg, turn: locks.NewTurn(), diffs: make(chan struct{}, maxDiffs), trackers: make(map[string]*tracker)}
}

// PollNow looks at everything at once and returns the whole set as a Reset. It may use a look that began after the call, but
// nothing that git remembers of earlier ones. When the set does not fit one record, More is set and Watch delivers the rest. The
// set's Error reports a failed poll, not the error.
func (p *Poller) PollNow(ctx context.Context, base string) (guest.ChangeSet, error) {
	t, err := p.tracker(base)
	if err != nil {
		return guest.ChangeSet{}, err
	}
	defer p.release(t)
	if err := p.poll(ctx, t, p.pollsBegun(), true); err != nil {
		return guest.ChangeSet{}, err
	}
	return t.delta(0)[0], nil
}

// Hint reports that something may have changed (output flows): the poller looks soon, and less often when nothing had. It costs
// next to nothing, so it may be called for every piece of output.
func (p *Poller) Hint() {
	if !p.hinted.Swap(true) {
		p.hint(false)
	}
}

func (p *Poller) hint(strong bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.trackers {
		t.hint(now, strong)
	}
}

// Close removes the temporary folder, if one was made. No other call may be under way.
func (p *Poller) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tempDir == "" {
		return nil
	}
	dir := p.tempDir
	p.tempDir = ""
	return os.RemoveAll(dir)
}

func (p *Poller) pollsBegun() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// maxTrackers bounds the bases that are tracked; those nobody watches are dropped first.
const maxTrackers = 8

var commitID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// tracker finds or creates the tracker of a base and holds it until release.
func (p *Poller) tracker(base string) (*tracker, error) {
	if !commitID.MatchString(base) {
		return nil, fault.New(fault.Invalid, "invalid_base", "The base must be the full id of a commit.")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackers[base]
	if t == nil {
		for b, old := range p.trackers {
			if len(p.trackers) >= maxTrackers && old.holders == 0 {
				delete(p.trackers, b)
			}
		}
		// Versions start at the time, so that one a client remembers from an earlier guest is not mistaken for ours.
		t = newTracker(base, uint64(max(p.cfg.Now().UnixMilli(), 1))<<12)
		p.trackers[base] = t
	}
	t.holders++
	return t, nil
}

func (p *Poller) release(t *tracker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.holders--
}

// poll looks once and records the result in t. It does nothing when another poll of t has begun after since, a count of
// pollsBegun; if a full one is required, it must have been a full one. Only the end of ctx is an error: git's own failures become
// part of the set.
func (p *Poller) poll(ctx context.Context, t *tracker, since uint64, full bool) error {
	done, err := p.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer done()
	if t.lastFull > since || !full && t.lastPoll > since {
		return nil
	}
	p.mu.Lock()
	p.started++
	t.lastPoll = p.started
	if full {
		t.lastFull = p.started
	}
	p.mu.Unlock()
	p.hinted.Store(false)
	t.begin(time.Now())

	begin := time.Now()
	var m meter
	seen, err := p.look(ctx, t, &m, full)
	if ctx.Err() != nil {
		t.interrupted()
		return context.Cause(ctx)
	}
	changed := t.record(seen, err, p.cfg.Now())
	t.end(time.Now(), m.cost(time.Since(begin)), changed || seen.racy, p.covered())
	return nil
}

// open prepares the shadow at first use. The caller has the turn.
func (p *Poller) open(ctx context.Context) (*shadow, error) {
	if p.shadow != nil {
		return p.shadow, nil
	}
	gitPath := p.cfg.GitPath
	if gitPath == "" {
		found, err := exec.LookPath("git")
		if err != nil {
			return nil, fault.Wrap(err, fault.Unavailable, "git_missing", "git is not installed in this sandbox. Install git and try again.")
		}
		gitPath = found
	}
	root, err := filepath.EvalSymlinks(p.cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("finding the worktree: %w", err)
	}
	r, err := findRepo(root, p.cfg.GitDir)
	if err != nil {
		return nil, err
	}
	dir := p.cfg.Dir
	if dir == "" {
		if dir, err = p.makeTemp(); err != nil {
			return nil, err
		}
	}
	s, err := newShadow(dir, r, gitPath, p.cfg.Timeout)
	if err != nil {
		return nil, err
	}
	p.shadow = s
	return s, nil
}

func (p *Poller) makeTemp() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tempDir == "" {
		dir, err := os.MkdirTemp("", "parawork-changes-")
		if err != nil {
			return "", fmt.Errorf("creating a private folder: %w", err)
		}
		p.tempDir = dir
	}
	return p.tempDir, nil
}
