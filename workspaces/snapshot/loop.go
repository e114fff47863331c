package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// dueSnap is a snapshot that is to be taken soon, beside what people ask for.
type dueSnap struct {
	workspaceID string
	f           Request
}

// queue are snapshots to be taken under Run.
type queue struct {
	mu   sync.Mutex
	due  []dueSnap
	wake chan struct{}
}

// maxNoted bounds what waits: a session that begins and ends turns all the time gets fewer snapshots, and loses no version of a file.
const maxNoted = 1000

func (q *queue) add(n dueSnap) {
	q.mu.Lock()
	if len(q.due) < maxNoted && !slices.Contains(q.due, n) {
		q.due = append(q.due, n)
	}
	q.mu.Unlock()
	tasks.Wake(q.wake)
}

func (q *queue) take() []dueSnap {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.due
	q.due = nil
	return out
}

// TurnEnded says that an agent has finished a turn: its files are kept under Run. prompt is what it was asked, "" where nobody knows. It
// does not block.
func (s *Service) TurnEnded(workspaceID, sessionID, prompt string) {
	s.keeps.queue.add(dueSnap{workspaceID, Request{Kind: SnapTurn, SessionID: sessionID, Title: sandboxgit.FirstLine(prompt)}})
}

// Committed says that a workspace's branch may have moved.
func (s *Service) Committed(workspaceID string) {
	s.keeps.queue.add(dueSnap{workspaceID, Request{Kind: SnapCommit}})
}

// Pauses of the loop.
const (
	pruneEvery = time.Hour
	takeAtOnce = 2
)

// Run takes the snapshots that are noted and lets go of old ones, until ctx is done.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.pruneOn(ctx) })
	turns := make(chan struct{}, takeAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.keeps.queue.wake:
		}
		for _, n := range s.keeps.queue.take() {
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				return
			}
			wg.Go(func() {
				defer func() { <-turns }()
				err := s.keepNoted(ctx, n)
				if err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
					s.cfg.Log.WarnContext(ctx, "a snapshot could not be taken", "workspace_id", n.workspaceID, "kind", n.f.Kind, "error", err)
				}
			})
		}
	}
}

func (s *Service) keepNoted(ctx context.Context, n dueSnap) error {
	if n.f.Kind != SnapCommit {
		_, err := s.Take(ctx, n.workspaceID, n.f)
		return err
	}
	w, err := s.store.Workspace(ctx, n.workspaceID)
	if err != nil || !s.HasFiles(w) {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	head, err := s.sandboxes.LocalHead(ctx, p, w)
	if err != nil || head == "" {
		return err
	}
	last, _, err := s.store.Snapshots(ctx, w.ID, nil, page.Page{Limit: 1})
	if err != nil {
		return err
	}
	since := w.BaseCommit
	if len(last) > 0 {
		since = last[0].Head
	}
	if head == since {
		return nil
	}
	if n.f.Title, err = s.commitTitle(ctx, p, since, head); err != nil {
		return err
	}
	_, _, err = s.capture(ctx, w, n.f, &Seen{})
	return err
}

// commitTitle is the subject of the newest commit, and how many there are beside it.
func (s *Service) commitTitle(ctx context.Context, p workspaces.Project, since, head string) (string, error) {
	c, err := s.repo.ReadCommit(ctx, p, head)
	if err != nil {
		return "", err
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-list", "--count", head, "^" + since, "--"}})
	n := 0
	if err == nil {
		_, _ = fmt.Sscan(out, &n)
	}
	if n > 1 {
		return fmt.Sprintf("%s (and %d more)", c.Subject, n-1), nil
	}
	return c.Subject, nil
}

// TakeBefore is Keep for who goes on whether it succeeds or not, such as an end that cannot be put off: it logs what fails. A workspace
// whose files are as in its newest snapshot gets no further one.
func (s *Service) TakeBefore(ctx context.Context, workspaceID, reason string) {
	_, err := s.Take(ctx, workspaceID, Request{Kind: SnapKept, Reason: reason, Changed: true})
	if err != nil && !fault.Is(err, fault.NotFound) {
		s.cfg.Log.WarnContext(ctx, "a workspace's files could not be kept", "workspace_id", workspaceID, "before", reason, "error", err)
	}
}

// KeepAway puts into the timeline what an archive or a deletion has kept by refs of its own, and keeps the ignored files the project chose.
// An error says that these are not kept: nothing may be removed then.
func (s *Service) KeepAway(ctx context.Context, p workspaces.Project, w workspaces.Workspace, snap *workspaces.Snapshot, why string) error {
	if snap == nil || !s.HasFiles(w) {
		return nil
	}
	var sn Snap
	tree, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-parse", "--verify", "--quiet", snap.Commit + "^{tree}"}})
	if err == nil {
		sn, _, err = s.capture(ctx, w, Request{Kind: SnapKept, Reason: why, Ignored: s.AskIgnored(ctx, p, w, SnapKept)}, &Seen{Tree: tree, Missing: snap.Missing})
	}
	if err == nil {
		edit := git.RefDrop(TrashIgnored(w.ID))
		if sn.Ignored != "" {
			edit = git.RefSet(TrashIgnored(w.ID), sn.Ignored)
		}
		err = s.DropRefs(ctx, p, []git.RefEdit{edit})
	}
	if err != nil && WantsIgnored(p, SnapKept) {
		return err
	}
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "what was put away could not be put into the timeline", "workspace_id", w.ID, "error", err)
	}
	return nil
}

