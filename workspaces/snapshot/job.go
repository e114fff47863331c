package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// dayOf is the day of a time, in UTC.
func dayOf(at int64) string { return time.UnixMilli(at).UTC().Format("20060102") }

// Hidden refs of snapshots.
func pollsRef(workspaceID, day string) string { return snapRefs(workspaceID) + "polls/" + day }

func keptRef(workspaceID, day string) string { return snapRefs(workspaceID) + "kept/" + day }

func pinRef(workspaceID, id string) string { return snapRefs(workspaceID) + "pinned/" + id }

func snapRefs(workspaceID string) string { return "refs/parawork/snapshots/" + workspaceID + "/" }

// chainRef is the ref of a snapshot that is not pinned.
func chainRef(sn Snap) string {
	if sn.Kind == SnapPoll {
		return pollsRef(sn.WorkspaceID, dayOf(sn.At))
	}
	return keptRef(sn.WorkspaceID, dayOf(sn.At))
}

// entry is an entry of a tree.
type entry struct{ mode, oid string }

// capture takes one snapshot. seen lists the differences: with Base, all of them; without, those possible since the previous snapshot; if
// nil, the worktree is read. made is false when nothing changed and no snapshot was requested explicitly.
func (s *Service) capture(ctx context.Context, w workspaces.Workspace, f Request, seen *Seen) (sn Snap, made bool, err error) {
	unlock, err := s.locks.Snapshots.LockContext(ctx, w.ID)
	if err != nil {
		return Snap{}, false, err
	}
	defer unlock()
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return Snap{}, false, err
	}
	prev, err := s.lastSnap(ctx, p, w)
	if err != nil {
		return Snap{}, false, err
	}
	part := seen != nil && seen.Base == "" && seen.Tree == "" && seen.Stale == ""
	if part && !seen.All && !s.compared(w.ID) {
		// The newest snapshot is of an earlier server, which may have died between changing files and taking the snapshot.
		seen = &Seen{Paths: seen.Paths, All: true}
	}
	// From here on it completes even if the caller leaves: what was read is stored.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	if f.Title = hostgit.Clean(f.Title); len([]rune(f.Title)) > maxSnapTitle {
		f.Title = string([]rune(f.Title)[:maxSnapTitle])
	}
	t := Job{s: s, p: p, w: w, prev: prev, f: f, limit: pollFile, total: pollTotal}
	if t.Secrets, err = s.secretFiles.SecretFiles(ctx, w.ID); err != nil {
		return Snap{}, false, err
	}
	if f.Kind != SnapPoll && f.Kind != SnapTurn && f.Kind != SnapCommit {
		t.limit, t.total = keepFile, keepTotal
	}
	sn, made, err = t.run(ctx, seen)
	if err != nil { // it may be in the repository already: the next one searches for unstored rows
		s.captureState.mu.Lock()
		delete(s.captureState.last, w.ID)
		s.captureState.mu.Unlock()
	}
	if git.DiskIsFull(err) {
		return Snap{}, false, fault.Wrap(err, fault.DiskFull, "disk_full", "The workspace's files could not be saved: the server's disk is full. Free some space, then try again.")
	}
	if err != nil {
		return Snap{}, false, fault.Wrap(err, fault.KindOf(err), "snapshot_failed", "The workspace's files could not be saved: %s", git.Reason(err))
	}
	s.captureState.mu.Lock()
	if seen == nil || seen.Stale == "" && (!part || seen.All) {
		s.captureState.sure[w.ID] = true
	}
	if !made {
		s.captureState.mu.Unlock()
		return sn, false, nil
	}
	s.captureState.last[w.ID] = sn
	s.captureState.loose[p.GitDir]++
	s.captureState.mu.Unlock()
	s.reportedSnap(ctx, sn)
	return sn, true, nil
}

// compared reports whether a snapshot of the workspace was compared with all its files since the server started.
func (s *Service) compared(workspaceID string) bool {
	s.captureState.mu.Lock()
	defer s.captureState.mu.Unlock()
	return s.captureState.sure[workspaceID]
}

// maxSnapTitle is how many characters a snapshot's title may have.
const maxSnapTitle = 200

// Bounds of what one snapshot reads, in bytes.
const (
	pollFile  = 32 << 20 // one file, unless the snapshot was requested
	pollTotal = 512 << 20
	keepFile  = 1 << 30
	keepTotal = 16 << 30
)

