package projects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// A folder of the server's belongs to one team. Two teams in one repository would read each other's work: its git keeps the snapshots of
// both, and ignored files are copied out of the folder. So a folder is refused that is another team's, by any name, that lies in one or
// holds one, whose git dir is one's, or that borrows one's objects; one in the trash counts, for it may come back.

// ErrFoldersChanged says that other folders became projects since they were listed.
var ErrFoldersChanged = errors.New("other folders became projects meanwhile")

// claimTries bounds how often the check of a folder begins anew.
const claimTries = 5

// claimFolder stores a project in a folder of the server's, unless another team has a part of it. insert stores the project, given the ids
// of all projects in folders that were looked at.
func (s *Service) claimFolder(ctx context.Context, p workspaces.Project, insert func(known []string) error) error {
	var err error
	for range claimTries {
		var known []string
		if known, err = s.folderFree(ctx, p.TeamID, p.Source, p.GitDir); err != nil {
			return err
		}
		if err = insert(known); !errors.Is(err, ErrFoldersChanged) {
			return err
		}
	}
	return fault.Wrap(err, fault.Unavailable, "folders_changing", "Other folders are being added just now. Try again.")
}

// folderFree refuses folders that are, hold or lie in a folder of another team's project. It returns the ids of all projects in folders.
func (s *Service) folderFree(ctx context.Context, teamID string, folders ...string) (known []string, err error) {
	all, err := s.store.FolderProjects(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the projects in folders: %w", err)
	}
	mine := placeOf(folders...)
	for _, other := range all {
		known = append(known, other.ID)
		if other.TeamID != teamID && mine.meets(placeOf(other.Source, other.GitDir)) {
			return nil, fault.New(fault.Conflict, "folder_taken", "This folder belongs to a project of another team on this server, or lies in one, holds one or borrows its objects. "+
				"Two teams in one repository would read each other's work. Add it by its URL, or as a copy made with git clone --no-hardlinks.")
		}
	}
	return known, nil
}

// WarnOfSharedFolders tells the log of folders that two teams added before that was refused: nothing of theirs is taken away. It goes by
// names alone: a start waits for no disk.
func (s *Service) WarnOfSharedFolders(ctx context.Context) {
	all, err := s.store.FolderProjects(ctx)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "projects in folders could not be listed", "error", err)
		return
	}
	for _, pair := range SharedFolders(all) {
		p, other := pair[0], pair[1]
		s.cfg.Log.WarnContext(ctx, "two teams have projects in one folder, and may read each other's work there: delete one of the projects",
			"project_id", p.ID, "team_id", p.TeamID, "other_project_id", other.ID, "other_team_id", other.TeamID, "path", p.Source)
	}
}

// SharedFolders returns the pairs of projects of two teams where one's folder is the other's, or lies in it. It goes by names alone.
func SharedFolders(all []workspaces.Project) [][2]workspaces.Project {
	var pairs [][2]workspaces.Project
	for i, p := range all {
		mine := folderPlace{names: []string{p.Source, p.GitDir}}
		for _, other := range all[:i] {
			if other.TeamID != p.TeamID && mine.meets(folderPlace{names: []string{other.Source, other.GitDir}}) {
				pairs = append(pairs, [2]workspaces.Project{p, other})
			}
		}
	}
	return pairs
}

// folderPlace is where a repository lies.
type folderPlace struct {
	names    []string // its folders
	own      Inodes   // they, whatever they are called: links and mounts give a folder other names
	around   Inodes   // they, and every folder they lie in
	borrowed Inodes   // folders of objects it borrows, and every folder they lie in
}

// Inodes is a set of files, whatever their paths are.
type Inodes map[sandboxgit.Inode]bool

func placeOf(folders ...string) folderPlace {
	f := folderPlace{own: make(Inodes), around: make(Inodes), borrowed: make(Inodes)}
	for _, dir := range folders {
		f.names = append(f.names, filepath.Clean(dir))
		addFolder(dir, f.own, f.around)
	}
	for _, dir := range alternatesOf(folders) {
		addFolder(dir, make(Inodes), f.borrowed)
	}
	return f
}

// addFolder notes a folder, by the name as given and as it resolves, and around it those it lies in.
func addFolder(dir string, own, around Inodes) {
	names := []string{filepath.Clean(dir)}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != names[0] {
		names = append(names, real)
	}
	for _, name := range names {
		for at := name; ; at = filepath.Dir(at) {
			var st syscall.Stat_t
			if syscall.Stat(at, &st) == nil {
				id := sandboxgit.Inode{Dev: uint64(st.Dev), Ino: st.Ino} //nolint:unconvert // its type differs by system
				around[id] = true
				if at == name {
					own[id] = true
				}
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
}

// meets reports whether one of two places is the other, lies in it or borrows from it. A folder that is not there now is known by name.
func (f folderPlace) meets(o folderPlace) bool {
	for id := range f.own {
		if o.around[id] || o.borrowed[id] {
			return true
		}
	}
	for id := range o.own {
		if f.around[id] || f.borrowed[id] {
			return true
		}
	}
	return slices.ContainsFunc(f.names, func(a string) bool {
		return slices.ContainsFunc(o.names, func(b string) bool { return git.Below(a, b) || git.Below(b, a) })
	})
}

// maxAlternates bounds how many folders of objects a repository may borrow from in its turn.
const maxAlternates = 20

// alternatesOf are the folders of objects that repositories borrow from.
func alternatesOf(gitDirs []string) (out []string) {
	var todo []string
	for _, dir := range gitDirs {
		todo = append(todo, filepath.Join(dir, "objects"), filepath.Join(dir, ".git", "objects"))
	}
	seen := make(map[string]bool)
	for len(todo) > 0 && len(seen) < maxAlternates {
		dir := filepath.Clean(todo[0])
		todo = todo[1:]
		if seen[dir] {
			continue
		}
		seen[dir] = true
		name := filepath.Join(dir, "info", "alternates")
		if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() || fi.Size() > git.MaxOperationFile {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for l := range strings.SplitSeq(string(b), "\n") {
			if l = strings.TrimSpace(l); l == "" || l[0] == '#' || l[0] == '"' {
				continue
			}
			if !filepath.IsAbs(l) {
				l = filepath.Join(dir, l)
			}
			out, todo = append(out, l), append(todo, l)
		}
	}
	return out
}
