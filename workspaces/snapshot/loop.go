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

// dueSnap is a requested background snapshot.
type dueSnap struct {
	workspaceID string
	f           Request
}

// queue are snapshots to be taken by Run.
type queue struct {
	mu   sync.Mutex
	due  []dueSnap
	wake chan struct{}
}

// maxNoted bounds the queue: a session that constantly starts and ends turns gets fewer snapshots, but loses no version of a file.
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

// TurnEnded notes that an agent has finished a turn: Run takes a snapshot. prompt is what the agent was asked, "" if unknown. It does not
// block.
func (s *Service) TurnEnded(workspaceID, sessionID, prompt string) {
	s.captureState.queue.add(dueSnap{workspaceID, Request{Kind: SnapTurn, SessionID: sessionID, Title: sandboxgit.FirstLine(prompt)}})
}

// Committed notes that a workspace's branch may have moved.
func (s *Service) Committed(workspaceID string) {
	s.captureState.queue.add(dueSnap{workspaceID, Request{Kind: SnapCommit}})
}

// Intervals of the loop.
const (
	pruneEvery = time.Hour
	takeAtOnce = 2
)

// Run takes the queued snapshots and deletes old ones, until ctx is done.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.pruneOn(ctx) })
	turns := make(chan struct{}, takeAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.captureState.queue.wake:
		}
		for _, n := range s.captureState.queue.take() {
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

// commitTitle is the subject of the newest commit, with the number of further ones.
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

// TakeBefore takes a snapshot for a caller that continues even if it fails, such as an end that cannot be delayed: it logs errors. It takes
// none if the files are as in the newest one.
func (s *Service) TakeBefore(ctx context.Context, workspaceID, reason string) {
	_, err := s.Take(ctx, workspaceID, Request{Kind: SnapKept, Reason: reason, Changed: true})
	if err != nil && !fault.Is(err, fault.NotFound) {
		s.cfg.Log.WarnContext(ctx, "a snapshot of a workspace could not be taken", "workspace_id", workspaceID, "before", reason, "error", err)
	}
}

// KeepAway puts the snapshot of an archive or a deletion into the timeline, and stores the ignored files the project selects. On an error
// these are not stored: nothing may be removed then.
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
		s.cfg.Log.WarnContext(ctx, "the snapshot of an archive or a deletion could not be put into the timeline", "workspace_id", w.ID, "error", err)
	}
	return nil
}

// pruneOn deletes expired snapshots.
func (s *Service) pruneOn(ctx context.Context) {
	all, keep := tenant.All(ctx, "the retention of all teams' snapshots is set"), s.Retention()
	if err := s.store.SetSnapshotEnds(all, keep.Polls.Milliseconds(), keep.Others.Milliseconds()); err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "the expiry of snapshots could not be set", "error", err)
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

// PruneSnapshots deletes all expired snapshots, and returns how many. git's next garbage collection of the repository frees their objects.
// Rows go last: if killed in between, it is repeated.
func (s *Service) PruneSnapshots(ctx context.Context) (int, error) {
	ctx = tenant.All(ctx, "expired snapshots of all teams")
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

// dropSnaps removes snapshots of one workspace whose days have expired, with the refs of those days. gitDir is its project's repository, ""
// if the project is gone.
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
			edits = append(edits, git.RefDrop(pinRef(workspaceID, sn.ID))) // of one that was once pinned
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
	s.captureState.mu.Lock()
	if last := s.captureState.last[workspaceID]; slices.Contains(ids, last.ID) {
		delete(s.captureState.last, workspaceID)
	}
	s.captureState.mu.Unlock()
	return s.store.DeleteSnapshots(ctx, ids)
}

// stillOld returns the snapshots that are still expired and needed by no checkpoint and no review: that may have changed since they were listed.
func (s *Service) stillOld(ctx context.Context, list []Snap) ([]Snap, error) {
	ids := make([]string, len(list))
	for i, sn := range list {
		ids[i] = sn.ID
	}
	now, err := s.store.SnapshotsNamed(ctx, ids)
	if err != nil {
		return nil, err
	}
	used, err := s.store.InCheckpoints(ctx, ids)
	if err != nil {
		return nil, err
	}
	reviewed, err := s.store.InReviews(ctx, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(now, func(sn Snap) bool {
		return sn.Pinned || sn.ExpiresAt <= 0 || sn.ExpiresAt > s.records.Millis() || used[sn.ID] || reviewed[sn.ID]
	}), nil
}

// Hold calls fn while nothing removes the snapshot: what fn stores about it keeps it from then on. Errors: snapshot_not_found.
func (s *Service) Hold(ctx context.Context, workspaceID, id string, fn func() error) error {
	unlock, err := s.locks.Snapshots.LockContext(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.Snap(ctx, workspaceID, id); err != nil {
		return err
	}
	return fn()
}

// dayNeeded reports whether the ref of a snapshot's day has others that stay: their expiry may have changed meanwhile, and a review's
// stays.
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
				return true, nil // it has not expired, a review or a checkpoint refers to it, or it is removed next
			}
		}
		cursor = next
	}
	return false, nil
}

// DropRefs deletes refs of snapshots.
func (s *Service) DropRefs(ctx context.Context, p workspaces.Project, edits []git.RefEdit) error {
	var in strings.Builder
	for _, e := range edits {
		in.WriteString(string(e))
	}
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(in.String()), Args: []string{"update-ref", "--stdin"}})
	return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Deleting old snapshots")
}

// packAfter is how many snapshots a repository gets before their loose objects are packed.
const packAfter = 500

// packSnaps packs the objects of snapshots when there are many: a folder of a hundred thousand files makes git slow.
func (s *Service) packSnaps(ctx context.Context) {
	s.captureState.mu.Lock()
	var dirs []string
	for dir, n := range s.captureState.loose {
		if n >= packAfter {
			dirs = append(dirs, dir)
			delete(s.captureState.loose, dir)
		}
	}
	s.captureState.mu.Unlock()
	for _, dir := range dirs {
		_, err := s.git.Run(ctx, hostgit.Call{GitDir: dir, Args: []string{"maintenance", "run", "--task=loose-objects", "--quiet"}, Timeout: s.cfg.StepTimeout})
		if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			s.cfg.Log.WarnContext(ctx, "objects of snapshots could not be packed", "git_dir", dir, "error", err)
		}
	}
}
