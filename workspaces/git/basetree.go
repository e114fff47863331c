package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parawork/parawork/guest/changes"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// Reads of the repository for the service that mirrors a sandbox's files. They touch no worktree.

// Worktree is the absolute path of the workspace's worktree on this server; fault.Conflict when it has none now.
func (s *Repo) Worktree(ctx context.Context, workspaceID string) (string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return "", err
	}
	if w.DeletedAt != 0 || w.State == workspaces.Archived || w.State == workspaces.Failed || w.Path == "" {
		return "", fault.New(fault.Conflict, "workspace_not_active", "%s is archived, deleted or failed, so it has no worktree. Restore it first.", w.Key())
	}
	return w.Path, nil
}

// Bounds of one lookup in a tree.
const (
	AskPaths  = 400      // paths of one call of git
	AskBytes  = 64 << 10 // bytes of their names
	WholeTree = 4000     // from so many paths on, list the whole tree
)

// BaseFiles returns those of paths that exist in a commit, including submodules, and folders if nothing below them is requested; all files
// of it when paths is nil.
func (s *Repo) BaseFiles(ctx context.Context, workspaceID, commit string, paths []string) ([]hostgit.TreeFile, error) {
	p, err := s.ProjectOf(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	if !IsCommitID(commit) {
		return nil, fault.New(fault.Invalid, "invalid_commit", "%q is no commit.", commit)
	}
	if paths == nil || len(paths) > WholeTree {
		return s.listTree(ctx, p, commit, paths)
	}
	if out, err := inProcess(ctx, p.GitDir, func(r *reader) ([]hostgit.TreeFile, error) { return r.files(ctx, commit, paths, false) }); err == nil {
		return out, nil
	}
	var out []hostgit.TreeFile
	for len(paths) > 0 {
		n, size := 0, 0
		for n < len(paths) && n < AskPaths && (n == 0 || size+len(paths[n]) < AskBytes) {
			size += len(paths[n])
			n++
		}
		args := append([]string{"ls-tree", "-z", "-l", "--full-tree", commit, "--"}, paths[:n]...)
		b, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: args})
		if err != nil {
			return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Listing the files of "+commit)
		}
		for rec := range strings.SplitSeq(string(b), "\x00") {
			if rec == "" {
				continue
			}
			f, err := TreeRecord(rec)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
		paths = paths[n:]
	}
	return out, nil
}

// listTree lists a whole commit and returns the entries in paths; all when paths is nil.
func (s *Repo) listTree(ctx context.Context, p workspaces.Project, commit string, paths []string) ([]hostgit.TreeFile, error) {
	var keep map[string]bool
	if paths != nil {
		keep = make(map[string]bool, len(paths))
		for _, name := range paths {
			keep[name] = true
		}
	}
	var out []hostgit.TreeFile
	records := &zeroSplit{fn: func(rec string) error {
		f, err := TreeRecord(rec)
		if err == nil && (keep == nil && f.Mode != 0o040000 || keep[f.Path]) {
			out = append(out, f)
		}
		return err
	}}
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"ls-tree", "-r", "-t", "-z", "-l", "--full-tree", commit}, Stdout: records})
	if records.err != nil {
		return nil, records.err
	}
	return out, GitFault(err, fault.Unavailable, "repository_unreadable", "Listing the files of "+commit)
}

// zeroSplit passes on NUL-terminated records as they are written.
type zeroSplit struct {
	rest []byte
	fn   func(string) error
	err  error
}

func (z *zeroSplit) Write(p []byte) (int, error) {
	z.rest = append(z.rest, p...)
	for z.err == nil {
		rec, rest, ok := bytes.Cut(z.rest, []byte{0})
		if !ok {
			break
		}
		z.err = z.fn(string(rec))
		z.rest = rest
	}
	return len(p), z.err
}

// TreeRecord reads one record of ls-tree -l.
func TreeRecord(rec string) (hostgit.TreeFile, error) {
	head, path, ok := strings.Cut(rec, "\t")
	f := strings.Fields(head)
	if !ok || len(f) != 4 {
		return hostgit.TreeFile{}, fmt.Errorf("ls-tree answered %q", rec)
	}
	mode, err := strconv.ParseUint(f[0], 8, 32)
	if err != nil {
		return hostgit.TreeFile{}, fmt.Errorf("ls-tree answered %q: %w", rec, err)
	}
	size, _ := strconv.ParseInt(f[3], 10, 64) // "-" for anything but a file
	return hostgit.TreeFile{Path: path, Mode: uint32(mode), Size: size, OID: f[2]}, nil
}

// ProjectOf returns the project of a workspace.
func (s *Repo) ProjectOf(ctx context.Context, workspaceID string) (workspaces.Project, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return workspaces.Project{}, err
	}
	return s.UsableProject(ctx, w.ProjectID)
}

