package conflict

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/stage"
)

// indexNow looks up paths in the agent's index; it returns none that are in conflict.
func indexNow(ctx context.Context, b *sandboxgit.Sandbox, paths []string) (map[string]git.FileEntry, error) {
	said, err := indexSaid(ctx, b, paths)
	if err != nil {
		return nil, err
	}
	out := make(map[string]git.FileEntry)
	for _, e := range git.SplitZero(said) {
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 || !git.IsCommitID(f[1]) {
			return nil, fmt.Errorf("sandbox: ls-files answered %q", e)
		}
		if f[2] == "0" {
			out[name] = git.FileEntry{Mode: f[0], OID: f[1], Size: -1}
		}
	}
	return out, nil
}

// indexSaid is the state of paths in the agent's index, used to detect changes.
func indexSaid(ctx context.Context, b *sandboxgit.Sandbox, paths []string) (said string, err error) {
	err = git.EachBatch(paths, func(some []string) error {
		list, err := b.Git(ctx, nil, append([]string{"ls-files", "-s", "-z", "--"}, some...)...)
		said += list
		return git.SandboxFault(err, "worktree_unreadable", "Reading the index")
	})
	return said, err
}

// blobs lists the contents of all sides.
func blobs(all map[string][4]git.FileEntry) []string {
	seen := make(map[string]bool)
	for _, st := range all {
		for _, e := range st {
			if e.Is() && !e.Module() {
				seen[e.OID] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func blobSizes(ctx context.Context, b *sandboxgit.Sandbox, all map[string][4]git.FileEntry) (map[string]int64, error) {
	oids := blobs(all)
	out := make(map[string]int64, len(oids))
	if len(oids) == 0 {
		return out, nil
	}
	said, err := b.Git(ctx, []byte(strings.Join(oids, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the files in conflict")
	}
	for line := range strings.Lines(said) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "blob" {
			if n, err := strconv.ParseInt(f[2], 10, 64); err == nil && n >= 0 {
				out[f[0]] = n
			}
		}
	}
	return out, nil
}

// textBlobs reports which contents git treats as text.
func textBlobs(ctx context.Context, b *sandboxgit.Sandbox, all map[string][4]git.FileEntry) (map[string]bool, error) {
	out := make(map[string]bool)
	err := git.EachBatch(blobs(all), func(some []string) error {
		said, err := b.Git(ctx, nil, append([]string{"grep", "-I", "--files-with-matches", "-z", "--no-color", "-e", ""}, some...)...)
		if err != nil && git.ExitCode(err) != 1 {
			return git.SandboxFault(err, "worktree_unreadable", "Reading the files in conflict")
		}
		for _, oid := range git.SplitZero(said) {
			out[oid] = true
		}
		return nil
	})
	return out, err
}

// conflictBlob reads a content in the sandbox, converted as git would write it to the file out, if set.
func conflictBlob(ctx context.Context, b *sandboxgit.Sandbox, name string, e git.FileEntry, out bool) ([]byte, error) {
	args := []string{"cat-file", "blob", e.OID}
	if out {
		args = []string{"cat-file", "--filters", "--path=" + name, e.OID}
	}
	if e.Size > stage.MaxFiltered {
		return nil, fault.New(fault.TooLarge, "file_too_large", "%q is larger than 48 MiB. Decide it in a terminal: git checkout --ours or --theirs, then git add.", name).With("path", guest.EncodePath(name))
	}
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: b.Argv(args...)})
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 {
		return nil, git.SandboxFault(&git.CommandError{Sub: "cat-file", Result: r}, "worktree_unreadable", "Reading a file in conflict")
	}
	if !out && git.GitName(e.OID, r.Stdout) != e.OID {
		return nil, fmt.Errorf("sandbox: cat-file answered other bytes than %s", e.OID)
	}
	return r.Stdout, nil
}
