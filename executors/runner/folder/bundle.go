package folder

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// Bundle writes a git bundle of the folder's branches and tags, without what the server has. The folder's current branch comes first,
// after HEAD. It checks all that can be checked before it writes anything; on a later error the caller cuts the stream.
//
// A bundle without new objects still names the branches' commits, which git bundle itself does not do: so this code writes it.
func (f *Folders) Bundle(ctx context.Context, ask wire.BundleAsk, w io.Writer) error {
	r, err := f.open(ctx, ask.Path)
	if err != nil {
		return err
	}
	if err := r.whole(); err != nil {
		return err
	}
	refs, err := f.branches(ctx, r)
	if err != nil {
		return err
	}
	has, err := f.there(ctx, r, ask.Have)
	if err != nil {
		return err
	}
	d, err := f.scratch(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	var these, not strings.Builder
	for _, ref := range refs {
		these.WriteString(ref.id + "\n")
	}
	for id := range has {
		not.WriteString("^" + id + "\n")
	}
	var needs []string
	if len(has) > 0 {
		out, err := d.Run(ctx, hostgit.Call{Stdin: strings.NewReader(these.String() + not.String()), Max: maxWalk, Timeout: packTime, Args: []string{"rev-list", "--boundary", "--stdin"}})
		if err != nil {
			return gitFault(err, "Reading the folder's history")
		}
		for l := range strings.Lines(string(out)) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(l), "-"); ok {
				needs = append(needs, id)
			}
		}
		slices.Sort(needs)
	}
	b := bufio.NewWriterSize(w, 64<<10)
	if len(refs[0].id) == 64 {
		b.WriteString("# v3 git bundle\n@object-format=sha256\n")
	} else {
		b.WriteString("# v2 git bundle\n")
	}
	for _, id := range needs {
		fmt.Fprintf(b, "-%s\n", id)
	}
	for _, ref := range refs {
		fmt.Fprintf(b, "%s %s\n", ref.id, ref.name)
	}
	b.WriteString("\n")
	if err := b.Flush(); err != nil {
		return err
	}
	args := []string{"pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"}
	if len(has) > 0 {
		args = append(args, "--thin")
	}
	_, err = d.Run(ctx, hostgit.Call{Stdin: strings.NewReader(these.String() + not.String()), Stdout: w, Timeout: packTime, Passing: true, Args: args})
	return gitFault(err, "Packing the folder's branches")
}

// whole rejects a repository that is shallow or partial.
func (r repo) whole() error {
	switch {
	case r.shallow:
		return fault.New(fault.Conflict, "folder_shallow", "The folder's repository has only the newest part of its history. Run there: git fetch --unshallow")
	case r.partial:
		return fault.New(fault.Conflict, "folder_partial", "The folder's repository is a partial clone: git fetches its files when they are needed. Make a full clone, and allow that folder.")
	}
	return nil
}

// ref is a branch or tag by its full name, or HEAD.
type ref struct{ name, id string }

// branches returns HEAD, its branch, and the other branches and tags.
func (f *Folders) branches(ctx context.Context, r repo) ([]ref, error) {
	out, err := r.git.Run(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Args: []string{"for-each-ref", fmt.Sprintf("--count=%d", maxRefs),
		"--format=%(objectname) %(symref) %(refname)", "refs/heads", "refs/tags"}})
	if err != nil {
		return nil, gitFault(err, "Reading the folder's branches")
	}
	at, _ := r.git.Text(ctx, hostgit.Call{GitDir: r.headDir, Timeout: quickTime, Args: []string{"symbolic-ref", "--quiet", "HEAD"}})
	var first, rest []ref
	for l := range strings.Lines(string(out)) {
		c := strings.SplitN(strings.TrimSuffix(l, "\n"), " ", 3)
		if len(c) != 3 || !isCommitID(c[0]) {
			continue
		}
		switch {
		case c[2] == at:
			first = []ref{{"HEAD", c[0]}, {at, c[0]}}
		case c[1] == "": // a symbolic ref is no branch of its own
			rest = append(rest, ref{c[2], c[0]})
		}
	}
	refs := append(first, rest...)
	if len(refs) == 0 {
		return nil, fault.New(fault.Invalid, "repository_empty", "The repository is empty. Make a first commit on a branch, then try again.")
	}
	return refs, nil
}
