package reviews

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

const (
	maxSnapshots = 100                    // turns and commits processed at once
	gather       = 300 * time.Millisecond // between two searches: constant writes of an agent then cost only a few per second
)

// poke requests a search for the comments of a workspace.
func (s *Service) poke(workspaceID, teamID string) {
	s.mu.Lock()
	s.behind[workspaceID] = teamID
	s.mu.Unlock()
	tasks.Wake(s.wake)
}

// Run processes events of snapshots and prompts until ctx ends: it records which reviews agents have, finds comments again in files that
// changed, and records what answered them.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "one loop for the reviews of all teams")
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	s.catchUp(ctx)
	beat := time.NewTicker(gather)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-sub.C:
			if sub.Missed() {
				s.catchUp(ctx)
			}
			switch e.Type {
			case "snapshots.updated":
				s.poke(e.WorkspaceID, e.TeamID)
			case "prompt.updated":
				s.settleAll(ctx, e.ID, false)
			}
			continue
		case <-s.wake:
		}
		s.followAll(ctx)
		select { // collect what comes meanwhile
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
	}
}

// catchUp processes what happened before the start, or what was missed.
func (s *Service) catchUp(ctx context.Context) {
	s.settleAll(ctx, "", true)
	all, err := s.cfg.Store.CommentedWorkspaces(ctx)
	if err != nil {
		s.warn(ctx, "comments could not be followed", "error", err)
	}
	for ws, team := range all {
		s.poke(ws, team)
	}
}

func (s *Service) warn(ctx context.Context, what string, args ...any) {
	if ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, what, args...)
	}
}

func (s *Service) settleAll(ctx context.Context, sessionID string, again bool) {
	all, err := s.cfg.Store.QueuedReviews(ctx, sessionID)
	if err != nil {
		s.warn(ctx, "waiting reviews could not be read", "error", err)
		return
	}
	for _, r := range all {
		if err := s.settle(tenant.In(ctx, r.TeamID), r, again); err != nil {
			s.warn(ctx, "a waiting review could not be settled", "review_id", r.ID, "error", err)
		}
	}
}

func (s *Service) followAll(ctx context.Context) {
	s.mu.Lock()
	behind := s.behind
	s.behind = map[string]string{}
	s.mu.Unlock()
	for ws, team := range behind {
		if ctx.Err() != nil {
			return
		}
		if err := s.follow(tenant.In(ctx, team), ws, team); err != nil {
			s.warn(ctx, "comments could not be found again", "workspace_id", ws, "error", err)
		}
	}
}

// turned notes that an agent's turn has ended: it may have worked on somebody's review.
func (s *Service) turned(ctx context.Context, workspaceID, teamID string, snaps []Snapshot) {
	turn := ""
	for _, sn := range snaps {
		if sn.Kind == "turn" {
			turn = sn.ID
		}
	}
	s.mu.Lock()
	reported := s.turns[workspaceID]
	if turn != "" {
		s.turns[workspaceID] = turn
	}
	s.mu.Unlock()
	if turn != "" && reported != turn {
		s.cfg.Events.Publish(ctx, events.Event{Type: "inbox.updated", ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: s.now()})
	}
}

// follow finds a workspace's comments in its newest snapshot, and records which turns and commits since they were sent changed their lines.
func (s *Service) follow(ctx context.Context, workspaceID, teamID string) error {
	comments, err := s.cfg.Store.OpenComments(ctx, workspaceID)
	if err != nil {
		return err
	}
	since := int64(0)
	for i, c := range comments {
		if i == 0 || c.CreatedAt < since {
			since = c.CreatedAt
		}
	}
	most := maxSnapshots
	if len(comments) == 0 {
		most = 2 // only check whether a turn has ended
	}
	snaps, err := s.cfg.Store.Snapshots(ctx, workspaceID, since, most)
	if err != nil || len(snaps) == 0 {
		return err
	}
	defer s.turned(ctx, workspaceID, teamID, snaps) // after recording what answered it
	if len(comments) == 0 {
		return nil
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	base := Tree{}
	if slices.ContainsFunc(comments, func(c Comment) bool { return c.Side == OldSide }) {
		if base, err = s.cfg.Trees.Resolve(ctx, w, "base", ""); err != nil {
			return err
		}
	}
	sent := map[string]int64{} // reviews, and since when agents could answer them
	l := &looker{s: s, workspaceID: workspaceID, diffs: map[[2]string]differing{}, spots: map[spotKey]spot{}}
	moved := false
	for _, c := range comments {
		at, known := sent[c.ReviewID]
		if !known {
			if r, err := s.cfg.Store.Review(ctx, c.ReviewID); err == nil {
				at = r.SentAt
			}
			sent[c.ReviewID] = at
		}
		now := c
		if err := l.follow(ctx, &now, snaps, base, at); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.warn(ctx, "a comment could not be found again", "comment_id", c.ID, "error", err)
			continue
		}
		if now.NowPath == c.NowPath && now.NowLine == c.NowLine && now.Outdated == c.Outdated && now.AnchoredTree == c.AnchoredTree &&
			now.AnsweredCommit == c.AnsweredCommit {
			continue
		}
		if err := s.cfg.Store.Anchor(ctx, now); err != nil {
			return err
		}
		moved = moved || now.NowPath != c.NowPath || now.NowLine != c.NowLine || now.Outdated != c.Outdated || now.AnsweredCommit != c.AnsweredCommit
	}
	if moved {
		s.notify(ctx, workspaceID, teamID)
	}
	return nil
}

