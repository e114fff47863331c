package edits

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// call is a tool call of an agent's record.
type call struct {
	conversation.Item
	session sessions.Session
	turn    string
	ends    int64 // ms UTC; far ahead while it runs
}

// history is what ran in a workspace.
type history struct {
	calls  []call // by time
	quiet  []sessions.Session
	taken  map[string]bool // calls whose edits are stored
	isCall map[string]bool // by id: it is the parent of another call
}

// history reads what ran in a workspace since a time.
func (s *Service) history(ctx context.Context, workspaceID string, since int64) (history, error) {
	h := history{taken: map[string]bool{}, isCall: map[string]bool{}}
	rows, err := s.cfg.Sessions.List(ctx, workspaceID)
	if err != nil {
		return h, err
	}
	for _, row := range rows {
		if row.EndedAt != 0 && row.EndedAt < since-skew.Milliseconds() {
			continue
		}
		c, err := s.cfg.Sessions.Conversation(ctx, row.ID, conversation.Query{Limit: mostItems, Kinds: []conversation.Kind{conversation.Prompt, conversation.Tool, conversation.Edit}})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return h, err
		}
		if c.Total == 0 {
			h.quiet = append(h.quiet, row)
		}
		turn := ""
		for _, it := range c.Items {
			if it.Kind == conversation.Prompt {
				if it.Parent == "" {
					turn = it.ID
				}
				continue
			}
			h.isCall[it.Parent] = true
			ends := it.At + it.Duration
			if it.Status == conversation.Running {
				ends = 1 << 62
			}
			if it.Status != conversation.Denied && ends >= since-skew.Milliseconds() {
				h.calls = append(h.calls, call{it.Item, row, turn, ends})
			}
		}
	}
	slices.SortStableFunc(h.calls, func(a, b call) int { return cmp.Compare(a.At, b.At) })
	stored, _, err := s.cfg.Store.Edits(ctx, Query{WorkspaceID: workspaceID})
	for _, e := range stored {
		for _, id := range e.Calls {
			h.taken[takes(e.SessionID, id, e.Path)] = true
		}
	}
	return h, err
}

// takes is the key of a call's edit of one file.
func takes(sessionID, callID, path string) string {
	return sessionID + "\x00" + callID + "\x00" + path
}

// interval is what lies between two snapshots.
type interval struct {
	w        workspaces.Workspace
	p        workspaces.Project
	from, to snapshot.Snap
	history  *history
}

// operations are the reasons of snapshots after which Parawork itself changes files.
var operations = []string{"edit", "restore", "discard", "update", "take", lifecycle.SnapUndo}

// reading are tools that change no files, by their names in lower case.
var reading = []string{"read", "grep", "glob", "ls", "list", "search", "webfetch", "websearch", "web_search", "web_fetch", "todowrite", "todoread", "update_plan", "view_image", "toolsearch",
	"bashoutput", "taskoutput", "taskcreate", "taskupdate", "tasklist", "taskget", "read_file", "list_dir", "grep_files",
	"file_read", "web_fetch", "command_output"}

