package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The doctor names each part that is missing, and the command that installs it.
func TestMissingPartsAreNamedWithTheirInstallation(t *testing.T) {
	dir := t.TempDir()
	// A python3 that has every module but pandas.
	python := "#!/bin/sh\ncase \"$2\" in *pandas*) exit 1;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(python), 0o755); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{"python3": true, "node": true, "rg": true, "tsc": true, "google-chrome": true, "Xvnc": true}
	find := func(name string) (string, error) {
		if !have[name] {
			return "", errors.New("not found")
		}
		return filepath.Join(dir, name), nil
	}
	var out strings.Builder
	r := &report{out: &out}
	r.parts(t.Context(), find)
	for _, want := range []string{
		"IPython, figures and tables (run_code): python3 has no pandas on this machine",
		"apt-get install -y --no-install-recommends python3-ipython python3-matplotlib python3-pandas",
		"Python's language server: basedpyright-langserver or pyright-langserver was not found",
		"npm install --global pyright@",
		"Go's language server: gopls was not found",
		"rustup component add rust-analyzer",
		"the desktop's windows: openbox was not found",
		"Python (run_code), JavaScript (run_code), search (ripgrep), TypeScript's language server, the browser, the desktop\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	if r.failed != 0 || r.notes != 5 {
		t.Errorf("%d failures and %d notes", r.failed, r.notes)
	}
}
