package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// A project may come from a folder of a member's own machine. The server has a copy of its branches, which it received as a git bundle and
// checked as strictly as what sandboxes send, because a machine is not trusted. They are stored as those of a remote called origin, and
// each fetch is another bundle with the new commits. Only the folder's branches and tags ever leave the machine.

// Bounds of a bundle.
const (
	maxBundle       = 16 << 30 // bytes of its pack
	maxBundleBlob   = 2 << 30  // bytes of one file
	maxBundleMemory = 3 << 30  // bytes git may allocate to check it
	maxBundleRefs   = 20_000
	maxBundleHave   = 2_000 // commits that the server reports having to a machine
)

func brokenBundle(why string) error {
	return fault.New(fault.Conflict, "bundle_refused", "The folder's branches that the machine sent were rejected: %s. The project is unchanged.", why)
}

// CloneFromMachine makes a bare repository of what the machine sends and returns its default branch.
func (s *Service) CloneFromMachine(ctx context.Context, p workspaces.Project) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CloneTimeout)
	defer cancel()
	const doing = "Cloning"
	s.records.SetProgress(ctx, p, "Asking the machine")
	b, err := s.openBundle(ctx, p, nil)
	if err != nil {
		return "", err
	}
	defer b.close()
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--template=", "--object-format=" + b.format, p.GitDir},
		{"config", "remote.origin.fetch", git.FetchSpec},
		{"config", "core.logAllRefUpdates", "true"}, // bare repositories have no reflog by default
		{"config", "gc.pruneExpire", "never"},       // sandboxes may share objects
	} {
		if _, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Dir: s.ProjectDir(p.ID), Args: args}); err != nil {
			return "", git.GitFault(err, fault.Internal, "clone_failed", doing)
		}
	}
	if err := s.takeBundle(ctx, p, b); err != nil {
		return "", err
	}
	if b.head != "" { // use the branch checked out there if there is no main or master
		if _, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"symbolic-ref", "HEAD", git.HeadsPrefix + b.head}}); err != nil {
			return "", git.GitFault(err, fault.Internal, "clone_failed", doing)
		}
	}
	branch, err := s.repo.DefaultBranch(ctx, p.GitDir, p.DefaultBranch)
	if err != nil {
		return "", err
	}
	if _, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"symbolic-ref", "HEAD", git.HeadsPrefix + branch}}); err != nil {
		return "", git.GitFault(err, fault.Internal, "clone_failed", doing)
	}
	commit, err := s.repo.CommitOf(ctx, p.GitDir, git.OriginPrefix+branch)
	if err == nil && commit != "" {
		err = s.repo.UpdateRefs(ctx, p.GitDir, "clone", git.RefCreate(git.HeadsPrefix+branch, commit))
	}
	return branch, err
}

// FetchBundle fetches the branches of a project's folder.
func (s *Service) FetchBundle(ctx context.Context, p workspaces.Project) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.FetchTimeout, fault.New(fault.Timeout, "runner_timeout",
		"The machine has not sent the folder's branches within %s. Its owner may be asked there whether the folder may be read.", s.cfg.FetchTimeout))
	defer cancel()
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", fmt.Sprintf("--count=%d", maxBundleHave), "--sort=-creatordate",
		"--format=%(objectname) %(refname)", "refs/remotes/origin", "refs/heads"}})
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	hidden, err := s.sandboxes.HiddenBranches(ctx, p)
	if err != nil {
		return err
	}
	var have []string
	for l := range strings.Lines(out) {
		if id, name, ok := strings.Cut(strings.TrimSpace(l), " "); ok && !hidden.Hide(name) {
			have = append(have, id)
		}
	}
	b, err := s.openBundle(ctx, p, git.Unique(have))
	if err != nil {
		return causeFirst(ctx, err)
	}
	defer b.close()
	return causeFirst(ctx, s.takeBundle(ctx, p, b))
}

