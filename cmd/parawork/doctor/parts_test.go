package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/images/recipe"
	guestbrowser "github.com/parawork/parawork/guest/browser"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/desktop"
	"github.com/parawork/parawork/tools/lsp/languages"
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
		"apt-get install -y --no-install-recommends python3-ipython python3-matplotlib python3-munkres python3-pandas",
		"Python's language server: basedpyright-langserver or pyright-langserver was not found",
		"npm install --global pyright@",
		"Go's language server: gopls was not found",
		"rustup component add rust-analyzer",
		"the desktop's windows: openbox was not found",
		"One command for all of it: parawork image --host --with code,lsp,desktop\n",
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

// What tools look for in a sandbox, a part of the recipe installs, and with it every image and the doctor's advice.
func TestEveryProgramOfToolsHasAPart(t *testing.T) {
	partOf := func(program string) string {
		for _, p := range recipe.Parts() {
			if slices.Contains(p.Programs, program) {
				return p.Set
			}
		}
		return "none"
	}
	for set, list := range map[string][]tools.Tool{"browser": new(browser.Service).Tools(), "desktop": new(desktop.Service).Tools()} {
		for _, tool := range list {
			for _, program := range tool.Spec().Needs.ImageParts {
				if got := partOf(program); got != set {
					t.Errorf("%s needs %s, which is in the set %q", tool.Spec().Name, program, got)
				}
			}
		}
	}
	for _, l := range languages.All() {
		if !slices.ContainsFunc(l.Candidates, func(c languages.Candidate) bool { return partOf(c.Program) == "lsp" }) {
			t.Errorf("no part installs a language server for %s", l.Title)
		}
	}
	for _, p := range recipe.Parts() {
		if p.Set != "browser" {
			continue
		}
		for _, program := range p.Programs { // as the guest finds it
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := guestbrowser.Find(dir); err != nil {
				t.Errorf("the guest does not take %s for a browser: %v", program, err)
			}
		}
	}
}
