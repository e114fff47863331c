package repository

import (
	"context"
	"path"
	"strings"
)

// Bounds of instructions.
const (
	maxImports     = 8 // files that one file imports, also those that they import
	importDepth    = 3
	maxInstruction = 2 * MaxFile // bytes of a file with what it imports
	maxFolders     = 16          // folders above a path
)

// Instructions returns the instructions of folders, "" being the root of the worktree: AGENTS.md or else CLAUDE.md, and in the root
// .parawork/AGENTS.md as well. A line that is @ and the path of a file is replaced by this file, if it is in the worktree.
func (r *Reader) Instructions(ctx context.Context, workspaceID string, folders ...string) ([]File, error) {
	w, err := r.begin(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	defer w.done()
	return w.instructions(ctx, folders)
}

// Near returns the instructions of the folders above paths, the outermost first, without those of the root. claim is asked once for each
// folder, and returns false for one whose instructions are not wanted. Paths are relative to the worktree, or absolute below it.
func (r *Reader) Near(ctx context.Context, workspaceID string, paths []string, claim func(folder string) bool) ([]File, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	w, err := r.begin(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	defer w.done()
	var folders []string
	for _, p := range paths {
		for _, f := range Above(w.place.Hello.Root, p) {
			if claim(f) {
				folders = append(folders, f)
			}
		}
	}
	return w.instructions(ctx, folders)
}

// Above returns the folders of the worktree that are above a path, and the path itself, which may be a folder; the outermost first,
// without the root. A path outside the worktree has none.
func Above(root, p string) (folders []string) {
	if path.IsAbs(p) {
		below, ok := strings.CutPrefix(path.Clean(p), strings.TrimSuffix(path.Clean(root), "/")+"/")
		if !ok {
			return nil
		}
		p = below
	}
	p = path.Clean(p)
	if p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, ".git/") || p == ".git" {
		return nil
	}
	parts := strings.Split(p, "/")
	for i := range min(len(parts), maxFolders) {
		folders = append(folders, strings.Join(parts[:i+1], "/"))
	}
	return folders
}

func (w *work) instructions(ctx context.Context, folders []string) ([]File, error) {
	found := make([][]File, len(folders))
	err := each(len(folders), func(i int) error {
		rows := [][]string{{path.Join(folders[i], "AGENTS.md"), path.Join(folders[i], "CLAUDE.md")}}
		if folders[i] == "" {
			rows = append(rows, []string{".parawork/AGENTS.md"})
		}
		for _, names := range rows {
			for _, name := range names { // the first that exists counts
				text, ok, err := w.read(ctx, name)
				if err != nil {
					return err
				}
				if !ok || strings.TrimSpace(text) == "" {
					continue
				}
				in := importer{w: w, seen: map[string]bool{name: true}}
				if text, err = in.expand(ctx, path.Dir(name), text, importDepth); err != nil {
					return err
				}
				found[i] = append(found[i], File{name, strings.TrimSpace(text)})
				break
			}
		}
		return nil
	})
	var out []File
	for _, f := range found {
		out = append(out, f...)
	}
	return out, err
}

// importer replaces the import lines of a file.
type importer struct {
	w     *work
	seen  map[string]bool
	bytes int
}

// expand replaces the lines of a text that import files of the worktree. Other import lines, and those in blocks of code, stay.
func (in *importer) expand(ctx context.Context, folder, text string, depth int) (string, error) {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		word := strings.TrimSpace(line)
		if strings.HasPrefix(word, "```") || strings.HasPrefix(word, "~~~") {
			fenced = !fenced
		}
		name, is := strings.CutPrefix(word, "@")
		if target := path.Join(folder, name); is && !fenced && depth > 0 && importable(name, target) && !in.seen[target] && len(in.seen) <= maxImports && in.bytes < maxInstruction {
			in.seen[target] = true
			got, ok, err := in.w.read(ctx, target)
			if err != nil {
				return "", err
			}
			if ok {
				in.bytes += len(got)
				if got, err = in.expand(ctx, path.Dir(target), got, depth-1); err != nil {
					return "", err
				}
				b.WriteString(strings.TrimRight(got, "\n") + "\n")
				continue
			}
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

// importable reports whether an import names a file of the worktree.
func importable(name, target string) bool {
	return name != "" && !strings.ContainsAny(name, " \t") && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "~") &&
		target != ".." && !strings.HasPrefix(target, "../") && target != ".git" && !strings.HasPrefix(target, ".git/")
}
