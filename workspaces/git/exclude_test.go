package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/workspaces/git"
)

// A line of info/exclude hides exactly the file it is for, whatever an agent called it: git itself confirms that.
func TestAnExcludedFileIsThatFileAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("init", "-q")
	names := []string{"plain", "a b", "ends ", "#hash", "!bang", `back\slash`, "star*", "what?", "[x]", "é", "raw\xff", "two\nlines", "tab\t", "return\r", "deep/er/file"}
	others := []string{"starts", "whatX", "x", "raw\uFFFD", "two", "lines", "return", "tab", "deep/file", "er/file", "other/deep/er/file", "ends"}
	for _, name := range append(append([]string{}, names...), others...) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, ".git/info/exclude"), []byte(git.ExcludePattern(name)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		hidden := strings.Split(strings.TrimSuffix(run("ls-files", "-z", "--others", "--ignored", "--exclude-standard"), "\x00"), "\x00")
		if len(hidden) != 1 || hidden[0] != name {
			t.Errorf("to hide %q hides %q", name, hidden)
		}
	}
}