// Job is one snapshot being taken.
type Job struct {
	s            *Service
	p            workspaces.Project
	w            workspaces.Workspace
	prev         Snap
	f            Request
	limit, total int64

	Head     string
	Secrets  workspaces.SecretFiles
	byHost   bool            // git found the paths without the worktree's own settings
	reported map[string]bool // those of them that were reported with these settings in effect
	Scratch  *hostgit.Scratch
	tips     *refTips
	Missing  []workspaces.Missing
}

// LookAt is a job that takes no snapshot: it reads the files of a worktree at head.
func (s *Service) LookAt(p workspaces.Project, w workspaces.Workspace, head string) *Job {
	return &Job{s: s, p: p, w: w, Head: head}
}

func (t *Job) run(ctx context.Context, seen *Seen) (Snap, bool, error) {
	var err error
	t.tips = t.readTips(ctx, chainRef(Snap{Kind: t.f.Kind, WorkspaceID: t.w.ID, At: max(t.s.records.Millis(), t.prev.At+1)}))
	defer func() { <-t.tips.done }()
	if t.Scratch, err = t.s.repo.ScratchOf(ctx, t.p); err != nil {
		return Snap{}, false, err
	}
	defer func() { _ = t.Scratch.Close() }()
	start, paths, clean, err := t.candidates(ctx, seen)
	if err != nil {
		return Snap{}, false, err
	}
	had, err := t.entries(ctx, start, paths)
	if err != nil {
		return Snap{}, false, err
	}
	if err := t.waitTips(); err != nil {
		return Snap{}, false, err
	}
	root, err := os.OpenRoot(t.w.Path)
	if err != nil {
		return Snap{}, false, err
	}
	defer root.Close()
	edits, err := t.read(ctx, root, paths, had, clean)
	if err != nil {
		return Snap{}, false, err
	}
	ignoredCommit, ignoredN, err := t.saveIgnored(ctx, root)
	if err == nil {
		err = t.noteRemoteIgnored(ctx, ignoredCommit)
	}
	if err != nil {
		return Snap{}, false, err
	}
	needless := t.f.Kind == SnapPoll || t.f.Changed && t.Head == t.prev.Head && ignoredCommit == t.prev.Ignored
	if len(edits) == 0 && start == t.prev.Tree && needless {
		return t.prev, false, nil
	}
	base, err := t.s.repo.BaseCommit(ctx, t.w.ID)
	if err != nil {
		return Snap{}, false, err
	}
	sn := Snap{ID: id.New("snp"), TeamID: t.w.TeamID, WorkspaceID: t.w.ID, Kind: t.f.Kind, Reason: t.f.Reason, Title: t.f.Title, ActorID: t.f.ActorID, SessionID: t.f.SessionID,
		Head: t.Head, BaseCommit: base, At: max(t.s.records.Millis(), t.prev.At+1), Missing: t.Missing,
		Ignored: ignoredCommit, IgnoredN: ignoredN}
	sn.ExpiresAt = t.s.snapEnd(sn)
	ref := chainRef(sn)
	before, err := t.beforeOn(ctx, ref)
	if err != nil {
		return Snap{}, false, err
	}
	from, err := t.s.since(ctx, sn)
	if err != nil {
		return Snap{}, false, err
	}
	if err := t.write(ctx, &sn, start, before, from, edits); err != nil {
		return Snap{}, false, err
	}
	if sn.Tree == t.prev.Tree && needless {
		return t.prev, false, nil // written without a change
	}
	counted := make(chan error, 1)
	go func() { counted <- countSnap(ctx, t.Scratch, &sn, from) }() // concurrent with the ref's update; waited for below
	failpoint.Reach(failpoint.SnapshotWritten)
	err = t.s.moveRef(ctx, t.p, ref, sn.Commit, before)
	if cerr := <-counted; err == nil {
		err = cerr
	}
	if err != nil {
		return Snap{}, false, err
	}
	failpoint.Reach(failpoint.SnapshotKept)
	if err := t.s.store.InsertSnapshot(ctx, sn); err != nil {
		return Snap{}, false, fmt.Errorf("storing the snapshot: %w", err)
	}
	return sn, true, nil
}

