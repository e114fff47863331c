package projects

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Limits of the directory browser and the search.
const (
	maxEntries   = 1000  // shown per folder
	maxReadDir   = 20000 // read per folder
	maxFound     = 50    // repositories a search returns
	searchDepth  = 6     // depth below a root
	searchVisits = 20000 // folders a search opens
	searchTime   = 5 * time.Second
)

// skipDirs are folders that a search skips: large, and never the parent of a project.
var skipDirs = map[string]bool{"node_modules": true, "vendor": true, "__pycache__": true, "target": true, "proc": true, "sys": true, "dev": true}

// Browse lists the folders in path, marking git repositories and leaving out hidden ones. An empty path lists the allowed roots.
func (s *Service) Browse(ctx context.Context, path string) (workspaces.Listing, error) {
	l := workspaces.Listing{Roots: slices.Clone(s.cfg.AllowedRoots), Entries: []workspaces.Entry{}, Breadcrumbs: []workspaces.Entry{}}
	if path == "" {
		for _, r := range s.cfg.AllowedRoots {
			l.Entries = append(l.Entries, workspaces.Entry{Name: r, Path: r, Git: looksLikeRepo(r)})
		}
		return l, nil
	}
	real, err := s.repo.Allowed(path)
	if err != nil {
		return l, err
	}
	l.Path, l.Git = real, looksLikeRepo(real)
	l.Breadcrumbs = s.breadcrumbs(real)
	if n := len(l.Breadcrumbs); n > 1 {
		l.Parent = l.Breadcrumbs[n-2].Path
	}
	names, more, err := subfolders(real)
	if err != nil {
		return l, err
	}
	l.Truncated = more
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return l, err
		}
		p := filepath.Join(real, n)
		if !s.repo.InRoots(p) {
			continue
		}
		if len(l.Entries) == maxEntries {
			l.Truncated = true
			break
		}
		l.Entries = append(l.Entries, workspaces.Entry{Name: n, Path: p, Git: looksLikeRepo(p)})
	}
	return l, nil
}

// breadcrumbs are the folders from the root that holds real down to real.
func (s *Service) breadcrumbs(real string) []workspaces.Entry {
	root := ""
	for _, r := range s.repo.RootNames() {
		if git.Below(real, r) && len(r) > len(root) {
			root = r
		}
	}
	if root == "" {
		return []workspaces.Entry{}
	}
	out := []workspaces.Entry{{Name: root, Path: root, Git: looksLikeRepo(root)}}
	rel, err := filepath.Rel(root, real)
	if err != nil || rel == "." {
		return out
	}
	at := root
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		out = append(out, workspaces.Entry{Name: part, Path: at, Git: looksLikeRepo(at)})
	}
	return out
}

// subfolders returns the sorted names of the folders in dir that are not hidden. It does not follow links.
func subfolders(dir string) (names []string, more bool, err error) {
	// Open folders only: opening a FIFO would block until there is a writer.
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			return nil, false, fault.New(fault.Invalid, "path_not_a_folder", "This is a file, not a folder.")
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil, false, fault.New(fault.Forbidden, "path_unreadable", "The server is not allowed to read this folder.")
		}
		return nil, false, fault.Wrap(err, fault.NotFound, "path_not_found", "This folder does not exist.")
	}
	defer f.Close()
	entries, err := f.ReadDir(maxReadDir)
	if err != nil && len(entries) == 0 {
		return nil, false, nil // an empty folder ends with io.EOF
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	sort.Slice(names, func(i, j int) bool { return strings.ToLower(names[i]) < strings.ToLower(names[j]) })
	return names, len(entries) == maxReadDir, nil
}

// SearchRepos finds git repositories below the allowed roots whose path contains every word of q, the best match first.
func (s *Service) SearchRepos(ctx context.Context, q string) ([]workspaces.Entry, error) {
	words := strings.Fields(strings.ToLower(q))
	if len(words) == 0 {
		return []workspaces.Entry{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	type found struct {
		workspaces.Entry
		rank int
	}
	var hits []found
	seen := make(map[string]bool)
	visits := 0
	for _, root := range s.cfg.AllowedRoots {
		real, err := filepath.EvalSymlinks(root)
		if err != nil || seen[real] {
			continue
		}
		type place struct {
			path  string
			depth int
		}
		queue := []place{{real, 0}} // breadth first, to find near ones before the limits apply
		for len(queue) > 0 && visits < searchVisits && len(hits) < 4*maxFound && ctx.Err() == nil {
			at := queue[0]
			queue = queue[1:]
			if seen[at.path] || !s.repo.InRoots(at.path) {
				continue
			}
			seen[at.path] = true
			visits++
			if looksLikeRepo(at.path) {
				rel := strings.ToLower(strings.TrimPrefix(at.path, real))
				if at.depth == 0 {
					rel = strings.ToLower(filepath.Base(real))
				}
				if rank := rankOf(rel, words); rank > 0 {
					hits = append(hits, found{workspaces.Entry{Name: filepath.Base(at.path), Path: at.path, Git: true}, rank*100 + at.depth})
				}
				continue // repositories inside repositories are not projects
			}
			if at.depth == searchDepth {
				continue
			}
			names, _, err := subfolders(at.path)
			if err != nil {
				continue
			}
			for _, n := range names {
				if !skipDirs[n] {
					queue = append(queue, place{filepath.Join(at.path, n), at.depth + 1})
				}
			}
		}
	}
	sort.SliceStable(hits, func(i, j int) bool {
		if hits[i].rank != hits[j].rank {
			return hits[i].rank < hits[j].rank
		}
		return hits[i].Path < hits[j].Path
	})
	out := make([]workspaces.Entry, 0, min(len(hits), maxFound))
	for _, h := range hits[:min(len(hits), maxFound)] {
		out = append(out, h.Entry)
	}
	return out, nil
}

// rankOf is how well a path matches: 1 the name itself, 2 its prefix, 3 inside it, 4 elsewhere in the path, 0 no match.
func rankOf(rel string, words []string) int {
	for _, w := range words {
		if !strings.Contains(rel, w) {
			return 0
		}
	}
	base, all := filepath.Base(rel), strings.Join(words, " ")
	switch {
	case base == all:
		return 1
	case strings.HasPrefix(base, words[0]):
		return 2
	case strings.Contains(base, words[len(words)-1]):
		return 3
	}
	return 4
}
