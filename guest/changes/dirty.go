package changes

import (
	"bytes"
	"context"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Bounds of one list of names: a longer one is reported as a set of changes, which comes in pieces.
const (
	dirtyPaths = 20_000
	dirtyBytes = 1 << 20
)

// errPartly reports that names alone do not describe all differences.
var errPartly = fault.New(fault.Unsupported, "changes_incomplete", "The differences do not fit a list of names. Ask for the changes.")

// sinceBase are the names that differ between the base and a commit.
type sinceBase struct {
	head  string
	paths []string
}

// Dirty looks at once and names everything that may differ from base, without comparing any of it: one `git status`, where
// PollNow goes over all files a second time. It is for callers that read the files themselves. fault.Unsupported means that only
// PollNow can answer.
func (p *Poller) Dirty(ctx context.Context, base string) (guest.Dirty, error) {
	t, err := p.tracker(base)
	if err != nil {
		return guest.Dirty{}, err
	}
	defer p.release(t)
	done, err := p.turn.Lock(ctx)
	if err != nil {
		return guest.Dirty{}, err
	}
	defer done()
	paths, news, err := p.dirty(ctx, t)
	if ctx.Err() != nil {
		return guest.Dirty{}, context.Cause(ctx)
	}
	if err != nil {
		return guest.Dirty{}, err
	}
	if news { // notify watchers soon, also where the file system does not report writes
		p.hint(true)
	}
	return namesOf(base, paths)
}

// namesOf builds the answer, each name once.
func namesOf(base string, paths []string) (guest.Dirty, error) {
	d := guest.Dirty{Base: base}
	had, size := make(map[string]bool, len(paths)), 0
	for _, raw := range paths {
		if had[raw] {
			continue
		}
		had[raw] = true
		wire := guest.EncodePath(raw)
		size += len(wire)
		if guest.CheckPath(wire) != nil || len(had) > dirtyPaths || size > dirtyBytes {
			return guest.Dirty{}, errPartly
		}
		d.Paths = append(d.Paths, wire)
	}
	return d, nil
}

// dirty names what differs, and reports whether the last poll saw something else. The caller has the turn.
func (p *Poller) dirty(ctx context.Context, t *tracker) (paths []string, news bool, err error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := s.prepare(ctx, nil); err != nil {
		return nil, false, err
	}
	if s.head.commit == "" {
		return nil, false, errPartly
	}
	var m meter
	st, err := p.status(ctx, s, &m, true)
	if err != nil {
		return nil, false, err
	}
	if st.degraded || st.note != "" { // an unlisted file would be taken for unchanged
		return nil, false, errPartly
	}
	stats := make([]fileStat, len(st.paths))
	for i, d := range st.paths {
		path := s.repo.root + "/" + d.path
		stats[i], _ = lstat(path)
		stats[i].closed = stats[i].regular() && unix.Access(path, unix.R_OK) != nil
		paths = append(paths, d.path)
	}
	committed, err := s.committed(ctx, t)
	if err != nil {
		return nil, false, err
	}
	d := details{s: s, m: &m, base: t.base, links: &t.links}
	links, err := d.linked(ctx) // status does not report submodules
	if err != nil {
		return nil, false, err
	}
	paths = append(paths, committed...)
	for _, l := range links {
		paths = append(paths, l.path)
	}
	return paths, !t.trusted || fingerprint(s, st, stats) != t.print, nil
}

// committed names what differs between the base and HEAD. It repeats the comparison when HEAD has changed.
func (s *shadow) committed(ctx context.Context, t *tracker) ([]string, error) {
	if s.head.commit == t.base {
		return nil, nil
	}
	if t.commits.head == s.head.commit {
		return t.commits.paths, nil
	}
	out, err := s.run(ctx, nil, call{args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", t.base, s.head.commit}, timeout: 2 * s.timeout})
	if err != nil {
		return nil, err
	}
	if len(out) > dirtyBytes {
		return nil, errPartly
	}
	t.commits = sinceBase{head: s.head.commit}
	for name := range bytes.SplitSeq(out, []byte{0}) {
		if len(name) > 0 {
			t.commits.paths = append(t.commits.paths, string(name))
		}
	}
	return t.commits.paths, nil
}