// attribute makes rows of a file's change: one, or one for each call of which the record says exactly how it changed the file.
func (s *Service) attribute(ctx context.Context, in interval, f git.ChangedFile) ([]Edit, error) {
	e := Edit{TeamID: in.w.TeamID, WorkspaceID: in.w.ID, Evidence: ByInterval, Path: guest.EncodePath(f.Path), Kind: Modified, Before: f.OldBlob, After: f.NewBlob, BeforeMode: f.OldMode, AfterMode: f.Mode,
		Additions: f.Additions, Deletions: f.Deletions, Binary: f.Binary, At: in.to.At, SnapshotID: in.to.ID}
	switch {
	case f.Status == "renamed":
		e.Kind, e.OldPath = Renamed, guest.EncodePath(f.OldPath)
	case f.OldBlob == "":
		e.Kind = Created
	case f.NewBlob == "":
		e.Kind = Deleted
	}
	var records []call
	for _, c := range in.history.calls {
		if c.Kind == conversation.Edit && c.Status != conversation.Failed && c.Path == f.Path && c.At <= in.to.At+skew.Milliseconds() && !in.history.taken[takes(c.session.ID, c.ID, e.Path)] {
			records = append(records, c)
		}
	}
	records = records[max(0, len(records)-mostCalls):]
	steps, err := s.replay(ctx, in, e, records)
	if err != nil || len(steps) > 0 {
		return in.took(steps), err
	}
	if op, ok, err := s.operation(ctx, in, f); err != nil {
		return nil, err
	} else if ok {
		e.Evidence, e.Operation, e.UserID, e.SessionID = ByOperation, op.Reason, op.ActorID, op.SessionID
		if op.Reason == lifecycle.SnapUndo {
			e.UndoOf = op.Title
		}
		return in.took([]Edit{e}), nil
	}
	if found := slices.DeleteFunc(records, func(c call) bool { return !in.overlaps(c) }); len(found) > 0 {
		return in.took([]Edit{e.by(found)}), nil
	}
	var found []call
	for _, c := range in.history.calls {
		if c.Kind == conversation.Tool && in.overlaps(c) && !in.history.isCall[c.ID] && !slices.Contains(reading, strings.ToLower(c.Tool)) {
			found = append(found, c)
		}
	}
	if len(found) == 0 { // a program without a record, if it is the only one
		quiet := slices.DeleteFunc(slices.Clone(in.history.quiet), func(row sessions.Session) bool {
			return row.StartedAt > in.to.At || row.EndedAt != 0 && row.EndedAt < in.since()
		})
		if len(quiet) == 1 {
			e.SessionID, e.Agent = quiet[0].ID, quiet[0].Agent
			if quiet[0].Agent == agents.Shell {
				e.UserID = quiet[0].CreatedBy
			}
		}
		return []Edit{e}, nil
	}
	return []Edit{e.by(found)}, nil
}

// operation returns the snapshot that Parawork took before it changed a file. false means that something else changed it.
func (s *Service) operation(ctx context.Context, in interval, f git.ChangedFile) (op snapshot.Snap, ok bool, err error) {
	op = in.from
	if op.Kind != snapshot.SnapKept || op.ActorID == "" || !slices.Contains(operations, op.Reason) {
		return op, false, nil
	}
	switch op.Reason {
	case "edit":
		name := guest.EncodePath(f.Path)
		return op, op.Title == name || f.OldPath != "" && op.Title == guest.EncodePath(f.OldPath) || strings.HasPrefix(name, op.Title+"/"), nil
	case lifecycle.SnapUndo:
		ok, err = s.undid(ctx, in, op, f)
	default:
		ok = true
	}
	return op, ok, err
}

// undid reports whether a file's change is what the undo that a snapshot preceded makes of it. The undo may have failed after the snapshot.
func (s *Service) undid(ctx context.Context, in interval, op snapshot.Snap, f git.ChangedFile) (bool, error) {
	of, err := s.Get(ctx, in.w.ID, op.Title)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	c := of.change()
	if f.Path != c.Path && f.Path != c.OldPath {
		return false, nil
	}
	files, _, err := s.cfg.Undoer.Inverse(ctx, in.p, op.Tree, c)
	if fault.Is(err, fault.Conflict) {
		return false, nil
	}
	return slices.ContainsFunc(files, func(made git.ChangedFile) bool { return made.Path == f.Path && made.NewBlob == f.NewBlob }), err
}

// took notes that calls have their edits.
func (in interval) took(list []Edit) []Edit {
	for _, e := range list {
		for _, id := range e.Calls {
			in.history.taken[takes(e.SessionID, id, e.Path)] = true
		}
	}
	return list
}

// since is the earliest time at which what differs may have been written.
func (in interval) since() int64 { return max(in.from.At, in.to.At-lookBack.Milliseconds()) }