// pruneOn lets go of snapshots whose time is over.
func (s *Service) pruneOn(ctx context.Context) {
	all, keep := tenant.All(ctx, "snapshots of all teams end as they are told to now"), s.Retention()
	if err := s.store.SetSnapshotEnds(all, keep.Polls.Milliseconds(), keep.Others.Milliseconds()); err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "the ends of snapshots could not be set", "error", err)
	}
	for {
		if n, err := s.PruneSnapshots(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "old snapshots could not be removed", "error", err)
		} else if n > 0 {
			s.cfg.Log.InfoContext(ctx, "old snapshots were removed", "count", n)
		}
		s.packSnaps(ctx)
		select {
		case <-ctx.Done():
			return
		case <-s.cfg.After(pruneEvery):
		}
	}
}

// pruneBatch is how many rows one step removes.
const pruneBatch = 500

// PruneSnapshots lets go of every snapshot whose time is over, and says how many there were. What only they held is freed by git's next
// clean-up of the repository. Rows go last: killed in between, it is done again.
func (s *Service) PruneSnapshots(ctx context.Context) (int, error) {
	ctx = tenant.All(ctx, "snapshots of all teams end")
	total := 0
	for {
		old, err := s.store.OldSnapshots(ctx, s.records.Millis(), pruneBatch)
		if err != nil || len(old) == 0 {
			return total, err
		}
		byWorkspace := make(map[string][]Snap)
		for _, sn := range old {
			byWorkspace[sn.WorkspaceID] = append(byWorkspace[sn.WorkspaceID], sn)
		}
		ids := slices.Sorted(maps.Keys(byWorkspace))
		dirs, err := s.store.GitDirs(ctx, ids)
		if err != nil {
			return total, err
		}
		for _, id := range ids {
			if err := s.dropSnaps(ctx, id, dirs[id], byWorkspace[id]); err != nil {
				return total, err
			}
			total += len(byWorkspace[id])
		}
	}
}

