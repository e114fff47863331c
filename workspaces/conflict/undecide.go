package conflict

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/stage"
)

// undo reopens a decided conflict: it restores the stages in the index and the files.
func (d *deciding) undo(ctx context.Context, c *OpenConflict) error {
	names := c.touched()
	said, err := indexSaid(ctx, d.b, names)
	if err != nil {
		return err
	}
	var was map[string]git.FileEntry
	if d.from.ID != "" {
		if was, err = d.s.repo.TreeFiles(ctx, d.p, d.from.Commit, names); err != nil {
			return err
		}
	}
	merged := make(map[string][]byte)
	for _, name := range names {
		if d.from.ID == "" && c.text() && slices.Contains(c.paths, name) {
			if merged[name], err = remerge(ctx, d.b, c); err != nil {
				return err
			}
		}
	}
	err = d.write(ctx, c, names, func(name string) (git.FileEntry, func(context.Context, bool) ([]byte, error)) {
		if d.from.ID != "" {
			e := was[name]
			return e, func(ctx context.Context, filtered bool) ([]byte, error) { return d.restored(ctx, name, e, filtered) }
		}
		st := c.stages[name]
		e := st[2]
		if !e.Is() {
			e = st[3]
		}
		e.Size = max(sizeOf(c, e), 0)
		if text, ok := merged[name]; ok {
			e = git.FileEntry{Mode: e.Mode, OID: git.GitName(d.b.Like, text), Size: int64(len(text))}
			return e, func(context.Context, bool) ([]byte, error) { return text, nil }
		}
		return e, func(ctx context.Context, filtered bool) ([]byte, error) {
			return conflictBlob(ctx, d.b, name, e, filtered)
		}
	})
	if err != nil {
		return err
	}
	var in bytes.Buffer
	for _, name := range names {
		fmt.Fprintf(&in, "0 %s\t%s\x00", strings.Repeat("0", len(d.b.Like)), name)
		for side, e := range c.stages[name] {
			if e.Is() {
				fmt.Fprintf(&in, "%s %s %d\t%s\x00", e.Mode, e.OID, side, name)
			}
		}
	}
	return d.index(c, d.b.SetIndexTo(ctx, names, said, in.Bytes(), stage.IndexTries))
}

// restored reads a file of a snapshot.
func (d *deciding) restored(ctx context.Context, name string, e git.FileEntry, filtered bool) ([]byte, error) {
	if e.Size > stage.MaxFiltered {
		return nil, fault.New(fault.TooLarge, "file_too_large", "%q is larger than 48 MiB. Restore it from the timeline.", name).With("path", guest.EncodePath(name))
	}
	var out bytes.Buffer
	if err := d.s.stage.CommitBlob(ctx, d.p, e, func(r io.Reader) error { _, err := io.Copy(&out, r); return err }); err != nil {
		return nil, err
	}
	if !filtered {
		return out.Bytes(), nil
	}
	oid, err := d.b.PutBlob(ctx, out.Bytes())
	if err != nil {
		return nil, err
	}
	return conflictBlob(ctx, d.b, name, git.FileEntry{Mode: e.Mode, OID: oid, Size: e.Size}, true)
}

// remerge writes both sides of a text between conflict markers, as git did when it stopped.
func remerge(ctx context.Context, b *sandboxgit.Sandbox, c *OpenConflict) ([]byte, error) {
	st := c.stages[c.paths[0]]
	was := st[1].OID
	if was == "" {
		empty, err := b.PutBlob(ctx, nil)
		if err != nil {
			return nil, err
		}
		was = empty
	}
	out, err := b.Sh(ctx, remergeScript, b.GitDir, st[2].OID, was, st[3].OID, c.Path)
	return []byte(out), err
}

// remergeScript merges three contents in temporary files: git merge-file exits with the number of conflicts.
const remergeScript = `t=$(mktemp -d "$1/parawork-merge-XXXXXX") || exit 74
trap 'rm -rf "$t"' EXIT
git cat-file --filters --path="$5" "$2" > "$t/ours" && git cat-file --filters --path="$5" "$3" > "$t/was" && git cat-file --filters --path="$5" "$4" > "$t/theirs" || exit 74
git merge-file -p -q -L ours -L base -L theirs "$t/ours" "$t/was" "$t/theirs"
[ $? -lt 128 ]`
