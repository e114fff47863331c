package filesync

import (
	"bytes"
	"context"
	"strings"

	"github.com/parawork/parawork/guest"
)

// changedHere updates the set of changes for one file on this server, where no guest does so.
func (s *Service) changedHere(ctx context.Context, t *tree, workspaceID, raw string) error {
	set, err := s.cfg.Store.Changes(ctx, workspaceID)
	if err != nil {
		return err
	}
	base := set.BaseCommit
	if !commitID.MatchString(base) {
		if base, err = s.base(ctx, workspaceID); err != nil {
			return err
		}
	}
	c, differs, err := s.changeHere(ctx, t, workspaceID, base, raw)
	if err != nil {
		return err
	}
	team, err := s.cfg.Trees.Team(ctx, workspaceID)
	if err != nil {
		return err
	}
	d := Delta{WorkspaceID: workspaceID, TeamID: team, Header: Header{BaseCommit: base, HeadCommit: set.HeadCommit, Branch: set.Branch, Error: set.Error, SyncedAt: s.cfg.Now().UnixMilli()}}
	if differs {
		d.Upserts = []guest.Change{c}
	} else {
		d.Removes = []string{guest.EncodePath(raw)}
	}
	version, changed, err := s.cfg.Store.ApplyChanges(ctx, d)
	if err == nil && changed {
		s.changed(workspaceID, team, version)
		s.polled(ctx, workspaceID, base, d, nil, s.cfg.Log.With("workspace_id", workspaceID))
	}
	return err
}

// changeHere compares one file on this server with the base.
func (s *Service) changeHere(ctx context.Context, t *tree, workspaceID, base, raw string) (c guest.Change, differs bool, err error) {
	files, err := s.cfg.Trees.BaseFiles(ctx, workspaceID, base, []string{raw})
	if err != nil {
		return c, false, err
	}
	t.forget()
	p, err := t.look(raw)
	if err != nil {
		return c, false, err
	}
	c = guest.Change{Path: guest.EncodePath(raw), Mode: p.mode, Size: p.size, Status: "modified"}
	if len(files) > 0 && files[0].file() {
		c.OldMode = files[0].Mode
	}
	var sum digest
	switch p.kind {
	case "file", "link":
		if sum, err = t.read(raw, p, base); err != nil {
			return c, false, err
		}
		c.Hash = sum.hash
	default:
		c.Mode, c.Size = "", 0
	}
	switch {
	case c.Mode == "" && c.OldMode == "":
		return c, false, nil
	case c.Mode == "":
		c.Status = "deleted"
	case c.OldMode == "":
		c.Status = "untracked"
	case c.Mode == c.OldMode && (sum.oid == files[0].OID || sum.plain == files[0].OID):
		return c, false, nil
	case kindOf(c.Mode) != kindOf(c.OldMode):
		c.Status = "type_changed"
	}
	var text bytes.Buffer
	if err := s.compareHere(ctx, t, workspaceID, HostDiff{Base: base, Path: raw, Context: 0}, c.Path, &text); err != nil {
		return c, false, err
	}
	c.Additions, c.Deletions, c.Binary = countLines(text.String())
	return c, true, nil
}

// countLines counts the lines a unified diff adds and deletes.
func countLines(diff string) (added, deleted int, binary bool) {
	hunk := false
	for line := range strings.SplitSeq(diff, "\n") {
		switch {
		case strings.HasPrefix(line, "@@"):
			hunk = true
		case !hunk && strings.HasPrefix(line, "Binary files "):
			binary = true
		case hunk && strings.HasPrefix(line, "+"):
			added++
		case hunk && strings.HasPrefix(line, "-"):
			deleted++
		}
	}
	return added, deleted, binary
}
