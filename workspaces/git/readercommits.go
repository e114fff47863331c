package git

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// commitOf is the commit that a name refers to, "" when there is no such ref: HEAD, a full ref, an object id, or the first parent of one.
func (r *reader) commitOf(ctx context.Context, name string) (string, error) {
	id, parent := strings.CutSuffix(name, "^1")
	if !IsCommitID(id) {
		var err error
		if parent {
			return "", errNotInProcess
		}
		if id, err = r.ref(name); err != nil || id == "" {
			return "", err
		}
	}
	for range mostLinks {
		kind, content, err := r.object(ctx, id)
		switch {
		case err != nil:
			return "", err
		case kind == plumbing.TagObject:
			line, rest, _ := strings.Cut(string(content), "\n")
			to, ok := strings.CutPrefix(line, "object ")
			if !ok || !strings.HasPrefix(rest, "type commit\n") && !strings.HasPrefix(rest, "type tag\n") {
				return "", errNotInProcess
			}
			id = to
			continue
		case kind != plumbing.CommitObject:
			return "", errNotInProcess
		case !parent:
			return id, nil
		}
		ids, err := r.parents(ctx, id)
		if err != nil || len(ids) == 0 {
			return "", err
		}
		_, err = r.parents(ctx, ids[0]) // it is there
		return ids[0], err
	}
	return "", errNotInProcess
}

// parents are the parents of a commit in a history that is not shallow.
func (r *reader) parents(ctx context.Context, id string) ([]string, error) {
	kind, content, err := r.object(ctx, id)
	if err != nil || kind != plumbing.CommitObject || r.shallow {
		return nil, errors.Join(errNotInProcess, err)
	}
	ids, _, err := parentsIn(string(content))
	return ids, err
}

// parentsIn parses the parents of a commit as git does, and returns what follows them: they come right after the tree.
func parentsIn(content string) (ids []string, rest string, err error) {
	_, rest, _ = strings.Cut(content, "\n")
	for strings.HasPrefix(rest, "parent ") {
		line, more, _ := strings.Cut(rest[len("parent "):], "\n")
		if _, err := hashOf(line); err != nil {
			return nil, "", err
		}
		ids, rest = append(ids, line), more
	}
	return ids, rest, nil
}

// tree parses a tree object as git writes one: sorted, with names of one path element.
func (r *reader) tree(ctx context.Context, id string) ([]object.TreeEntry, error) {
	kind, content, err := r.object(ctx, id)
	if err != nil || kind != plumbing.TreeObject {
		return nil, errors.Join(errNotInProcess, err)
	}
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	_, _ = o.Write(content)
	t, err := object.DecodeTree(nil, o)
	if err != nil {
		return nil, err
	}
	last := ""
	for _, e := range t.Entries {
		key := e.Name
		if e.Mode == filemode.Dir {
			key += "/"
		}
		if key <= last || strings.Contains(e.Name, "/") {
			return nil, errNotInProcess
		}
		last = key
	}
	return t.Entries, nil
}

// treeOf is the tree of a commit, or a tree itself.
func (r *reader) treeOf(ctx context.Context, id string) (string, error) {
	kind, content, err := r.object(ctx, id)
	switch {
	case err != nil:
		return "", err
	case kind == plumbing.TreeObject:
		return id, nil
	case kind != plumbing.CommitObject:
		return "", errNotInProcess
	}
	line, _, _ := strings.Cut(string(content), "\n")
	tree, ok := strings.CutPrefix(line, "tree ")
	if !ok {
		return "", errNotInProcess
	}
	_, err = r.tree(ctx, tree)
	return tree, err
}

// fork is the merge base of two histories, and how many commits each has above it.
type fork struct {
	base          string
	ahead, behind int
}

// fork finds where the histories of a and b diverge. It follows both while they are linear, so that there is one answer; merges are left to
// git's program.
func (r *reader) fork(ctx context.Context, a, b string) (fork, error) {
	at, seen := [2]string{a, b}, [2]map[string]int{{}, {}}
	for n := range mostSteps {
		for i := range at {
			if at[i] == "" {
				continue
			}
			ids, err := r.parents(ctx, at[i])
			if err != nil {
				return fork{}, err
			}
			seen[i][at[i]] = n
			if other, met := seen[1-i][at[i]]; met {
				return fork{at[i], [2]int{n, other}[i], [2]int{other, n}[i]}, nil
			}
			if at[i] = ""; len(ids) == 1 {
				at[i] = ids[0]
			}
		}
	}
	return fork{}, errNotInProcess
}

// files are those of paths that exist in a commit or a tree, folders included, in its order and as ls-tree -l lists them. With all, they
// are the files below one folder.
func (r *reader) files(ctx context.Context, id string, paths []string, all bool) (out []hostgit.TreeFile, err error) {
	if len(paths) > mostPaths {
		return nil, errNotInProcess
	}
	for _, p := range paths {
		if p == "" || filepath.Clean("/"+p) != "/"+p || strings.ContainsRune(p, 0) ||
			slices.ContainsFunc(paths, func(below string) bool { return strings.HasPrefix(below, p+"/") }) { // ls-tree treats both specially
			return nil, errNotInProcess
		}
	}
	if id, err = r.treeOf(ctx, id); err != nil {
		return nil, err
	}
	err = r.folder(ctx, id, "", func(name string, e object.TreeEntry) (into bool, err error) {
		asked := slices.Contains(paths, name)
		if e.Mode == filemode.Dir {
			into = slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, name+"/") || all && Below(name, p) })
		}
		if into || !asked && !(all && slices.ContainsFunc(paths, func(p string) bool { return Below(name, p) })) {
			return into, nil
		}
		f := hostgit.TreeFile{Path: name, Mode: uint32(e.Mode), OID: e.Hash.String()}
		if len(out) == mostFiles {
			return false, errNotInProcess
		}
		if e.Mode != filemode.Dir && e.Mode != filemode.Submodule {
			f.Size, err = r.size(ctx, f.OID)
		}
		out = append(out, f)
		return false, err
	})
	return out, err
}