// moveRef moves a ref of snapshots from one commit to another, "" for none before.
func (s *Service) moveRef(ctx context.Context, p workspaces.Project, ref, commit, before string) error {
	edit := git.RefCreate(ref, commit)
	if before != "" {
		edit = git.RefUpdate(ref, commit, before)
	}
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(string(edit)), Args: []string{"update-ref", "--stdin"}})
	return git.GitFault(err, fault.Unavailable, "snapshot_failed", "Storing the snapshot")
}

// candidates returns the tree the snapshot starts from, the paths to read, and, if all differences from a commit are known, the entries of
// the other paths in that commit (no entry: they do not exist in it).
func (t *Job) candidates(ctx context.Context, seen *Seen) (start string, paths []string, clean map[string]entry, err error) {
	if seen != nil && seen.Stale != "" {
		t.Missing = append(t.Missing, workspaces.Missing{Reason: seen.Stale})
		seen = nil
	}
	if seen != nil && seen.Tree != "" {
		t.Missing = append(t.Missing, seen.Missing...)
		return seen.Tree, nil, nil, nil
	}
	if seen != nil && seen.Base == "" && !seen.All && t.prev.Tree != "" {
		return t.prev.Tree, t.tidy(seen.Paths), nil, nil
	}
	var commit string
	switch {
	case seen != nil && seen.Base != "":
		commit, paths = seen.Base, seen.Paths
	default: // also a first snapshot of which only a part is known
		if err := t.waitTips(); err != nil {
			return "", nil, nil, err
		}
		commit = t.Head
		list, cancel := context.WithTimeout(ctx, t.s.cfg.GitTimeout) // a FIFO named .gitignore blocks git forever
		st, err := t.s.repo.WorktreeState(list, t.p, t.w, t.Head)
		cancel()
		if err != nil {
			return "", nil, nil, err
		}
		t.byHost = true
		paths = slices.Concat(st.Changed, st.Gone, st.Others)
		if seen != nil {
			t.reported = make(map[string]bool, len(seen.Paths))
			for _, p := range seen.Paths {
				t.reported[p] = true
			}
			paths = append(paths, seen.Paths...)
		}
		for _, n := range st.Nested {
			t.miss(n, "It is a nested repository.", 0)
		}
	}
	if start, err = t.s.rootOf(ctx, t.p, t.Scratch, commit); err != nil {
		return "", nil, nil, err
	}
	if t.prev.Tree == "" || t.prev.Tree == start {
		return start, t.tidy(paths), nil, nil
	}
	// Paths changed in the previous snapshot are read again, or are as in the commit.
	listed := make(map[string]bool, len(paths))
	for _, p := range paths {
		listed[p] = true
	}
	since, err := t.since(ctx, seen, start)
	if err != nil {
		return "", nil, nil, err
	}
	clean = make(map[string]entry)
	raws, err := t.compare(ctx, start, t.prev.Tree)
	if err != nil {
		return "", nil, nil, err
	}
	for _, r := range raws {
		if !listed[r.Path] {
			ignored := t.byHost && r.OldMode == "000000" // git lists no such file: check whether it exists
			if !since[r.Path] && !ignored {
				clean[r.Path] = entry{r.OldMode, r.OldOID}
			}
			paths = append(paths, r.Path)
		}
	}
	return t.prev.Tree, t.tidy(paths), clean, nil
}

// since returns the paths changed by snapshots that were taken after the files were looked at, which the look does not include. start is
// the tree it was compared with.
func (t *Job) since(ctx context.Context, seen *Seen, start string) (map[string]bool, error) {
	if seen == nil || seen.After == "" || seen.After == t.prev.Tree {
		return nil, nil
	}
	from := seen.After
	if from == noTree {
		from = start
	}
	raws, err := t.compare(ctx, from, t.prev.Tree)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, r := range raws {
		names[r.Path] = true
	}
	return names, nil
}

// tidy sorts paths, and leaves out duplicates and names git cannot store.
func (t *Job) tidy(paths []string) []string {
	out := slices.Clone(paths)
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(name string) bool {
		bad := BadName(name)
		if bad {
			t.miss(name, "git cannot store a file of this name.", 0)
		}
		return bad
	})
}