// looker finds comments in trees; it caches what several of them need.
type looker struct {
	s           *Service
	workspaceID string
	diffs       map[[2]string]differing // by pair of trees
	spots       map[spotKey]spot
}

// differing is the difference between two trees.
type differing struct {
	byOld map[string]File // files of the older one
	into  []string        // raw paths of files with lines that the older tree had elsewhere, if any
	added []run           // those lines; read on demand
	read  bool
}

type spotKey struct {
	commit, tree, path, quoted string
	line, end                  int
}

// spot is the position of lines in another tree.
type spot struct {
	path    string // raw; "" = the file no longer exists
	line    int
	changed bool // they are no longer there unchanged
}

// follow updates a comment from a workspace's snapshots, oldest first. sentAt is the earliest time an agent can have answered it.
func (l *looker) follow(ctx context.Context, c *Comment, snaps []Snapshot, base Tree, sentAt int64) error {
	newest := snaps[len(snaps)-1]
	where := Tree{Commit: newest.Commit, Tree: newest.Tree}
	if c.Side == OldSide {
		where = base
	}
	sp, err := l.find(ctx, *c, where)
	if err != nil {
		return err
	}
	was := c.AnchoredTree
	c.NowPath, c.NowLine, c.Outdated, c.AnchoredTree = guest.EncodePath(sp.path), sp.line, sp.changed && c.Line > 0 || sp.path == "", where.Tree
	if sentAt == 0 || c.ReplyTo != "" {
		return nil
	}
	return l.answer(ctx, c, snaps, was, sentAt)
}

// rank is how well a kind of snapshot describes what answered a comment.
var rank = map[string]int{"commit": 2, "turn": 1}

// answer records what changed a comment's lines after it was sent: the first commit that did, else the first turn, else the first snapshot
// without them. Lines that are back are not answered. Snapshots up to that of the tree was were processed before.
func (l *looker) answer(ctx context.Context, c *Comment, snaps []Snapshot, was string, sentAt int64) error {
	newest := snaps[len(snaps)-1]
	if newest.At < sentAt {
		return nil
	}
	changed, err := l.answered(ctx, *c, Tree{Commit: newest.Commit, Tree: newest.Tree})
	if err != nil {
		return err
	}
	if !changed {
		c.AnsweredCommit, c.AnsweredAt = "", 0
		return nil
	}
	known, from := 0, sentAt
	for _, sn := range snaps {
		switch {
		case c.AnsweredCommit == "":
			if sn.Tree == was && sn.At > from {
				from = sn.At
			}
		case sn.Kind == "commit" && sn.Head == c.AnsweredCommit:
			known = rank["commit"]
		case sn.Commit == c.AnsweredCommit:
			known = max(known, rank[sn.Kind])
		}
	}
	if c.AnsweredCommit != "" {
		from = c.AnsweredAt
	}
	for i, sn := range snaps {
		if sn.At < from || c.AnsweredCommit != "" && rank[sn.Kind] <= known {
			continue
		}
		tree := Tree{Commit: sn.Commit, Tree: sn.Tree}
		if sn.Kind == "commit" {
			tree = Tree{Commit: sn.Head, Tree: sn.Head} // the committed tree, without uncommitted files
		}
		changed, err := l.answered(ctx, *c, tree)
		if err != nil {
			return err
		}
		switch {
		case changed && sn.Kind == "commit":
			c.AnsweredCommit, c.AnsweredAt = sn.Head, sn.At
			return nil
		case sn.Kind == "commit": // the commit has the lines; only uncommitted files lack them
			if i == len(snaps)-1 && c.AnsweredCommit == "" {
				c.AnsweredCommit, c.AnsweredAt = sn.Commit, sn.At
			}
		case changed:
			c.AnsweredCommit, c.AnsweredAt, known = sn.Commit, sn.At, rank[sn.Kind]
		}
	}
	return nil
}

