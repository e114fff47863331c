package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// PinSnapshot keeps a snapshot until a user deletes it: it gets its own ref, with a commit that does not reach other snapshots.
func (s *Service) PinSnapshot(ctx context.Context, sn Snap, pin bool) (Snap, error) {
	unlock, err := s.locks.Snapshots.LockContext(ctx, sn.WorkspaceID)
	if err != nil {
		return Snap{}, err
	}
	defer unlock()
	p, err := s.repo.ProjectOf(ctx, sn.WorkspaceID)
	if err != nil {
		return Snap{}, err
	}
	if sn, err = s.Snap(ctx, sn.WorkspaceID, sn.ID); err != nil || sn.Pinned == pin {
		return sn, err
	}
	commit := sn.Commit
	if pin {
		commit, err = s.pinCommit(ctx, p, sn)
	} else if commit, err = s.chainCommit(ctx, p, sn); err == nil && commit == "" {
		err = fault.New(fault.Conflict, "snapshot_last", "Only its pin keeps this snapshot: the others of its day are gone. Delete it instead.")
	}
	if err != nil {
		return Snap{}, err
	}
	done, err := s.store.EditSnapshot(ctx, sn.ID, func(x *Snap) error {
		x.Pinned, x.Commit = pin, commit
		x.ExpiresAt = s.snapEnd(*x)
		return nil
	})
	if err != nil {
		return Snap{}, err
	}
	if !pin { // last: if killed before, it is still pinned
		if err := s.DropRefs(ctx, p, []git.RefEdit{git.RefDrop(pinRef(sn.WorkspaceID, sn.ID))}); err != nil {
			s.cfg.Log.WarnContext(ctx, "the ref of a snapshot that was pinned could not be removed", "snapshot_id", sn.ID, "error", err)
		}
	}
	s.snapChanged(ctx, done)
	return done, nil
}

// pinCommit makes the commit and the ref of a snapshot that is pinned.
func (s *Service) pinCommit(ctx context.Context, p workspaces.Project, sn Snap) (string, error) {
	scratch, err := s.repo.ScratchOf(ctx, p)
	if err != nil {
		return "", err
	}
	defer func() { _ = scratch.Close() }()
	note, err := noteOf(sn, "")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "-p", sn.Head}
	if sn.Ignored != "" {
		args = append(args, "-p", sn.Ignored)
	}
	args = append(args, "-F", "-", sn.Tree)
	out, err := scratch.Run(ctx, hostgit.Call{Args: args, Stdin: strings.NewReader(note), Env: []string{
		"GIT_AUTHOR_NAME=Parawork", "GIT_AUTHOR_EMAIL=parawork@localhost", "GIT_COMMITTER_NAME=Parawork", "GIT_COMMITTER_EMAIL=parawork@localhost"}})
	if err != nil {
		return "", git.GitFault(err, fault.Unavailable, "snapshot_failed", "Pinning the snapshot")
	}
	commit := strings.TrimSpace(string(out))
	return commit, s.DropRefs(ctx, p, []git.RefEdit{git.RefSet(pinRef(sn.WorkspaceID, sn.ID), commit)})
}

// chainCommit finds the commit of a snapshot in the chain of its day, "" when the day is gone.
func (s *Service) chainCommit(ctx context.Context, p workspaces.Project, sn Snap) (string, error) {
	at, err := s.repo.CommitOf(ctx, p.GitDir, chainRef(sn))
	for err == nil && at != "" {
		var c chained
		if c, err = s.readChained(ctx, p, sn.WorkspaceID, at); err == nil && c.note.ID == sn.ID {
			return at, nil
		}
		at = c.before
	}
	return "", err
}

// NameSnapshot gives a snapshot a title.
func (s *Service) NameSnapshot(ctx context.Context, sn Snap, title string) (Snap, error) {
	title = strings.TrimSpace(hostgit.Clean(title))
	if len([]rune(title)) > maxSnapTitle {
		return Snap{}, fault.New(fault.Invalid, "title_too_long", "A snapshot's title has at most %d characters.", maxSnapTitle).With("field", "title")
	}
	done, err := s.store.EditSnapshot(ctx, sn.ID, func(x *Snap) error { x.Title = title; return nil })
	if err == nil {
		s.snapChanged(ctx, done)
	}
	return done, err
}

// DeleteSnapshot removes a snapshot from the timeline. Its objects are freed with its day.
func (s *Service) DeleteSnapshot(ctx context.Context, sn Snap) error {
	unlock, err := s.locks.Snapshots.LockContext(ctx, sn.WorkspaceID)
	if err != nil {
		return err
	}
	defer unlock()
	if newest, err := s.store.SnapshotBefore(ctx, sn.WorkspaceID, 0); err == nil && newest.ID == sn.ID {
		return fault.New(fault.Conflict, "snapshot_newest", "The newest snapshot is what the next ones are compared with. It can be deleted once there is another.")
	}
	if used, err := s.store.InCheckpoints(ctx, []string{sn.ID}); err != nil {
		return err
	} else if used[sn.ID] {
		return fault.New(fault.Conflict, "snapshot_in_checkpoint", "A checkpoint refers to this snapshot. Remove the checkpoint first.")
	}
	if reviewed, err := s.store.InReviews(ctx, []string{sn.ID}); err != nil {
		return err
	} else if reviewed[sn.ID] {
		return fault.New(fault.Conflict, "snapshot_in_review", "A review refers to this snapshot: it shows the files that were reviewed. It stays as long as the review.")
	}
	p, err := s.repo.ProjectOf(ctx, sn.WorkspaceID)
	if err != nil {
		return err
	}
	// The row goes first: if killed in between, the snapshot is back, complete.
	if err := s.store.DeleteSnapshots(ctx, []string{sn.ID}); err != nil {
		return err
	}
	s.snapChanged(ctx, sn)
	return s.dropTips(ctx, p, sn)
}

