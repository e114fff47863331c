package git

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/parawork/parawork/internal/hostgit"
)

// commitOf is the commit that a name stands for, "" when there is no such ref: HEAD, a ref in full, an object, or the first parent of one.
func (r *reader) commitOf(ctx context.Context, name string) (string, error) {
	id, parent := strings.CutSuffix(name, "^1")
	if !IsCommitID(id) {
		var err error
		if parent {
			return "", errElsewhere
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
				return "", errElsewhere
			}
			id = to
			continue
		case kind != plumbing.CommitObject:
			return "", errElsewhere
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
	return "", errElsewhere
}

// parents are the parents of a commit in a history that is whole, as git reads them: what stands right below the tree.
func (r *reader) parents(ctx context.Context, id string) (ids []string, err error) {
	kind, content, err := r.object(ctx, id)
	if err != nil || kind != plumbing.CommitObject || r.shallow {
		return nil, errors.Join(errElsewhere, err)
	}
	_, rest, _ := strings.Cut(string(content), "\n")
	for strings.HasPrefix(rest, "parent ") {
		line, more, _ := strings.Cut(rest[len("parent "):], "\n")
		if _, err := hashOf(line); err != nil {
			return nil, err
		}
		ids, rest = append(ids, line), more
	}
	return ids, nil
}

// tree reads a folder as git writes one: in order, with names of one part.
func (r *reader) tree(ctx context.Context, id string) ([]object.TreeEntry, error) {
	kind, content, err := r.object(ctx, id)
	if err != nil || kind != plumbing.TreeObject {
		return nil, errors.Join(errElsewhere, err)
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
			return nil, errElsewhere
		}
		last = key
	}
	return t.Entries, nil
}

// treeOf is the tree of a commit, or of a tree itself.
func (r *reader) treeOf(ctx context.Context, id string) (string, error) {
	kind, content, err := r.object(ctx, id)
	switch {
	case err != nil:
		return "", err
	case kind == plumbing.TreeObject:
		return id, nil
	case kind != plumbing.CommitObject:
		return "", errElsewhere
	}
	line, _, _ := strings.Cut(string(content), "\n")
	tree, ok := strings.CutPrefix(line, "tree ")
	if !ok {
		return "", errElsewhere
	}
	_, err = r.tree(ctx, tree)
	return tree, err
}

// fork is where two histories part: the last commit they have in common, and how many commits each has above it.
type fork struct {
	base          string
	ahead, behind int
}

// fork is where the histories of a and b part. Both are followed as long as they are plain lines, in which there is one answer; where there are
// merges the program knows better.
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
	return fork{}, errElsewhere
}

// files are those of paths that a commit or a tree has, folders among them, in its order and as ls-tree -l lists them. With all, they are the
// files below one folder.
func (r *reader) files(ctx context.Context, id string, paths []string, all bool) (out []hostgit.TreeFile, err error) {
	if len(paths) > mostPaths {
		return nil, errElsewhere
	}
	for _, p := range paths {
		if p == "" || filepath.Clean("/"+p) != "/"+p || strings.ContainsRune(p, 0) ||
			slices.ContainsFunc(paths, func(below string) bool { return strings.HasPrefix(below, p+"/") }) { // ls-tree has its own idea of both
			return nil, errElsewhere
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
			return false, errElsewhere
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
		return nil, errElsewhere
	}
	left, out := int64(mostObject), make([][]byte, len(files))
	for i, f := range files {
		if left -= f.Size; left < 0 {
			return nil, errElsewhere
		}
		kind, content, err := r.object(ctx, f.OID)
		if err != nil || kind != plumbing.BlobObject || int64(len(content)) != f.Size {
			return nil, errors.Join(errElsewhere, err)
		}
		out[i] = content
	}
	return out, nil
}

// folder goes through the entries of a folder: fn gets each, with its whole name, and says whether to go into it.
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