// answered reports whether a tree lacks the lines a comment is about; for deleted lines, whether they are back.
func (l *looker) answered(ctx context.Context, c Comment, t Tree) (bool, error) {
	sp, err := l.find(ctx, c, t)
	if err != nil {
		return false, err
	}
	changed := sp.changed || sp.path == ""
	if c.Side == OldSide {
		return !changed, nil
	}
	return changed, nil
}

// find finds a comment's lines in a tree.
func (l *looker) find(ctx context.Context, c Comment, t Tree) (spot, error) {
	key := spotKey{c.Commit, t.Tree, c.Path, c.Quoted, c.Line, c.EndLine}
	if sp, ok := l.spots[key]; ok {
		return sp, nil
	}
	sp, err := l.look(ctx, c, t)
	if err == nil {
		l.spots[key] = sp
	}
	return sp, err
}

func (l *looker) look(ctx context.Context, c Comment, t Tree) (spot, error) {
	raw := guest.DecodePath(c.Path)
	from := Tree{Commit: c.Commit, Tree: c.Commit}
	diff, err := l.diff(ctx, from, t)
	if err != nil {
		if ctx.Err() != nil {
			return spot{}, ctx.Err()
		}
		// The original tree is no longer stored: search by content.
		return l.search(ctx, c, t, raw, c.Line)
	}
	f, differs := diff.byOld[c.Path]
	switch {
	case !differs:
		return spot{path: raw, line: c.Line}, nil
	case f.Status == "deleted":
		return l.elsewhere(ctx, c, from, t, raw, spot{})
	}
	now := guest.DecodePath(f.Path)
	if c.Line == 0 {
		return spot{path: now, changed: true}, nil
	}
	patch, err := l.s.cfg.Trees.Patch(ctx, l.workspaceID, from, t, paths(raw, now))
	if err != nil {
		return spot{}, err
	}
	hunks, err := readHunks(patch)
	if cerr := patch.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return spot{}, fmt.Errorf("reading what changed in %q: %w", now, err)
	}
	at, touched := shift(hunks, c.Line, c.EndLine)
	if !touched {
		return spot{path: now, line: at}, nil
	}
	sp, err := l.search(ctx, c, t, now, at)
	if err != nil || !sp.changed {
		return sp, err
	}
	return l.elsewhere(ctx, c, from, t, now, sp)
}

func paths(a, b string) []string {
	if a == b {
		return []string{a}
	}
	return []string{a, b}
}

// search finds a comment's lines by content.
func (l *looker) search(ctx context.Context, c Comment, t Tree, path string, near int) (spot, error) {
	text, err := l.s.linesAt(ctx, l.workspaceID, t, path)
	switch {
	case fault.Is(err, fault.NotFound):
		return spot{}, nil
	case fault.Is(err, fault.TooLarge):
		return spot{path: path, line: near, changed: true}, nil
	case err != nil:
		return spot{}, err
	}
	if at, ok := find(keptLines(text), splitQuoted(c.Quoted), c.Around, near); ok {
		return spot{path: path, line: at}, nil
	}
	return spot{path: path, line: min(near, max(len(text), 1)), changed: true}, nil
}

// diff returns the difference between two trees.
func (l *looker) diff(ctx context.Context, from, to Tree) (differing, error) {
	key := [2]string{from.Tree, to.Tree}
	if d, ok := l.diffs[key]; ok {
		return d, nil
	}
	files, err := l.s.cfg.Trees.Changed(ctx, l.workspaceID, from, to)
	if err != nil {
		return differing{}, err
	}
	d := differing{byOld: make(map[string]File, len(files))}
	for _, f := range files {
		if f.Status != "deleted" {
			d.into = append(d.into, guest.DecodePath(f.Path))
		}
		was := cmp.Or(f.OldPath, f.Path)
		if f.Status == "added" || f.Status == "untracked" || f.Status == "copied" {
			continue
		}
		d.byOld[was] = f
	}
	l.diffs[key] = d
	return d, nil
}