// causeFirst prefers the cause of a context's end to the resulting error.
func causeFirst(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// bundle is a bundle whose header was read: its pack follows.
type bundle struct {
	pack   *bufio.Reader
	body   io.Closer
	once   sync.Once
	format string            // sha1 or sha256
	refs   map[string]string // branches and tags by their full names
	head   string            // the branch checked out there
}

func (b *bundle) close() { b.once.Do(func() { _ = b.body.Close() }) }

// openBundle requests a bundle from a project's machine and reads its header.
func (s *Service) openBundle(ctx context.Context, p workspaces.Project, have []string) (*bundle, error) {
	m, err := s.Machines()
	if err != nil {
		return nil, err
	}
	body, err := m.Bundle(asked(ctx, "read the folder's branches for project "+p.Name), p.RunnerID, wire.BundleAsk{Path: p.Source, Have: have})
	if err != nil {
		return nil, err
	}
	b, err := readBundle(body)
	if err != nil {
		_ = body.Close()
		return nil, err
	}
	return b, nil
}

// readBundle reads a bundle's header: signature, prerequisites, refs, an empty line. Format: gitformat-bundle(5).
func readBundle(body io.ReadCloser) (*bundle, error) {
	b := &bundle{pack: bufio.NewReaderSize(body, 64<<10), body: body, format: "sha1", refs: make(map[string]string)}
	at := "" // the commit HEAD is at
	for n := 0; ; n++ {
		line, err := b.pack.ReadSlice('\n')
		if err != nil || len(line) > 1000 || n > 3*maxBundleRefs {
			return nil, errors.Join(brokenBundle("it has no bundle header"), err)
		}
		l := strings.TrimSuffix(string(line), "\n")
		id, name, _ := strings.Cut(strings.TrimPrefix(l, "-"), " ")
		switch {
		case n == 0:
			if l != "# v2 git bundle" && l != "# v3 git bundle" {
				return nil, brokenBundle("it is not a bundle")
			}
		case l == "":
			if len(b.refs) == 0 {
				return nil, brokenBundle("it has no branches")
			}
			return b, nil
		case l == "@object-format=sha1":
		case l == "@object-format=sha256":
			b.format = "sha256"
		case !git.IsCommitID(id) || (len(id) == 64) != (b.format == "sha256"):
			return nil, brokenBundle("it names something that is not a commit")
		case l[0] == '-': // a prerequisite: checked together with its objects
		case name == "HEAD":
			at = id
		case !sandboxgit.PlainRef(name) || len(b.refs) >= maxBundleRefs: // ignore other refs, though git accepts them
		case strings.HasPrefix(name, git.HeadsPrefix):
			if b.head == "" && id == at {
				b.head = strings.TrimPrefix(name, git.HeadsPrefix)
			}
			b.refs[name] = id
		case strings.HasPrefix(name, "refs/tags/"):
			b.refs[name] = id
		}
	}
}

// takeBundle receives a bundle's objects into quarantine and, after checking all of them, moves the project's refs: those of origin to
// their state on the machine, and new tags. The objects must be complete with what the team may read, and nothing else of the project. On
// an error the project is unchanged; if interrupted, it is repeated.
func (s *Service) takeBundle(ctx context.Context, p workspaces.Project, b *bundle) error {
	const doing = "Fetching"
	known, err := s.sandboxes.Share(ctx, p)
	if err != nil {
		return err
	}
	in, err := s.git.Quarantine(ctx, s.records.TmpDir(), p.GitDir, s.sandboxes.SharedStore(p.ID).Objects())
	if err != nil {
		return git.DiskFault(err, "Fetching from the machine")
	}
	defer func() { _ = in.Close() }()
	limits := hostgit.QuarantineLimits{Bytes: maxBundle, Blob: maxBundleBlob, Memory: maxBundleMemory, Time: s.cfg.CloneTimeout}
	tips := make(map[string]bool) // by name: whether it must be a commit
	for name, id := range b.refs {
		tips[id] = tips[id] || strings.HasPrefix(name, git.HeadsPrefix)
	}
	pack := &counting{r: b.pack, say: func(n int64) {
		if p.State == workspaces.Cloning {
			s.records.SetProgress(ctx, p, fmt.Sprintf("Receiving from the machine: %d MiB", n>>20))
		}
	}}
	err = b.feed(ctx, pack, func(r io.Reader) error { return in.Take(ctx, r, limits) })
	if err == nil {
		err = in.Check(ctx, tips, limits, known...)
	}
	if errors.Is(err, hostgit.ErrRefused) {
		if pack.err != nil && !errors.Is(pack.err, io.EOF) {
			return fault.Wrap(pack.err, fault.Unavailable, "fetch_failed", "The connection to the machine was lost while it sent the folder's branches. Try again.")
		}
		return brokenBundle(strings.TrimSuffix(strings.TrimPrefix(err.Error(), hostgit.ErrRefused.Error()+": "), "."))
	}
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "fetch_failed", doing)
	}
	if err := in.Keep(); err != nil {
		return git.DiskFault(err, "Fetching from the machine")
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	was, err := s.sandboxes.RefsBelow(ctx, p, git.OriginPrefix)
	if err != nil {
		return err
	}
	tags, err := s.sandboxes.RefsBelow(ctx, p, "refs/tags/")
	if err != nil {
		return err
	}
	var gone, moved []git.RefEdit
	for name := range was {
		if b.refs[git.HeadsPrefix+strings.TrimPrefix(name, git.OriginPrefix)] == "" {
			gone = append(gone, git.RefDrop(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.refs)) {
		id := b.refs[name]
		if branch, ok := strings.CutPrefix(name, git.HeadsPrefix); !ok {
			if tags[name] == "" {
				moved = append(moved, git.RefCreate(name, id))
			}
		} else if was[git.OriginPrefix+branch] != id {
			moved = append(moved, git.RefSet(git.OriginPrefix+branch, id))
		}
	}
	for _, edits := range [...][]git.RefEdit{gone, moved} { // first those that may conflict with a new name
		if len(edits) == 0 {
			continue
		}
		if err := s.repo.UpdateRefs(ctx, p.GitDir, "fetch from the machine", edits...); err != nil {
			return git.GitFault(err, fault.Unavailable, "fetch_failed", doing)
		}
	}
	return nil
}

// feed has take read what the machine sends through an OS pipe: so a silent machine does not block waiting for git, nor git's early exit
// the machine.
func (b *bundle) feed(ctx context.Context, pack io.Reader, take func(io.Reader) error) error {
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { // owned by this call: ends with the answer, which is closed below
		defer close(done)
		_, _ = io.Copy(pw, pack)
		_ = pw.Close()
	}()
	stop := context.AfterFunc(ctx, b.close)
	err = take(pr)
	stop()
	b.close()
	_ = pr.Close()
	<-done
	return err
}

// counting reports how much was read, and records why reading stopped.
type counting struct {
	r   io.Reader
	n   int64
	err error
	say func(int64)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n>>20 != (c.n+int64(n))>>20 {
		c.say(c.n + int64(n))
	}
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}

// ProjectDir is the folder of a project's own repository.
func (s *Service) ProjectDir(projectID string) string {
	return filepath.Join(s.cfg.DataDir, "projects", projectID)
}
