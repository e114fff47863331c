package secretfiles

import (
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// ErrSecretFile means that a file is a secret's, so nobody may read it.
var ErrSecretFile = fault.New(fault.Forbidden, "secret_file", "This file is a secret's: only sessions can read it. The secret's manager can replace its value.")

// ErrSecretValue means that a file contains a secret's value, so nobody may read it.
var ErrSecretValue = fault.New(fault.Forbidden, "secret_value", "This file contains a secret's value, so it is not shown. Have the agent read the value from its environment instead, or remove it in a terminal.")

// SecretFiles returns the secrets the workspace was ever given. On an error, callers show and store none of its files.
func (s *Service) SecretFiles(ctx context.Context, workspaceID string) (workspaces.SecretFiles, error) {
	_, ss, err := s.records.Connected()
	if err != nil {
		return workspaces.SecretFiles{}, err
	}
	f, err := ss.SecretFiles(ctx, workspaceID)
	if err != nil {
		return workspaces.SecretFiles{}, fault.Wrap(err, fault.Unavailable, "secrets_unknown", "The list of the workspace's secrets could not be read. Try again in a moment.")
	}
	if f.Values != nil {
		f.Hides = func(value string) bool { return !s.shownByBase(ctx, workspaceID, value) }
	}
	return f, nil
}

// Together returns the secrets of several workspaces, for what shows files of all of them; "" and repeated ids are left out. Its Masker is
// that of the first.
func (s *Service) Together(ctx context.Context, workspaceIDs ...string) (workspaces.SecretFiles, error) {
	var all workspaces.SecretFiles
	for i, id := range workspaceIDs {
		if id == "" || slices.Contains(workspaceIDs[:i], id) {
			continue
		}
		f, err := s.SecretFiles(ctx, id)
		if err != nil {
			return workspaces.SecretFiles{}, err
		}
		if i == 0 {
			all = f
			continue
		}
		all.Paths, all.Blobs, all.Sums = joined(all.Paths, f.Paths), joined(all.Blobs, f.Blobs), joined(all.Sums, f.Sums)
		switch first, then := all.Hides, f.Hides; {
		case f.Values == nil:
		case all.Values == nil:
			all.Values, all.Hides = f.Values, then
		default:
			all.Values, all.Hides = all.Values.With(f.Values), func(value string) bool { return first(value) || then(value) }
		}
	}
	return all, nil
}

func joined(a, b map[string]bool) map[string]bool {
	out := make(map[string]bool, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// Some reports whether there are any files.
func Some(f workspaces.SecretFiles) bool { return len(f.Paths)+len(f.Blobs) > 0 }

// Known reports whether there are any secrets.
func Known(f workspaces.SecretFiles) bool { return Some(f) || f.Values != nil }

// Has reports whether a file is one of them, by its name or by git's object id of its content.
func Has(f workspaces.SecretFiles, path, blob string) bool {
	return f.Paths[path] || blob != "" && f.Blobs[blob]
}

// HasSum reports whether a file is one of them, by its name or by the sha256 (hex) of its content, "" = unknown.
func HasSum(f workspaces.SecretFiles, path, sum string) bool {
	return f.Paths[path] || sum != "" && f.Sums[sum]
}

// Value reports whether a content contains a secret's value.
func Value(f workspaces.SecretFiles, content []byte) bool { return f.Values.In(content, f.Hides) }

// Masked returns a text with secrets' values masked, for stored and displayed names and messages.
func Masked(f workspaces.SecretFiles, text string) string {
	if f.Masker == nil {
		return text
	}
	return f.Masker.Text(text)
}

// Reader returns r with secrets' values masked in it, of equal length.
func Reader(f workspaces.SecretFiles, r io.Reader) *redact.FoundReader {
	return f.Values.Reader(r, f.Hides)
}

// MaskedLines returns lines with secrets' values masked, including values of several lines.
func MaskedLines(f workspaces.SecretFiles, lines []string) []string {
	if f.Values == nil || len(lines) == 0 {
		return lines
	}
	all := []byte(strings.Join(lines, ""))
	if !f.Values.Mask(all, f.Hides) {
		return lines
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i], all = string(all[:len(l)]), all[len(l):]
	}
	return out
}

// ReadCloser is Reader for a ReadCloser.
func ReadCloser(f workspaces.SecretFiles, r io.ReadCloser) io.ReadCloser {
	if f.Values == nil {
		return r
	}
	return struct {
		io.Reader
		io.Closer
	}{Reader(f, r), r}
}

// In reports whether a change exposes one of them.
func In(f workspaces.SecretFiles, c git.ChangedFile) bool {
	return Has(f, c.Path, c.NewBlob) || Has(f, c.OldPath, c.OldBlob)
}

// Mark identifies a list of secrets.
func Mark(f workspaces.SecretFiles) string {
	return strings.Join(slices.Sorted(maps.Keys(f.Paths)), "\x00") + "\x01" + strings.Join(slices.Sorted(maps.Keys(f.Blobs)), "\x00") + "\x01" + f.Values.Mark()
}

// ShownOnly lists the files of a comparison, or those of paths or below them if any is named, that expose no secret's file. all reports
// that this is the whole comparison.
func ShownOnly(f workspaces.SecretFiles, c git.Comparison, paths []string) (shown []string, all bool) {
	// git also takes a path for that of a folder, if there is one on either side: never pass it a parent of a secret's file.
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
		if In(f, file) {
			all = false
			hide(file.Path)
			hide(file.OldPath)
		}
	}
	asked := make(map[string]bool)
	for _, name := range paths {
		asked[path.Clean(name)] = true // as git sees it
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
	return shown[:git.PatchFits(shown)], all
}
