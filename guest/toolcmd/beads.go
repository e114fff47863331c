package toolcmd

import (
	"os"
	"path/filepath"
	"slices"
)

// Beads is the name of the program of beads, a tracker of tasks in the repository. Agents that know it find Parawork's tasks under
// the same name.
const Beads = "bd"

// OwnBeads returns the real program of beads if it is to run instead: where the project keeps its tasks with it, in a folder .beads,
// or is about to. "" otherwise, and where that program is not installed.
func OwnBeads(dir string, args []string, path string) string {
	if !slices.Contains(args, "init") && !keepsBeads(dir) {
		return ""
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	for _, folder := range filepath.SplitList(path) {
		program := filepath.Join(folder, Beads)
		st, err := os.Stat(program)
		if err != nil || !filepath.IsAbs(program) || st.IsDir() || st.Mode()&0o111 == 0 {
			continue
		}
		if real, err := filepath.EvalSymlinks(program); err == nil && real != self {
			return program
		}
	}
	return ""
}

// keepsBeads reports whether a folder or one above it, up to the repository's, has a folder .beads.
func keepsBeads(dir string) bool {
	for {
		if st, err := os.Stat(filepath.Join(dir, ".beads")); err == nil && st.IsDir() {
			return true
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return false
		}
		above := filepath.Dir(dir)
		if above == dir {
			return false
		}
		dir = above
	}
}
