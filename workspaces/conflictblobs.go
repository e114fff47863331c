package workspaces

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
)

// indexNow looks paths up in the agent's index; what is in conflict there is none.
func (b *Sandbox) indexNow(ctx context.Context, paths []string) (map[string]fileEntry, error) {
	said, err := b.indexSaid(ctx, paths)
	if err != nil {
		return nil, err
	}
	out := make(map[string]fileEntry)
	for _, e := range SplitZero(said) {
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 || !IsCommitID(f[1]) {
			return nil, fmt.Errorf("box: ls-files answered %q", e)
		}
		if f[2] == "0" {
			out[name] = fileEntry{mode: f[0], oid: f[1], size: -1}
		}
	}
	return out, nil
}

// indexSaid is what the agent's index says of paths, to tell when it says something else.
func (b *Sandbox) indexSaid(ctx context.Context, paths []string) (said string, err error) {
	err = eachBatch(paths, func(some []string) error {
		list, err := b.Git(ctx, nil, append([]string{"ls-files", "-s", "-z", "--"}, some...)...)
		said += list
		return SandboxFault(err, "worktree_unreadable", "Reading the index")
	})
	return said, err
}

// blobs lists the contents of all sides.
func blobs(all map[string][4]fileEntry) []string {
	seen := make(map[string]bool)
	for _, st := range all {
		for _, e := range st {
			if e.is() && !e.module() {
				seen[e.oid] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (b *Sandbox) blobSizes(ctx context.Context, all map[string][4]fileEntry) (map[string]int64, error) {
	oids := blobs(all)
	out := make(map[string]int64, len(oids))
	if len(oids) == 0 {
		return out, nil
	}
	said, err := b.Git(ctx, []byte(strings.Join(oids, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, SandboxFault(err, "worktree_unreadable", "Reading the files in conflict")
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

// textBlobs says which contents have lines, as git tells them from binary ones.
func (b *Sandbox) textBlobs(ctx context.Context, all map[string][4]fileEntry) (map[string]bool, error) {
	out := make(map[string]bool)
	err := eachBatch(blobs(all), func(some []string) error {
		said, err := b.Git(ctx, nil, append([]string{"grep", "-I", "--files-with-matches", "-z", "--no-color", "-e", ""}, some...)...)
		if err != nil && boxCode(err) != 1 {
			return SandboxFault(err, "worktree_unreadable", "Reading the files in conflict")
		}
		for _, oid := range SplitZero(said) {
			out[oid] = true
		}
		return nil
	})
	return out, err
}

// conflictBlob reads a content where the agent works, as it is written into the file where out says so.
func (b *Sandbox) conflictBlob(ctx context.Context, name string, e fileEntry, out bool) ([]byte, error) {
	args := []string{"cat-file", "blob", e.oid}
	if out {
		args = []string{"cat-file", "--filters", "--path=" + name, e.oid}
	}
	if e.size > maxFiltered {
		return nil, fault.New(fault.TooLarge, "file_too_large", "%q is larger than 48 MiB. Decide it in a terminal: git checkout --ours or --theirs, then git add.", name).With("path", guest.EncodePath(name))
	}
	r, err := b.run(ctx, executors.BoxCommand{Argv: b.argv(args...)})
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 {
		return nil, SandboxFault(&boxError{sub: "cat-file", result: r}, "worktree_unreadable", "Reading a file in conflict")
	}
	if !out && gitName(e.oid, r.Stdout) != e.oid {
		return nil, fmt.Errorf("box: cat-file answered other bytes than %s", e.oid)
	}
	return r.Stdout, nil
}