// overlaps reports whether a call ran in the interval.
func (in interval) overlaps(c call) bool {
	return c.At <= in.to.At && c.ends >= in.since()-time.Second.Milliseconds()
}

// by returns an edit that one of these calls made.
func (e Edit) by(found []call) Edit {
	first := found[0]
	e.SessionID, e.Agent, e.Turn = first.session.ID, first.session.Agent, first.turn
	for _, c := range found {
		if c.session.ID != first.session.ID {
			e.SessionID, e.Agent, e.Turn = "", "", ""
		} else if c.turn != first.turn {
			e.Turn = ""
		}
		if len(e.Calls) < mostCalls {
			e.Calls = append(e.Calls, c.ID)
		}
	}
	if len(found) == 1 {
		e.CallID, e.Tool = first.ID, first.Tool
	}
	return e
}

// replay applies the diffs of calls to what the file was. If some of them, in their order, make exactly what it became, each gets a row.
func (s *Service) replay(ctx context.Context, in interval, e Edit, records []call) ([]Edit, error) {
	plain := func(mode string) bool { return mode == "" || strings.HasPrefix(mode, "100") }
	if len(records) == 0 || e.Binary || e.Kind == Renamed || !plain(e.BeforeMode) || !plain(e.AfterMode) {
		return nil, nil
	}
	var contents [2][]byte
	for i, oid := range [...]string{e.Before, e.After} {
		if oid == "" {
			continue
		}
		var err error
		if contents[i], err = s.cfg.Repository.Blob(ctx, in.p, oid, git.MaxMerged); fault.Is(err, fault.TooLarge) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		if bytes.IndexByte(contents[i], 0) >= 0 || bytes.Count(contents[i], []byte("\n")) > mostLines {
			return nil, nil
		}
	}
	left := budget(mostSteps)
	for first := range records {
		made := []text{textOf(contents[0])}
		for _, c := range records[first:] {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if c.Cut {
				break
			}
			next, ok := made[len(made)-1].apply(c.Diff, &left)
			if !ok {
				break
			}
			made = append(made, next)
		}
		for n := len(made) - 1; n > 0; n-- {
			if !left.take(len(made[n].lines)) {
				return nil, nil
			}
			if last, ok := made[n].is(e.After); ok {
				made[n] = last
				return s.steps(ctx, in, e, records[first:first+n], made[:n+1])
			}
		}
	}
	return nil, nil
}

// steps returns a row for each call. made are the contents before, between and after them.
func (s *Service) steps(ctx context.Context, in interval, e Edit, calls []call, made []text) ([]Edit, error) {
	out := make([]Edit, len(calls))
	oid, mode := e.Before, e.BeforeMode
	at := max(in.from.At, calls[0].At) // by the clock of this server, or by one that may differ
	for i, c := range calls {
		step := e.by([]call{c})
		step.Evidence, step.Before, step.BeforeMode = ByRecord, oid, mode
		if i < len(calls)-1 {
			var err error
			if oid, err = s.cfg.Repository.PutBlob(ctx, in.p, made[i+1].bytes()); err != nil {
				return nil, err
			}
			mode = cmp.Or(e.AfterMode, e.BeforeMode)
			step.After, step.AfterMode = oid, mode
		}
		step.Kind = Modified
		switch {
		case step.Before == "":
			step.Kind = Created
		case step.After == "":
			step.Kind = Deleted
		}
		at = min(max(at, c.At+c.Duration), in.to.At)
		step.At, step.Additions, step.Deletions = at, 0, 0
		for _, b := range git.DiffLines(made[i].lines, made[i+1].lines) {
			step.Additions, step.Deletions = step.Additions+b.B1-b.B0, step.Deletions+b.A1-b.A0
		}
		out[i] = step
	}
	return out, nil
}

// named gives edits ids, in their order.
func named(list []Edit) []Edit {
	for i := range list {
		list[i].ID = id.New("edt")
	}
	return list
}