// BaseDiff returns the paths that differ between two commits.
func (s *Repo) BaseDiff(ctx context.Context, workspaceID, from, to string) ([]string, error) {
	p, err := s.ProjectOf(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	if !IsCommitID(from) || !IsCommitID(to) {
		return nil, fault.New(fault.Invalid, "invalid_commit", "%q and %q are not both commits.", from, to)
	}
	var out []string
	names := &zeroSplit{fn: func(name string) error { out = append(out, name); return nil }}
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to}, Stdout: names})
	return out, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing two commits")
}

// BaseBlobs passes the contents of files to fn, one after the other. fn need not read all of one; an error of fn stops the reading.
func (s *Repo) BaseBlobs(ctx context.Context, workspaceID string, files []hostgit.TreeFile, fn func(hostgit.TreeFile, io.Reader) error) error {
	p, err := s.ProjectOf(ctx, workspaceID)
	if err != nil {
		return err
	}
	return s.CommitBlobs(ctx, p.ID, files, fn)
}

// HereDiff is a request for the diff of one file on this server against a commit.
type HereDiff struct {
	Base, Path, OldPath string
	Mode                string    // current content, as git would store it; "" = no file
	Content             io.Reader // of the current file, or the link's target
	Size                int64     // of Content
	Context             int       // context lines around a hunk
}

// Bounds of one diff, equal to those of a sandbox's guest.
const (
	diffLarge   = 8 << 20  // bytes above which files are not compared line by line
	diffMost    = 16 << 20 // bytes of a diff
	diffContext = 1_000_000
)

// HereDiff writes the unified diff of one file on this server, in the same form as a sandbox's guest. It only reads the repository:
// compared contents go to a temporary object store.
func (s *Repo) HereDiff(ctx context.Context, workspaceID string, d HereDiff, w io.Writer) error {
	p, err := s.ProjectOf(ctx, workspaceID)
	if err != nil {
		return err
	}
	paths := []string{d.Path}
	if d.OldPath != "" && d.OldPath != d.Path {
		paths = append(paths, d.OldPath)
	}
	then, err := s.BaseFiles(ctx, workspaceID, d.Base, paths)
	if err != nil {
		return err
	}
	big := d.Size > diffLarge
	known := false
	for _, f := range then {
		known = known || f.Mode != 0o040000
		big = big || f.Size > diffLarge
	}
	switch {
	case d.Mode == "" && !known:
		return fault.New(fault.NotFound, "no_such_file", "There is no such file, neither now nor in the base.")
	case big:
		_, err := fmt.Fprintf(w, "diff --git a/%s b/%s\nBinary files a/%s and b/%s differ\n%sthe file is too large to be compared line by line (at most %d bytes).\n",
			d.Path, d.Path, d.Path, d.Path, changes.NoteMark, diffLarge)
		return err
	}
	if err := os.MkdirAll(s.records.TmpDir(), 0o700); err != nil {
		return DiskFault(err, "Comparing the file")
	}
	dir, err := os.MkdirTemp(s.records.TmpDir(), "diff-")
	if err != nil {
		return DiskFault(err, "Comparing the file")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	call := hostgit.Call{GitDir: p.GitDir, Objects: filepath.Join(dir, "objects"), Max: diffMost,
		Env: []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index"), "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(filepath.Join(p.GitDir, "objects"))}}
	if err := os.Mkdir(call.Objects, 0o700); err != nil {
		return DiskFault(err, "Comparing the file")
	}
	if d.Mode != "" {
		c := call
		c.Args, c.Stdin = []string{"hash-object", "-w", "--no-filters", "--stdin"}, d.Content
		oid, err := s.git.Text(ctx, c)
		if err == nil {
			c.Args, c.Stdin = []string{"update-index", "-z", "--index-info"}, strings.NewReader(fmt.Sprintf("%s %s 0\t%s\x00", d.Mode, oid, d.Path))
			_, err = s.git.Run(ctx, c)
		}
		if err != nil {
			return GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the file")
		}
	}
	call.Args = append([]string{"diff", "--cached", "-M", "-p", "-U" + strconv.Itoa(min(max(d.Context, 0), diffContext)), "--no-ext-diff", "--no-textconv", "--no-color",
		"--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/", d.Base, "--"}, paths...)
	out, err := s.git.Run(ctx, call)
	if err != nil && !errors.Is(err, hostgit.ErrTooMuch) {
		return GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the file")
	}
	if _, werr := w.Write(out); werr != nil || err == nil {
		return werr
	}
	_, err = fmt.Fprintf(w, "\n%sthe difference is longer than %d bytes; the rest is not shown.\n", changes.NoteMark, diffMost)
	return err
}

// alternate formats a folder for GIT_ALTERNATE_OBJECT_DIRECTORIES, a list separated by colons.
func alternate(dir string) string {
	if !strings.ContainsAny(dir, ":\"\\\n") {
		return dir
	}
	return strconv.Quote(dir)
}
