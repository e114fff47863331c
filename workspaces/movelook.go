package workspaces

import (
	"context"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Keepers is an optional ability of Places that have places with a disk of their own.
type Keepers interface {
	// OnlyThere says how many files the workspace's sandbox alone holds, because they are too large or of a kind that is not brought home.
	OnlyThere(ctx context.Context, workspaceID string) (int64, error)
}

// liveBox is openBox for a sandbox that lives; nil where none does, and none is made or woken.
func (s *Service) liveBox(ctx context.Context, w Workspace) (*box, error) {
	places, _, err := s.rooms()
	if err != nil {
		return nil, err
	}
	if a := s.sandboxes(); !places.Live(w.ID) || a != nil && !a.Awake(w.ID) {
		return nil, nil
	}
	run := places.RunInBox
	if live, is := places.(liveRunner); is {
		run = live.RunLive
	}
	b, err := s.boxWith(ctx, w, func(ctx context.Context, c executors.BoxCommand) (executors.BoxResult, error) {
		return run(ctx, w.ID, c)
	})
	if fault.CodeOf(err) == "sandbox_not_live" {
		return nil, nil
	}
	return b, err
}

// leavesGit reports whether a move to another place leaves the git dir that the workspace's agents work with: commits, what is staged and
// other refs come along, and nothing else of it does.
func (s *Service) leavesGit(w Workspace, to executors.Capabilities) bool {
	return s.far(w.ID) || s.boxed(w.ID) && (!to.Isolated || to.OwnDisk)
}

// unfinished refuses to leave a git dir in which a merge, a rebase or the like is under way: what git noted of it would be lost, and the next
// commit would be one of half a merge. A sandbox that does not live is not asked: it is looked at again before it is left.
func (s *Service) unfinished(ctx context.Context, w Workspace, to executors.Capabilities) error {
	if !s.leavesGit(w, to) {
		return nil
	}
	b, err := s.liveBox(ctx, w)
	if err != nil || b == nil {
		return err
	}
	return b.idle(ctx)
}

// staysBehind refuses to leave a sandbox that alone holds files, in the words of who would refuse its end later.
func (s *Service) staysBehind(ctx context.Context, w Workspace) error {
	places, _, err := s.rooms()
	if err != nil || !s.far(w.ID) {
		return err
	}
	k, ok := places.(Keepers)
	if !ok {
		return nil
	}
	n, err := k.OnlyThere(ctx, w.ID)
	if err != nil || n == 0 {
		return err
	}
	return fault.New(fault.Conflict, "sandbox_not_home", "%s in the sandbox alone, too large or of a kind that is not brought home. Move or remove what is listed as not synced, or have git ignore it if it may be lost.",
		plural(int(n), "file is", "files are")).With("not_synced", n)
}

// shownIgnored is how many ignored files and folders a plan names.
const shownIgnored = 4

// leftIgnored names what git ignores in a workspace and would not come along, folders with a slash; nil where nobody can be asked now. along
// are files that do.
func (s *Service) leftIgnored(ctx context.Context, b *box, along func(name string) bool) []string {
	if b == nil {
		return nil
	}
	out, err := b.git(ctx, nil, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		s.cfg.Log.InfoContext(ctx, "what is ignored could not be listed for the plan of a move", "workspace_id", b.ws.ID, "error", err)
		return nil
	}
	return slices.DeleteFunc(splitZero(out), along)
}

// ignoredWords are what a plan says of ignored files. others says that it told of some already.
func ignoredWords(names []string, others bool) string {
	switch {
	case len(names) == 0 && others:
		return "Other files that git ignores, such as installed packages and build results"
	case len(names) == 0:
		return "Files that git ignores, such as installed packages and build results"
	case others:
		return "Other files that git ignores: " + someNames(encodePaths(names))
	}
	return "Files that git ignores: " + someNames(encodePaths(names))
}

// planChosen says which of the ignored files that the project keeps come along to or from a place with a disk of its own: as its sandbox has
// them, else as they came to this server last.
func (s *Service) planChosen(ctx context.Context, p Project, w Workspace, b *box, lost bool) (chosenFiles, error) {
	switch {
	case len(p.KeepIgnored) == 0:
		return chosenFiles{}, nil
	case s.far(w.ID) && b != nil && !lost:
		return s.chosenThere(ctx, p, w, b)
	case s.far(w.ID):
		commit, err := s.commitOf(ctx, p.GitDir, farIgnored(w.ID))
		if err != nil {
			return chosenFiles{}, err
		}
		if commit != "" {
			var c chosenFiles
			files, err := s.ignoredFiles(ctx, p, w.ID, commit)
			for _, f := range files {
				c.take(chosenFile{name: f.Path, size: f.Size})
			}
			return c, err
		}
	}
	head, err := s.hostHead(ctx, p, w)
	if err != nil {
		return chosenFiles{}, err
	}
	return s.chosenHere(ctx, p, w, head, false)
}
