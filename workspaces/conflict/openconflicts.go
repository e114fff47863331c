package conflict

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Kinds of conflicts. Only the first has markers in the file.
const (
	ConflictContent      = "content"     // both changed the same lines: the file has both, between markers
	ConflictBinary       = "binary"      // both changed a binary file
	ConflictDeleted      = "deleted"     // one changed it, the other deleted it
	ConflictMode         = "mode"        // both have the same content, one of them executable
	ConflictLink         = "symlink"     // both changed the target of a symbolic link
	ConflictModule       = "submodule"   // both moved a submodule
	ConflictTypes        = "types"       // a file on one side, a symbolic link or a submodule on the other
	ConflictFolder       = "folder"      // a file on one side, a folder of that name on the other
	ConflictRenames      = "renames"     // both renamed it differently
	ConflictRenameDelete = "rename_gone" // one renamed it, the other deleted it
)

// Choices for a conflict.
const (
	TakeBranch = "branch" // as the workspace's branch has it
	TakeBase   = "base"   // as the base has it
	TakeBoth   = "both"   // both, under two names
	TakeKeep   = "keep"   // the file, where one side has none
	TakeDelete = "delete" // no file
	TakeNow    = "as_is"  // the file as it is in the folder
)

// maxOpenConflicts bounds the files of one answer.
const maxOpenConflicts = 2_000

// ConflictSide is a file of a conflict as one side has it.
type ConflictSide struct {
	Path string // the name it has there
	Mode string
	OID  string
	Size int64 // of a submodule 0
}

func (s *ConflictSide) entry() git.FileEntry {
	if s == nil {
		return git.FileEntry{}
	}
	return git.FileEntry{Mode: s.Mode, OID: s.OID, Size: s.Size}
}

// OpenConflict is one decision of a merge or rebase in progress: a file in conflict, or several that belong together. A nil side has no
// file.
type OpenConflict struct {
	Path         string // its name in the list
	Kind         string
	Was          *ConflictSide // the common ancestor
	Branch, Base *ConflictSide
	Marks        []int    // lines with conflict markers left in it
	Choices      []string // possible choices
	Other        string   // the made-up name of the second file when both are kept
	Decided      bool     // resolved; Taken says how, "other" = something else
	Taken        string
	Version      string // of the conflict and its decision: it changes when either does

	paths   []string // of the index
	restage []string // the staged content has markers; the folder's is staged instead
	stages  map[string][4]git.FileEntry
}

// text reports whether it is resolved in the file itself.
func (c *OpenConflict) text() bool { return c.Kind == ConflictContent }

// OpenConflicts are the conflicts of a merge or rebase in the worktree.
type OpenConflicts struct {
	Operation string // merge, rebase; "" = none in progress
	Asleep    bool   // unknown: the workspace has no running sandbox
	Base      string
	Branch    string
	Files     []OpenConflict
	More      int
}

