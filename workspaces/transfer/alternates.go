package transfer

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// A workspace on a member's machine may share objects with a folder there: its sandbox sees the objects of the folder's repository,
// read-only, and its bundle has only what that repository lacks. The machine first reports the folder's commits; of those that this server
// knows, the machine protects the ones the work is based on until the workspace ends. If nothing can be shared, everything is sent, as to
// any other sandbox.

// alternates are the objects a workspace shares.
type alternates struct {
	commits []string // commits of which everything below is there
	objects []string // object folders as the sandbox sees them
}

// maxShared bounds the number of shared commits.
const maxShared = 1_000

// shareFrom asks the machine to share the commits that tips, commits of a workspace, are based on. nil means that nothing is shared; the
// reason is logged.
func (s *Service) shareFrom(ctx context.Context, p workspaces.Project, w workspaces.Workspace, tips []string) (*alternates, error) {
	machine := machineOf(w.Executor)
	if machine == "" || w.Folder == "" || s.cfg.Machines == nil {
		return nil, nil
	}
	none := func(why string, err error) (*alternates, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.cfg.Log.InfoContext(ctx, "no objects are shared with the machine's folder", "workspace_id", w.ID, "reason", why, "error", err)
		return nil, nil
	}
	ctx = asked(ctx, "share objects of the folder for "+w.Key())
	ask := wire.LendRequest{WorkspaceID: w.ID, Path: w.Folder}
	there, err := s.cfg.Machines.Lend(ctx, machine, ask)
	if err != nil {
		if fault.CodeOf(err) == wire.CodeOffline {
			return nil, err
		}
		return none("the machine refused", err)
	}
	if len(there.Objects) == 0 || !slices.ContainsFunc(there.Objects, plainObjects) {
		return none(hostgit.Clean(there.Reason), nil)
	}
	known, err := s.commitsAmong(ctx, p, there.Tips)
	if err != nil || len(known) == 0 {
		return none("the folder has no commit of the project's", err)
	}
	if ask.Commits, err = s.edge(ctx, p, tips, known); err != nil || len(ask.Commits) == 0 || len(ask.Commits) > maxShared {
		return none("the work is not based on what the folder has", err)
	}
	shared, err := s.cfg.Machines.Lend(ctx, machine, ask)
	if err != nil {
		return none("the machine refused", err)
	}
	for _, id := range ask.Commits {
		if !slices.Contains(shared.Commits, id) {
			return none("the folder lost a commit meanwhile", nil)
		}
	}
	objects := slices.DeleteFunc(shared.Objects, func(dir string) bool { return !plainObjects(dir) })
	if len(objects) == 0 {
		return none("the folder's objects cannot be shown", nil)
	}
	return &alternates{ask.Commits, objects}, nil
}

// plainObjects reports whether a folder can be written to git's list of alternates unquoted.
func plainObjects(dir string) bool {
	return path.IsAbs(dir) && path.Clean(dir) == dir && len(dir) <= 4096 && !strings.ContainsAny(dir, "\n\r\x00\"#")
}

// commitsAmong returns those of the ids that are commits of the repository.
func (s *Service) commitsAmong(ctx context.Context, p workspaces.Project, ids []string) ([]string, error) {
	ids = slices.DeleteFunc(git.Unique(ids), func(id string) bool { return !git.IsCommitID(id) })
	types, err := s.repo.Typed(ctx, p, ids[:min(len(ids), maxBundleHave)])
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ids, func(id string) bool { return types[id] != "commit" }), nil
}

// edge returns where the history of tips meets that of known: commits that are completely known, below which nothing is needed.
func (s *Service) edge(ctx context.Context, p workspaces.Project, tips, known []string) ([]string, error) {
	tips, err := s.repo.Peeled(ctx, p, git.Unique(tips))
	if err != nil {
		return nil, err
	}
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: git.Revs(tips, known), Max: 256 << 20, Args: []string{"rev-list", "--boundary", "--stdin"}})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the history")
	}
	beyond := make(map[string]bool)
	var edge []string
	for l := range strings.Lines(string(out)) {
		l = strings.TrimSpace(l)
		if id, ok := strings.CutPrefix(l, "-"); ok {
			edge = append(edge, id)
		} else {
			beyond[l] = true
		}
	}
	for _, id := range tips {
		if !beyond[id] {
			edge = append(edge, id)
		}
	}
	return git.Unique(edge), nil
}

// packMissing writes packs of what tips have and the shared commits lack into a git folder, and adds the shared objects as its alternates.
func (s *Service) packMissing(ctx context.Context, p workspaces.Project, dir string, tips []string, l *alternates, say func(done, all int64)) error {
	ask := strings.Join(git.Unique(tips), "\n") + "\n--not\n" + strings.Join(l.commits, "\n") + "\n"
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(ask), Timeout: s.cfg.StepTimeout, Passing: true,
		Config:   []string{"pack.packSizeLimit=0", "pack.island=", "core.compression=1"},
		Args:     []string{"pack-objects", "--revs", "--delta-base-offset", "--no-use-bitmap-index", "--progress", filepath.Join(dir, "objects", "pack", "pack")},
		Progress: func(line string) { git.SayPercent(line, say) }})
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "bundle_failed", "Packing the repository")
	}
	if err := os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte(strings.Join(l.objects, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	cut := s.repo.OwnShallow(p) // of the server's own copy: even if the machine has more, it stays shallow
	if len(cut) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "shallow"), []byte(strings.Join(slices.Sorted(maps.Keys(cut)), "\n")+"\n"), 0o644)
}

// ArriveIgnored has the machine copy the ignored files that its folder has and the project selects into each workspace. They never leave
// the machine. Failures are reported, and do not prevent using the workspace.
func (s *Service) ArriveIgnored(ctx context.Context, a executors.Arrival) error {
	w, err := s.store.Workspace(ctx, a.Place.WorkspaceID)
	machine := machineOf(w.Executor)
	if err != nil || w.Folder == "" || machine == "" || s.cfg.Machines == nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil || len(p.CopyIgnored) == 0 {
		return err
	}
	_, err = s.cfg.Machines.CopyIgnored(asked(ctx, "copy ignored files for "+w.Key()), machine, wire.CopyAsk{SandboxID: a.Place.SandboxID, Patterns: p.CopyIgnored})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		why := "Ignored files of the machine's folder could not be copied: " + git.Reason(err)
		s.cfg.Log.InfoContext(ctx, "ignored files not copied on a machine", "workspace_id", w.ID, "error", err)
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "copy.failed", Text: why})
	}
	return nil
}