// blobs are the contents of small files.
func (r *reader) blobs(ctx context.Context, files []hostgit.TreeFile) ([][]byte, error) {
	if len(files) > mostBlobs {
		return nil, errNotInProcess
	}
	left, out := int64(mostObject), make([][]byte, len(files))
	for i, f := range files {
		if left -= f.Size; left < 0 {
			return nil, errNotInProcess
		}
		kind, content, err := r.object(ctx, f.OID)
		if err != nil || kind != plumbing.BlobObject || int64(len(content)) != f.Size {
			return nil, errors.Join(errNotInProcess, err)
		}
		out[i] = content
	}
	return out, nil
}

// folder walks the entries of a folder: fn gets each with its full path, and returns whether to descend into it.
func (r *reader) folder(ctx context.Context, id, above string, fn func(name string, e object.TreeEntry) (into bool, err error)) error {
	entries, err := r.tree(ctx, id)
	if err != nil {
		return err
	}
	for _, e := range entries {
		into, err := fn(above+e.Name, e)
		if err == nil && into {
			err = r.folder(ctx, e.Hash.String(), above+e.Name+"/", fn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// authored matches an author line as git writes it.
var authored = regexp.MustCompile(`^author ([^<>\s](?:[^<>\n]*[^<>\s])?) <([^<>\s]+)> (\d{1,10}) [+-]\d{4}\n`)

// mostCompared bounds, like mostWork, how much is read to count a commit's files.
const mostCompared = 1 << 20

// logged is a commit as in git log, with the number of files changed against its first parent.
func (r *reader) logged(ctx context.Context, id string) (c workspaces.Commit, err error) {
	r.left = min(r.left, mostCompared)
	kind, content, err := r.object(ctx, id)
	if err != nil || kind != plumbing.CommitObject || r.shallow || bytes.ContainsAny(content, "\x00\r\v\f") {
		return c, errors.Join(errNotInProcess, err)
	}
	parents, rest, err := parentsIn(string(content))
	if err != nil {
		return c, err
	}
	head, message, ok := strings.Cut(rest, "\n\n")
	author := authored.FindStringSubmatch(head + "\n")
	if !ok || author == nil || strings.Contains(head, "\nencoding ") {
		return c, errNotInProcess
	}
	at, err := strconv.ParseInt(author[3], 10, 64)
	if err != nil {
		return c, err
	}
	var subject []string
	lines := strings.SplitAfter(message, "\n")
	blank := func() bool { return len(lines) > 0 && strings.Trim(lines[0], " \t\n") == "" }
	for ; blank(); lines = lines[1:] {
	}
	for ; len(lines) > 0 && !blank(); lines = lines[1:] {
		subject = append(subject, strings.TrimRight(lines[0], " \t\n"))
	}
	c = workspaces.Commit{Commit: id, Parents: append([]string{}, parents...), Author: hostgit.Clean(author[1]), Email: hostgit.Clean(author[2]), At: at * 1000,
		Subject: hostgit.Clean(strings.Join(subject, " ")), Body: strings.ToValidUTF8(strings.TrimSpace(strings.Join(lines, "")), "\uFFFD")}
	tree, err := r.treeOf(ctx, id)
	before := ""
	if err == nil && len(parents) > 0 {
		before, err = r.treeOf(ctx, parents[0])
	}
	if err == nil {
		c.Files, err = r.changed(ctx, before, tree)
	}
	return c, err
}

// changed counts the files in which two trees differ, "" being an empty one. A file that became a folder counts as deleted.
func (r *reader) changed(ctx context.Context, before, now string) (n int, err error) {
	if before == now {
		return 0, nil
	}
	was := make(map[string]object.TreeEntry)
	key := func(e object.TreeEntry) string {
		if e.Mode == filemode.Dir {
			return e.Name + "/"
		}
		return e.Name
	}
	differ := func(a, b object.TreeEntry, folder bool) error {
		if !folder {
			n++
			return nil
		}
		id := func(e object.TreeEntry) string {
			if e.Name == "" {
				return ""
			}
			return e.Hash.String()
		}
		below, err := r.changed(ctx, id(a), id(b))
		n += below
		return err
	}
	if before != "" {
		entries, err := r.tree(ctx, before)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			was[key(e)] = e
		}
	}
	if now != "" {
		entries, err := r.tree(ctx, now)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			old := was[key(e)]
			delete(was, key(e))
			if old == e {
				continue
			}
			if err := differ(old, e, e.Mode == filemode.Dir); err != nil {
				return 0, err
			}
		}
	}
	for _, e := range was {
		if err := differ(e, object.TreeEntry{}, e.Mode == filemode.Dir); err != nil {
			return 0, err
		}
	}
	return n, nil
}