// OpenConflicts returns the conflicts in the worktree and what was decided of them. Without wake, it starts no sandbox.
func (s *Service) OpenConflicts(ctx context.Context, workspaceID string, wake bool) (OpenConflicts, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return OpenConflicts{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return OpenConflicts{}, err
	}
	out := OpenConflicts{Branch: w.Branch, Files: []OpenConflict{}}
	if out.Base, err = s.repo.BranchTarget(ctx, p, w.Base); err != nil {
		return out, err
	}
	open := s.stage.LookInSandbox
	if wake {
		open = s.sandboxes.Open
	}
	b, err := open(ctx, w)
	if fault.CodeOf(err) == "sandbox_suspended" {
		out.Asleep = true
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer b.Close(ctx)
	cs, err := conflicts(ctx, b, out.Base)
	if err != nil {
		return out, err
	}
	out.Operation = cs.op
	out.Files = cs.files
	if len(out.Files) > maxOpenConflicts {
		out.Files, out.More = out.Files[:maxOpenConflicts], len(out.Files)-maxOpenConflicts
	}
	return out, nil
}

// ConflictFile reads a file of a conflict from one side: branch, base or was.
func (s *Service) ConflictFile(ctx context.Context, workspaceID, name, side string) ([]byte, *ConflictSide, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return nil, nil, err
	}
	b, err := s.stage.LookInSandbox(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	defer b.Close(ctx)
	cs, err := conflicts(ctx, b, w.Base)
	if err != nil {
		return nil, nil, err
	}
	c := cs.named(name)
	if c == nil {
		return nil, nil, fault.New(fault.NotFound, "not_found", "%q is not in conflict.", name)
	}
	of := map[string]*ConflictSide{TakeBranch: c.Branch, TakeBase: c.Base, "was": c.Was}[side]
	if of == nil || of.entry().Module() {
		return nil, nil, fault.New(fault.NotFound, "not_found", "%q has no file on this side.", name)
	}
	secrets, err := s.secretFiles.SecretFiles(ctx, w.ID)
	if err != nil {
		return nil, nil, err
	}
	if secretfiles.Has(secrets, of.Path, of.OID) || secretfiles.Has(secrets, name, "") {
		return nil, nil, secretfiles.ErrSecretFile
	}
	raw, err := conflictBlob(ctx, b, name, of.entry(), false)
	if err == nil && secretfiles.Value(secrets, raw) {
		return nil, nil, secretfiles.ErrSecretValue
	}
	return raw, of, err
}

// conflictSet is the state of a worktree's conflicts.
type conflictSet struct {
	op    string
	head  string
	files []OpenConflict
}

func (cs *conflictSet) named(name string) *OpenConflict {
	for i := range cs.files {
		if cs.files[i].Path == name {
			return &cs.files[i]
		}
	}
	return nil
}

// conflicts reads the stages in the agent's index, and those it had before they were resolved, which git retains until the commit.
func conflicts(ctx context.Context, b *sandboxgit.Sandbox, base string) (conflictSet, error) {
	var cs conflictSet
	var err error
	if cs.op, err = b.Operation(ctx); err != nil {
		return cs, err
	}
	if cs.op != workspaces.StrategyMerge && cs.op != workspaces.StrategyRebase {
		return conflictSet{}, nil
	}
	if cs.head, _, err = b.Head(ctx); err != nil {
		return cs, err
	}
	open, err := stages(ctx, b, "--unmerged")
	if err != nil {
		return cs, err
	}
	decided, err := stages(ctx, b, "--resolve-undo")
	if err != nil {
		return cs, err
	}
	all := maps.Clone(decided)
	maps.Copy(all, open)
	g := grouping{b: b, op: cs.op, head: cs.head, all: all, branch: 2, base: 3}
	if cs.op == workspaces.StrategyRebase { // a rebase: the branch's commits are incoming
		g.branch, g.base = 3, 2
	}
	if err := g.groups(ctx); err != nil {
		return cs, err
	}
	if err := g.describe(ctx, base, open); err != nil {
		return cs, err
	}
	cs.files = g.out
	return cs, findMarks(ctx, b, cs.files)
}

// stages lists the stages of files in conflict, by raw path.
func stages(ctx context.Context, b *sandboxgit.Sandbox, which string) (map[string][4]git.FileEntry, error) {
	out, err := b.Git(ctx, nil, "ls-files", which, "-z")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the index")
	}
	list := make(map[string][4]git.FileEntry)
	for _, e := range git.SplitZero(out) {
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 || !git.IsCommitID(f[1]) || len(f[2]) != 1 || f[2] < "1" || f[2] > "3" {
			return nil, fmt.Errorf("sandbox: ls-files answered %q", e)
		}
		if sandboxgit.CheckPath(name) != nil {
			continue // not made by any git of ours
		}
		st := list[name]
		st[f[2][0]-'0'] = git.FileEntry{Mode: f[0], OID: f[1], Size: -1}
		list[name] = st
	}
	return list, nil
}

