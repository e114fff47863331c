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

// A folder of the server belongs to one team. Two teams in one repository would read each other's work: it has the snapshots of both, and
// ignored files are copied out of the folder. So a folder is rejected if it is another team's, by any name, if one contains the other, if
// its git dir is another's, or if one shares the other's objects. Projects in the trash count, as they may be restored.

// ErrFoldersChanged means that other folders became projects since they were listed.
var ErrFoldersChanged = errors.New("other folders became projects meanwhile")

// claimTries bounds how often the check of a folder is restarted.
const claimTries = 5

// claimFolder stores a project in a folder of the server, unless another team has a part of it. insert stores the project, given the ids of
// all projects in folders that were checked.
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

// folderFree rejects folders that are, contain or are inside a folder of another team's project. It returns the ids of all projects in
// folders.
func (s *Service) folderFree(ctx context.Context, teamID string, folders ...string) (known []string, err error) {
	all, err := s.store.FolderProjects(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the projects in folders: %w", err)
	}
	mine := placeOf(folders...)
	for _, other := range all {
		known = append(known, other.ID)
		if other.TeamID != teamID && mine.meets(placeOf(other.Source, other.GitDir)) {
			return nil, fault.New(fault.Conflict, "folder_taken", "This folder belongs to a project of another team on this server, or is inside one, contains one or shares its objects. "+
				"Two teams in one repository would read each other's work. Add it by its URL, or as a copy made with git clone --no-hardlinks.")
		}
	}
	return known, nil
}

// WarnOfSharedFolders logs folders that two teams added before that was rejected: it takes nothing away from them. It compares names only,
// so that a start waits for no disk.
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

// SharedFolders returns the pairs of projects of two teams where one's folder is the other's, or inside it. It compares names only.
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

// folderPlace is the location of a repository.
type folderPlace struct {
	names    []string // its folders
	own      Inodes   // their inodes: links and mounts give a folder other names
	around   Inodes   // inodes of them and all their parents
	borrowed Inodes   // inodes of folders of shared objects, and all their parents
}

// Inodes is a set of files, independent of their paths.
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

// addFolder adds a folder by its given and resolved name, and its parents by inode.
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

// meets reports whether one of two locations is the other, is inside it or shares its objects. A folder that does not exist now is compared
// by name.
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

// maxAlternates bounds how many folders of objects a repository may use through alternates, recursively.
const maxAlternates = 20

// alternatesOf are the folders of objects that repositories use through alternates.
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
