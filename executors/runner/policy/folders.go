package policy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Limits of what is reported about folders.
const (
	maxFolders  = 100
	maxChildren = 2000 // entries of a folder that are read
)

// outside is the same answer for a missing path and a forbidden one: a server cannot find out what a machine has.
func outside(path string) error {
	return fault.New(fault.Forbidden, wire.CodeOutside, "%q is not in a folder that the machine's owner allows. They can add it to folders in its runner.json.", Clean(path, 300))
}

// Folder returns the owner's rule for the folder at path: an allowed one, or one below it. It resolves links first, and refuses a path that
// then lies outside; the returned Path is without links. Open it with OpenFolder, or without following links: the files may change after the
// check.
func (k *Keeper) Folder(path string) (wire.Folder, error) {
	top, real, err := k.within(path)
	if err != nil {
		return wire.Folder{}, err
	}
	return describe(top, real), nil
}

// OpenFolder opens the folder at path as Folder finds it. Nothing that is reached through the root lies outside the allowed folder, however
// links change meanwhile.
func (k *Keeper) OpenFolder(path string) (*os.Root, wire.Folder, error) {
	top, real, err := k.within(path)
	if err != nil {
		return nil, wire.Folder{}, err
	}
	allowed, err := filepath.EvalSymlinks(top.Path)
	if err != nil {
		return nil, wire.Folder{}, outside(path)
	}
	root, err := os.OpenRoot(allowed)
	if err != nil {
		return nil, wire.Folder{}, outside(path)
	}
	if rel, err := filepath.Rel(allowed, real); err == nil && rel != "." {
		below, err := root.OpenRoot(rel)
		_ = root.Close()
		if err != nil {
			return nil, wire.Folder{}, outside(path)
		}
		root = below
	}
	return root, describe(top, real), nil
}

// within finds the innermost allowed folder that contains path, and path without links.
func (k *Keeper) within(path string) (top Folder, real string, err error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) || len(path) > 4096 {
		return top, "", outside(path)
	}
	real, err = filepath.EvalSymlinks(filepath.Clean(path))
	if err != nil {
		return top, "", outside(path)
	}
	if st, err := os.Lstat(real); err != nil || !st.IsDir() {
		return top, "", outside(path)
	}
	most := -1
	for _, f := range k.Policy().Folders {
		allowed, err := filepath.EvalSymlinks(f.Path)
		if err == nil && below(allowed, real) && len(allowed) > most && !hidden(allowed, real) {
			top, most = f, len(allowed)
		}
	}
	if most < 0 {
		return top, "", outside(path)
	}
	return top, real, nil
}

// below reports whether path is dir or lies in it. Both are without links.
func below(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// hidden reports whether path lies in a hidden folder below dir, such as .git, or .ssh in a home that was allowed as a whole: an owner who
// means one of those allows it by name.
func hidden(dir, path string) bool {
	rel := strings.TrimPrefix(path, dir)
	return slices.ContainsFunc(strings.Split(rel, "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}

// Folders returns the existing allowed folders, each followed by the repositories directly below it unless it is one itself. Names sort as
// people wrote them.
func (k *Keeper) Folders() []wire.Folder {
	out := []wire.Folder{}
	seen := map[string]bool{}
	add := func(f wire.Folder) {
		if !seen[f.Path] && len(out) < maxFolders && Clean(f.Path, len(f.Path)) == f.Path { // a name that cannot be displayed is not reported
			seen[f.Path] = true
			out = append(out, f)
		}
	}
	for _, f := range k.Policy().Folders {
		here, err := k.Folder(f.Path)
		if err != nil {
			continue
		}
		add(here)
		if here.Git {
			continue
		}
		for _, name := range folderNames(here.Path) {
			if below, err := k.Folder(filepath.Join(here.Path, name)); err == nil && below.Git {
				add(below)
			}
		}
	}
	return out
}

// folderNames lists the folders in dir that are neither hidden nor links.
func folderNames(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxChildren) // what could be read
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out
}

func describe(top Folder, path string) wire.Folder {
	f := wire.Folder{Path: path, Name: filepath.Base(path), Access: top.Access}
	if allowed, err := filepath.EvalSymlinks(top.Path); err == nil && allowed == path {
		f.Name = top.Name
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return f
	}
	defer root.Close()
	st, err := root.Lstat(".git")
	switch {
	case err != nil:
		return f
	case st.IsDir():
		f.Branch = headOf(root)
		_, err := root.Lstat(".git/HEAD")
		f.Git = !errors.Is(err, fs.ErrNotExist)
	default:
		f.Git = st.Mode().IsRegular() // a worktree of another repository: its branch is stored elsewhere
	}
	return f
}

// headOf returns the checked-out branch, "" when there is none.
func headOf(root *os.Root) string {
	h, err := root.OpenFile(".git/HEAD", os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer h.Close()
	if st, err := h.Stat(); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(h, 1024))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	branch, ok := strings.CutPrefix(line, "ref: refs/heads/")
	if !ok {
		return ""
	}
	return Clean(branch, 255)
}