// describe determines the kind of each conflict and its possible choices.
func (g *grouping) describe(ctx context.Context, base string, open map[string][4]git.FileEntry) error {
	sizes, err := blobSizes(ctx, g.b, g.all)
	if err != nil {
		return err
	}
	texts, err := textBlobs(ctx, g.b, g.all)
	if err != nil {
		return err
	}
	var names []string
	for i := range g.out {
		c := &g.out[i]
		for _, side := range []*ConflictSide{c.Was, c.Branch, c.Base} {
			if side != nil {
				side.Size = sizes[side.OID]
			}
		}
		c.Other = otherName(c.Path, base, g.b.Workspace.Branch, c)
		c.settle(func(e git.FileEntry) bool { return texts[e.OID] || sizes[e.OID] == 0 })
		names = append(names, c.touched()...)
	}
	now, err := indexNow(ctx, g.b, names)
	if err != nil {
		return err
	}
	for i := range g.out {
		c := &g.out[i]
		c.Decided = !slices.ContainsFunc(c.paths, func(p string) bool { _, is := open[p]; return is })
		if c.Decided {
			c.Taken = c.takenBy(now)
		}
		h := sha256.New()
		fmt.Fprintf(h, "%s %s %t %s\n", g.op, g.head, c.Decided, c.Taken)
		for _, p := range c.paths {
			for _, e := range c.stages[p] {
				fmt.Fprintf(h, "%s %s ", e.Mode, e.OID)
			}
			fmt.Fprintf(h, "%q %v\n", p, now[p])
		}
		c.Version = hex.EncodeToString(h.Sum(nil)[:12])
	}
	return nil
}

// settle determines the kind of a conflict where its names did not, and its possible choices.
func (c *OpenConflict) settle(text func(git.FileEntry) bool) {
	a, z := c.Branch.entry(), c.Base.entry()
	switch {
	case c.Kind != "":
	case !a.Is() || !z.Is():
		c.Kind = ConflictDeleted
	case a.Module() && z.Module():
		c.Kind = ConflictModule
	case a.Link() && z.Link():
		c.Kind = ConflictLink
	case !a.Plain() || !z.Plain():
		c.Kind = ConflictTypes
	case a.OID == z.OID:
		c.Kind = ConflictMode
	case !text(a) || !text(z):
		c.Kind = ConflictBinary
	default:
		c.Kind = ConflictContent
	}
	switch {
	case a.Is() && z.Is():
		c.Choices = []string{TakeBranch, TakeBase}
		if c.Kind != ConflictMode && c.Kind != ConflictModule {
			c.Choices = append(c.Choices, TakeBoth)
		}
	case a.Is() || z.Is():
		c.Choices = []string{TakeKeep, TakeDelete}
	default:
		c.Choices = []string{TakeDelete}
	}
	if c.Kind == ConflictBinary || c.Kind == ConflictDeleted && (a.Plain() || z.Plain()) {
		c.Choices = append(c.Choices, TakeNow)
	}
	if c.Kind != ConflictFolder && (c.Kind == ConflictRenames || !slices.Contains(c.Choices, TakeBoth)) {
		c.Other = "" // no made-up name is needed
	}
}

// result maps the names of a conflict to the files a choice leaves. Names not in it have no file.
func (c *OpenConflict) result(take string) map[string]git.FileEntry {
	out := make(map[string]git.FileEntry)
	put := func(side *ConflictSide, name string) {
		if side != nil {
			out[name] = side.entry()
		}
	}
	name := func(side *ConflictSide) string {
		if side == nil {
			return ""
		}
		if c.Kind == ConflictFolder {
			return c.Other
		}
		return side.Path
	}
	switch take {
	case TakeBranch:
		put(c.Branch, name(c.Branch))
	case TakeBase:
		put(c.Base, name(c.Base))
	case TakeKeep:
		put(c.Branch, name(c.Branch))
		put(c.Base, name(c.Base))
	case TakeBoth:
		put(c.Branch, name(c.Branch))
		if c.Other != "" {
			put(c.Base, c.Other)
		} else {
			put(c.Base, name(c.Base))
		}
	}
	return out
}

// takenBy returns the choice that the index reflects.
func (c *OpenConflict) takenBy(now map[string]git.FileEntry) string {
	for _, take := range c.Choices {
		if take == TakeNow {
			continue
		}
		want, same := c.result(take), true
		for _, p := range c.touched() {
			same = same && want[p].OID == now[p].OID && want[p].Mode == now[p].Mode
		}
		if same {
			return take
		}
	}
	return "other"
}

// touched are the names a decision may change.
func (c *OpenConflict) touched() []string {
	names := slices.Clone(c.paths)
	for _, side := range []*ConflictSide{c.Branch, c.Base} {
		if side != nil && c.Kind != ConflictFolder {
			names = append(names, side.Path)
		}
	}
	if c.Other != "" {
		names = append(names, c.Other)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