// dropSnaps removes snapshots of one workspace whose days are over, with the refs of those days. gitDir is its project's repository, "" where
// the project is gone.
func (s *Service) dropSnaps(ctx context.Context, workspaceID, gitDir string, old []Snap) error {
	unlock, err := s.locks.Snapshots.LockContext(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer unlock()
	if old, err = s.stillOld(ctx, old); err != nil || len(old) == 0 {
		return err
	}
	if gitDir != "" && git.FolderExists(gitDir) {
		var edits []git.RefEdit
		for _, sn := range old {
			edits = append(edits, git.RefDrop(pinRef(workspaceID, sn.ID))) // of one that was pinned once
			e := git.RefDrop(chainRef(sn))
			if slices.Contains(edits, e) {
				continue
			}
			if needed, err := s.dayNeeded(ctx, sn, old); err != nil {
				return err
			} else if !needed {
				edits = append(edits, e)
			}
		}
		if err := s.DropRefs(ctx, workspaces.Project{GitDir: gitDir}, edits); err != nil {
			return err
		}
	}
	ids := make([]string, len(old))
	for i, sn := range old {
		ids[i] = sn.ID
	}
	s.keeps.mu.Lock()
	if last := s.keeps.last[workspaceID]; slices.Contains(ids, last.ID) {
		delete(s.keeps.last, workspaceID)
	}
	s.keeps.mu.Unlock()
	return s.store.DeleteSnapshots(ctx, ids)
}

// stillOld leaves of snapshots those whose time is still over: one may have been pinned since they were listed.
func (s *Service) stillOld(ctx context.Context, list []Snap) ([]Snap, error) {
	ids := make([]string, len(list))
	for i, sn := range list {
		ids[i] = sn.ID
	}
	now, err := s.store.SnapshotsNamed(ctx, ids)
	return slices.DeleteFunc(now, func(sn Snap) bool { return sn.Pinned || sn.ExpiresAt <= 0 || sn.ExpiresAt > s.records.Millis() }), err
}

// dayNeeded reports whether the ref of a snapshot's day holds others that are to stay: how long they do may have been set anew meanwhile, and a review's stays.
func (s *Service) dayNeeded(ctx context.Context, sn Snap, old []Snap) (bool, error) {
	kinds := []string{SnapPoll}
	if sn.Kind != SnapPoll {
		kinds = kindsBesidePolls()
	}
	end := time.UnixMilli(sn.At).UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).UnixMilli()
	for cursor := page.Encode(page.Key{At: end}); cursor != ""; {
		items, next, err := s.store.Snapshots(ctx, sn.WorkspaceID, kinds, page.Page{Limit: page.MaxLimit, Cursor: cursor})
		if err != nil {
			return false, err
		}
		for _, it := range items {
			if dayOf(it.At) != dayOf(sn.At) {
				return false, nil
			}
			if !it.Pinned && !slices.ContainsFunc(old, func(o Snap) bool { return o.ID == it.ID }) {
				return true, nil // its time is not over, a review is about it, or it is removed next
			}
		}
		cursor = next
	}
	return false, nil
}

// DropRefs removes refs of snapshots.
func (s *Service) DropRefs(ctx context.Context, p workspaces.Project, edits []git.RefEdit) error {
	var in strings.Builder
	for _, e := range edits {
		in.WriteString(string(e))
	}
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(in.String()), Args: []string{"update-ref", "--stdin"}})
	return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Letting go of old snapshots")
}

// packAfter is how many snapshots a repository gets before their objects, which lie in files of their own, are put together.
const packAfter = 500

// packSnaps puts the objects of snapshots together where there are many: a folder of a hundred thousand files makes git slow.
func (s *Service) packSnaps(ctx context.Context) {
	s.keeps.mu.Lock()
	var dirs []string
	for dir, n := range s.keeps.loose {
		if n >= packAfter {
			dirs = append(dirs, dir)
			delete(s.keeps.loose, dir)
		}
	}
	s.keeps.mu.Unlock()
	for _, dir := range dirs {
		_, err := s.git.Run(ctx, hostgit.Call{GitDir: dir, Args: []string{"maintenance", "run", "--task=loose-objects", "--quiet"}, Timeout: s.cfg.StepTimeout})
		if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			s.cfg.Log.WarnContext(ctx, "objects of snapshots could not be put together", "git_dir", dir, "error", err)
		}
	}
}