// entries looks names up in a tree.
func (t *Job) entries(ctx context.Context, tree string, paths []string) (map[string]entry, error) {
	out := make(map[string]entry, len(paths))
	all := len(paths) > git.WholeTree
	var keep map[string]bool
	if all {
		keep = make(map[string]bool, len(paths))
		for _, p := range paths {
			keep[p] = true
		}
		paths = []string{""}
	}
	for len(paths) > 0 {
		n, size := 0, 0
		for n < len(paths) && n < git.AskPaths && (n == 0 || size+len(paths[n]) < git.AskBytes) {
			size += len(paths[n])
			n++
		}
		args := []string{"ls-tree", "-z", "--full-tree", tree}
		if all {
			args = []string{"ls-tree", "-r", "-z", "--full-tree", tree}
		} else {
			args = append(append(args, "--"), paths[:n]...)
		}
		b, err := t.Scratch.Run(ctx, hostgit.Call{Args: args, Max: 256 << 20})
		if err != nil {
			return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Listing the snapshot before")
		}
		for rec := range strings.SplitSeq(string(b), "\x00") {
			meta, name, ok := strings.Cut(rec, "\t")
			m := strings.Fields(meta)
			if ok && len(m) == 3 && (keep == nil || keep[name]) {
				out[name] = entry{m[0], m[2]}
			}
		}
		paths = paths[n:]
	}
	return out, nil
}

// snapNote is the metadata in a snapshot's commit from which a row that was not stored can be recreated.
type snapNote struct {
	ID         string               `json:"id"`
	Workspace  string               `json:"workspace"`
	Kind       string               `json:"kind"`
	Reason     string               `json:"reason,omitempty"`
	Title      string               `json:"title,omitempty"`
	ActorID    string               `json:"actor_id,omitempty"`
	SessionID  string               `json:"session_id,omitempty"`
	Head       string               `json:"head"`
	BaseCommit string               `json:"base_commit"`
	At         int64                `json:"at"`
	Before     string               `json:"before,omitempty"` // the tree its changes are counted against
	Missing    []workspaces.Missing `json:"missing,omitempty"`
	Ignored    string               `json:"ignored,omitempty"` // the last parent, unless ""
	IgnoredN   int                  `json:"ignored_files,omitempty"`
}

func noteOf(sn Snap, before string) (string, error) {
	b, err := json.Marshal(snapNote{sn.ID, sn.WorkspaceID, sn.Kind, sn.Reason, sn.Title, sn.ActorID, sn.SessionID, sn.Head, sn.BaseCommit, sn.At, before, sn.Missing, sn.Ignored, sn.IgnoredN})
	return "parawork: snapshot\n\n" + string(b) + "\n", err
}

// since is the tree a snapshot's changes are counted against: that of the previous snapshot; for the first, where the workspace started.
func (s *Service) since(ctx context.Context, sn Snap) (string, error) {
	prev, err := s.snapBefore(ctx, sn)
	if fault.Is(err, fault.NotFound) {
		return sn.BaseCommit, nil
	}
	return prev.Tree, err
}

// snapBefore is the snapshot before another. Before a turn, a commit or a requested snapshot that is the last such one, not the last poll:
// a turn's changes are all it changed.
func (s *Service) snapBefore(ctx context.Context, sn Snap) (Snap, error) {
	if sn.Kind == SnapPoll {
		return s.store.SnapshotBefore(ctx, sn.WorkspaceID, sn.At)
	}
	items, _, err := s.store.Snapshots(ctx, sn.WorkspaceID, kindsBesidePolls(), page.Page{Limit: 1, Cursor: page.Encode(page.Key{At: sn.At})})
	if err == nil && len(items) == 0 {
		err = fault.New(fault.NotFound, "snapshot_not_found", "There is no snapshot before it.")
	}
	if err != nil {
		return Snap{}, err
	}
	return items[0], nil
}

func kindsBesidePolls() []string {
	return slices.DeleteFunc(slices.Clone(snapKinds), func(k string) bool { return k == SnapPoll })
}

func countSnap(ctx context.Context, scratch *hostgit.Scratch, sn *Snap, from string) error {
	sn.Files, sn.Additions, sn.Deletions = 0, 0, 0
	if from == "" || from == sn.Tree {
		return nil
	}
	out, err := scratch.Run(ctx, hostgit.Call{Max: 256 << 20, Args: []string{"diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", from, sn.Tree}})
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the snapshot before")
	}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		f := strings.SplitN(rec, "\t", 3)
		if len(f) != 3 {
			continue
		}
		sn.Files++
		a, _ := strconv.Atoi(f[0]) // "-" for binary files
		d, _ := strconv.Atoi(f[1])
		sn.Additions += a
		sn.Deletions += d
	}
	return nil
}

