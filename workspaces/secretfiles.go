package workspaces

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
)

// SecretFiles is what a workspace was ever given of secrets: files of its worktree, and values. The files are kept out of git when they are
// written, but an agent may let git see them again, or copy what is in them: no snapshot has it, no commit comes home with it, and nobody
// reads it.
type SecretFiles struct {
	Paths  map[string]bool // raw bytes, below the worktree
	Blobs  map[string]bool // git's names of what is in them, whatever file has it
	Sums   map[string]bool // sha256 hex of the same
	Values *redact.Finder  // of values that are long enough to be looked for in files; nil = none
	Masker *redact.Masker  // of all values, for names and messages; nil = none

	hides func(value string) bool // not those that the base of the workspace shows to everybody anyway; nil = all
}

// ErrSecretFile says that nobody reads a file, because it is a secret's.
var ErrSecretFile = fault.New(fault.Forbidden, "secret_file", "This file is a secret's: sessions read it, and it is shown to nobody. Who manages the secret can replace its value.")

// ErrSecretValue says that nobody reads a file, because a secret's value is in it.
var ErrSecretValue = fault.New(fault.Forbidden, "secret_value", "This file holds a secret's value, and is shown to nobody. Have the agent read the value from its environment instead, or take it out in a terminal.")

// SecretFiles is what a workspace was ever given of secrets. On an error nothing of its files is shown or kept.
func (s *Service) SecretFiles(ctx context.Context, workspaceID string) (SecretFiles, error) {
	_, ss, err := s.Rooms()
	if err != nil {
		return SecretFiles{}, err
	}
	f, err := ss.SecretFiles(ctx, workspaceID)
	if err != nil {
		return SecretFiles{}, fault.Wrap(err, fault.Unavailable, "secrets_unknown", "What must not be shown of the workspace's secrets could not be read. Try again in a moment.")
	}
	if f.Values != nil {
		f.hides = func(value string) bool { return !s.shownByBase(ctx, workspaceID, value) }
	}
	return f, nil
}

// Some reports whether there are any files.
func (f SecretFiles) Some() bool { return len(f.Paths)+len(f.Blobs) > 0 }

// Known reports whether anything is known.
func (f SecretFiles) Known() bool { return f.Some() || f.Values != nil }

// Has reports whether a file is one of them, by its name or by git's name of its content.
func (f SecretFiles) Has(path, blob string) bool { return f.Paths[path] || blob != "" && f.Blobs[blob] }

// HasSum reports whether a file is one of them, by its name or by the sha256 (hex) of its content, "" = not known.
func (f SecretFiles) HasSum(path, sum string) bool {
	return f.Paths[path] || sum != "" && f.Sums[sum]
}

// Value reports whether a content holds a secret's value.
func (f SecretFiles) Value(content []byte) bool { return f.Values.In(content, f.hides) }

// Masked returns a text with the values of secrets masked, as what is stored and shown of names and messages.
func (f SecretFiles) Masked(text string) string {
	if f.Masker == nil {
		return text
	}
	return f.Masker.Text(text)
}

// Reader returns r with secrets' values masked in it, of equal length.
func (f SecretFiles) Reader(r io.Reader) *redact.FoundReader { return f.Values.Reader(r, f.hides) }

// maskedLines returns lines with secrets' values masked, also those of several lines.
func (f SecretFiles) maskedLines(lines []string) []string {
	if f.Values == nil || len(lines) == 0 {
		return lines
	}
	all := []byte(strings.Join(lines, ""))
	if !f.Values.Mask(all, f.hides) {
		return lines
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i], all = string(all[:len(l)]), all[len(l):]
	}
	return out
}

// ReadCloser is Reader for what is closed.
func (f SecretFiles) ReadCloser(r io.ReadCloser) io.ReadCloser {
	if f.Values == nil {
		return r
	}
	return struct {
		io.Reader
		io.Closer
	}{f.Reader(r), r}
}

// In reports whether a change shows something of one of them.
func (f SecretFiles) In(c ChangedFile) bool {
	return f.Has(c.Path, c.NewBlob) || f.Has(c.OldPath, c.OldBlob)
}

// Mark tells one such list from another.
func (f SecretFiles) Mark() string {
	return strings.Join(slices.Sorted(maps.Keys(f.Paths)), "\x00") + "\x01" + strings.Join(slices.Sorted(maps.Keys(f.Blobs)), "\x00") + "\x01" + f.Values.Mark()
}

// shownOnly lists the files of a comparison, or those of paths or below them where any is named, that show nothing of a secret's file. all says
// that this is the whole comparison.
func (f SecretFiles) shownOnly(c Comparison, paths []string) (shown []string, all bool) {
	// git takes a name for that of a folder, too, where there is one on either side: none above a secret's file is given to it.
	hidden := make(map[string]bool)
	hide := func(name string) {
		for ; name != "" && name != "." && name != "/"; name = path.Dir(name) {
			hidden[name] = true
		}
	}
	for name := range f.Paths {
		hide(name)
	}
	all = len(paths) == 0 && !c.Truncated
	for _, file := range c.Files {
		if f.In(file) {
			all = false
			hide(file.Path)
			hide(file.OldPath)
		}
	}
	asked := make(map[string]bool)
	for _, name := range paths {
		asked[path.Clean(name)] = true // as git reads it
	}
	wanted := func(name string) bool {
		for ; name != "." && name != "/"; name = path.Dir(name) {
			if asked[name] {
				return true
			}
		}
		return len(asked) == 0 || asked["."]
	}
	for _, file := range c.Files {
		if wanted(file.Path) && !hidden[file.Path] && !hidden[file.OldPath] {
			shown = append(shown, file.Path)
		}
	}
	return shown[:PatchFits(shown)], all
}

// staged lists what of secrets' files an index would commit: git runs a command of git over it. What is taken out of git by a commit is none.
func (f SecretFiles) staged(run func(args ...string) (string, error)) (names []string, was map[string]fileEntry, err error) {
	if !f.Some() {
		return nil, nil, nil
	}
	out, err := run("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", "--ignore-submodules=all", "HEAD")
	if err != nil {
		return nil, nil, SandboxFault(err, "worktree_unreadable", "Reading what is staged")
	}
	was = make(map[string]fileEntry)
	words := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		e, name := strings.Fields(strings.TrimPrefix(words[i], ":")), words[i+1]
		if len(e) != 5 || !IsCommitID(e[2]) || !IsCommitID(e[3]) {
			return nil, nil, fmt.Errorf("box: diff-index answered %q", words[i])
		}
		if e[4] == "D" || !f.Has(name, e[3]) {
			continue
		}
		names = append(names, name)
		if e[4] != "A" {
			was[name] = fileEntry{mode: e[0], oid: e[2]}
		}
	}
	return names, was, nil
}

// noSecret refuses to commit an index that has a secret's file.
func (f SecretFiles) noSecret(run func(args ...string) (string, error)) error {
	names, _, err := f.staged(run)
	if err != nil || len(names) == 0 {
		return err
	}
	return fault.New(fault.Conflict, "secret_file_staged", "%q is a secret's file, and is not committed. Have git ignore it, and take it out of what is staged: git rm --cached.", names[0]).With("paths", EncodePaths(names))
}