// dropTips deletes the refs of a deleted snapshot: its pin, and the end of its day's chain where nothing is a snapshot any more, which a
// starting server would mistake for one whose row was not stored.
func (s *Service) dropTips(ctx context.Context, p workspaces.Project, sn Snap) error {
	if !git.FolderExists(p.GitDir) {
		return nil
	}
	edits := []git.RefEdit{git.RefDrop(pinRef(sn.WorkspaceID, sn.ID))}
	ref := chainRef(sn)
	tip, err := s.repo.CommitOf(ctx, p.GitDir, ref)
	if err != nil {
		return err
	}
	at := tip
	for at != "" {
		c, err := s.readChained(ctx, p, sn.WorkspaceID, at)
		if err != nil {
			return err
		}
		if c.note.ID == "" {
			break
		}
		if _, err := s.store.Snapshot(ctx, c.note.ID); err == nil {
			break
		} else if !fault.Is(err, fault.NotFound) {
			return err
		}
		at = c.before
	}
	switch {
	case at == tip:
	case at == "":
		edits = append(edits, git.RefDelete(ref, tip))
	default:
		edits = append(edits, git.RefUpdate(ref, at, tip))
	}
	return s.DropRefs(ctx, p, edits)
}

// snapChanged publishes that a snapshot was changed or removed.
func (s *Service) snapChanged(ctx context.Context, sn Snap) {
	s.captureState.mu.Lock()
	if last, ok := s.captureState.last[sn.WorkspaceID]; ok && last.ID == sn.ID {
		delete(s.captureState.last, sn.WorkspaceID)
	}
	s.captureState.mu.Unlock()
	s.publishSnap(ctx, sn, s.records.Millis())
}

// Moment is one line of a timeline: a snapshot or an activity.
type Moment struct {
	Snap     *Snap
	Activity *workspaces.Activity
}

func (m Moment) key() page.Key {
	if m.Snap != nil {
		return page.Key{At: m.Snap.At, ID: m.Snap.ID}
	}
	return page.Key{At: m.Activity.At, ID: m.Activity.ID}
}

// KindActivity names, among kinds of snapshots, the activities.
const KindActivity = "activity"

// Timeline returns a page of what happened in a workspace, the newest first; of these kinds only, all when none is named.
func (s *Service) Timeline(ctx context.Context, workspaceID string, kinds []string, pg page.Page) ([]Moment, string, error) {
	var snaps []string
	withActivity := len(kinds) == 0
	for _, k := range kinds {
		switch {
		case k == KindActivity:
			withActivity = true
		case slices.Contains(snapKinds, k):
			snaps = append(snaps, k)
		default:
			return nil, "", fault.New(fault.Invalid, "invalid_parameter", "kind is a list, separated by commas, of %s, %s.", strings.Join(snapKinds, ", "), KindActivity).With("field", "kind")
		}
	}
	var all []Moment
	if len(kinds) == 0 || len(snaps) > 0 {
		items, _, err := s.store.Snapshots(ctx, workspaceID, snaps, pg)
		if err != nil {
			return nil, "", err
		}
		for i := range items {
			all = append(all, Moment{Snap: &items[i]})
		}
	}
	if withActivity {
		items, _, err := s.store.Activity(ctx, workspaceID, pg)
		if err != nil {
			return nil, "", err
		}
		for i := range items {
			all = append(all, Moment{Activity: &items[i]})
		}
	}
	slices.SortFunc(all, func(a, b Moment) int {
		return cmp.Or(cmp.Compare(b.key().At, a.key().At), strings.Compare(b.key().ID, a.key().ID))
	})
	more := len(all) >= pg.Size() // if a list was full, there may be more
	all = all[:min(len(all), pg.Size())]
	next := ""
	if more && len(all) > 0 {
		next = page.Encode(all[len(all)-1].key())
	}
	return all, next, nil
}

// keptBytesEvery is the minimum interval of counting the size of a workspace's snapshots.
const keptBytesEvery = 5 * time.Minute

// KeptBytes is the size of the repository's objects that only snapshots of a workspace reach, compressed; -1 = unknown yet.
func (s *Service) KeptBytes(ctx context.Context, workspaceID string) (int64, error) {
	s.captureState.mu.Lock()
	was, ok := s.captureState.sizes[workspaceID]
	s.captureState.mu.Unlock()
	if ok && s.cfg.Now().Sub(was.at) < keptBytesEvery {
		return was.bytes, nil
	}
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return -1, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil || !git.FolderExists(p.GitDir) {
		return -1, err
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Timeout: 20 * time.Second, Args: []string{"rev-list", "--objects", "--disk-usage", "--glob=" + snapRefs(w.ID) + "*", "--not", "--branches", "--remotes", "--glob=" + git.BaseRef(w.ID)}})
	if err != nil {
		return -1, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Counting the objects of snapshots")
	}
	n, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		return -1, fmt.Errorf("rev-list answered %.100q", out)
	}
	s.captureState.mu.Lock()
	s.captureState.sizes[workspaceID] = keptSize{n, s.cfg.Now()}
	s.captureState.mu.Unlock()
	return n, nil
}

type keptSize struct {
	bytes int64
	at    time.Time
}