// lastSnap is the newest snapshot of a workspace, the zero one when there is none. The first call recreates rows that a killed server did
// not store. The caller holds the workspace's lock.
func (s *Service) lastSnap(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (Snap, error) {
	s.captureState.mu.Lock()
	sn, ok := s.captureState.last[w.ID]
	s.captureState.mu.Unlock()
	if ok {
		return sn, nil
	}
	if err := s.repairSnaps(ctx, p, w); err != nil {
		return Snap{}, err
	}
	sn, err := s.store.SnapshotBefore(ctx, w.ID, 0)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Snap{}, err
	}
	if sn.Commit != "" {
		if c, err := s.repo.CommitOf(ctx, p.GitDir, sn.Commit); err != nil {
			return Snap{}, err
		} else if c == "" { // the repository was reset to an older state: start over
			sn = Snap{At: sn.At}
		}
	}
	s.captureState.mu.Lock()
	s.captureState.last[w.ID] = sn
	s.captureState.mu.Unlock()
	return sn, nil
}

// repairSnaps recreates the rows of snapshots that are in the repository but were not stored because the server was killed in between.
func (s *Service) repairSnaps(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	for _, chain := range [...]string{"polls/", "kept/"} {
		tips, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--sort=-refname", "--count=1", "--format=%(objectname)", snapRefs(w.ID) + chain}})
		if err != nil {
			return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for snapshots")
		}
		for at := tips; git.IsCommitID(at); {
			if _, err := s.store.SnapshotAt(ctx, w.ID, at); err == nil {
				break
			} else if !fault.Is(err, fault.NotFound) {
				return err
			}
			c, err := s.readChained(ctx, p, w.ID, at)
			if err != nil {
				return err
			}
			if c.note.ID == "" {
				break
			}
			n := c.note
			sn := Snap{ID: n.ID, TeamID: w.TeamID, WorkspaceID: w.ID, Kind: n.Kind, Reason: n.Reason, Title: n.Title, ActorID: n.ActorID, SessionID: n.SessionID,
				Commit: at, Tree: c.tree, Head: n.Head, BaseCommit: n.BaseCommit, At: n.At, Missing: n.Missing, Ignored: n.Ignored, IgnoredN: n.IgnoredN}
			sn.ExpiresAt = s.snapEnd(sn)
			if err := s.recount(ctx, p, &sn, n.Before); err != nil {
				return err
			}
			if err := s.store.InsertSnapshot(ctx, sn); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("storing an interrupted snapshot: %w", err)
			}
			at = c.before
		}
	}
	return nil
}

// chained is a commit in the chain of a day.
type chained struct {
	note   snapNote // the zero one = not a snapshot of the workspace
	tree   string
	before string // the previous one that day, "" = it is the first
}

func (s *Service) readChained(ctx context.Context, p workspaces.Project, workspaceID, commit string) (chained, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"log", "--no-walk", "--no-notes", "--no-color", "--no-decorate", "--format=%T %P%n%b", commit, "--"}})
	if err != nil {
		return chained{}, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading a snapshot")
	}
	first, body, _ := strings.Cut(out, "\n")
	names := strings.Fields(first)
	var n snapNote
	if len(names) == 0 || json.Unmarshal([]byte(body), &n) != nil || n.Workspace != workspaceID || n.ID == "" || !slices.Contains(snapKinds, n.Kind) {
		return chained{}, nil
	}
	c := chained{note: n, tree: names[0]}
	if n.Ignored != "" {
		names = names[:len(names)-1]
	}
	if len(names) > 2 { // the parent of a day's first is not a snapshot
		c.before = names[1]
	}
	return c, nil
}

func (s *Service) recount(ctx context.Context, p workspaces.Project, sn *Snap, before string) error {
	scratch, err := s.repo.ScratchOf(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()
	if !git.IsCommitID(before) {
		before = sn.BaseCommit
	}
	return countSnap(ctx, scratch, sn, before)
}
