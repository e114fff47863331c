package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// pagesOf returns the Markdown pages below dir by their path from the root, without what others wrote.
func pagesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, dir), func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "data" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	fence      = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```\\s*$")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInTitle = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are what the headings of a page can be linked by, as GitHub makes them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.SplitSeq(fence.ReplaceAllString(text, ""), "\n") {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			name := strings.ReplaceAll(notInTitle.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
			anchor := name
			for n := 1; out[anchor]; n++ {
				anchor = name + "-" + strconv.Itoa(n)
			}
			out[anchor] = true
		}
	}
	return out
}

// A reader finds every page from the index, once, and no link leads nowhere.
func TestPagesAreLinked(t *testing.T) {
	t.Parallel()
	pages := pagesOf(t, ".")
	for name, text := range pages {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %q: %v", name, m[1], err)
				continue
			}
			if to.Scheme != "" || strings.HasPrefix(to.Path, "/") {
				continue
			}
			file := name
			if to.Path != "" {
				file = filepath.Join(filepath.Dir(name), to.Path)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if to.Fragment != "" && !anchors(pages[file])[to.Fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", name, m[1], file)
			}
		}
	}
	const index = "docs/README.md"
	times := map[string]int{}
	for _, m := range link.FindAllStringSubmatch(pages[index], -1) {
		times[filepath.Join("docs", m[1])]++
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && name != index && times[name] != 1 {
			t.Errorf("%s names %s %d times: list every page once", index, name, times[name])
		}
	}
}

// declared returns, by package name, what the packages of this module declare, and the names of all tests.
func declared(t *testing.T) (names map[string]map[string]bool, tests map[string]bool) {
	t.Helper()
	names, tests = map[string]map[string]bool{}, map[string]bool{}
	for _, p := range list(t, nil, "./...") {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if names[p.Name] == nil {
			names[p.Name] = map[string]bool{}
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					names[p.Name][d.Name.Name] = true
					tests[d.Name.Name] = tests[d.Name.Name] || strings.HasSuffix(file, "_test.go")
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if ts, ok := s.(*ast.TypeSpec); ok {
							names[p.Name][ts.Name.Name] = true
						}
					}
				}
			}
		}
	}
	return names, tests
}

var (
	testName  = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
	goName    = regexp.MustCompile(`^([a-z]\w*)((?:\.[A-Z]\w*)+)$`)
	pathInTop = regexp.MustCompile(`^([a-z][\w-]*)(/[\w.-]+)*/?$`)
)

// Pages for those who change the program name files, packages, functions and tests: all of them exist.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	names, tests := declared(t)
	pages := pagesOf(t, "docs/flows")
	for _, name := range []string{"CONTRIBUTING.md", "docs/architecture.md", "docs/performance.md", "docs/testing.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	top := map[string]bool{}
	for _, e := range entries {
		top[e.Name()] = e.IsDir()
	}
	looked := 0
	for page, text := range pages {
		for _, m := range codeSpan.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			said := m[1]
			if testName.MatchString(said) {
				looked++
				if !tests[said] {
					t.Errorf("%s names the test %s, which does not exist", page, said)
				}
			} else if g := goName.FindStringSubmatch(said); g != nil && names[g[1]] != nil {
				looked++
				for part := range strings.SplitSeq(g[2][1:], ".") {
					if !names[g[1]][part] {
						t.Errorf("%s names %s: package %s declares no %s", page, said, g[1], part)
					}
				}
			} else if p := pathInTop.FindStringSubmatch(said); p != nil && top[p[1]] && strings.Contains(said, "/") && p[1] != "data" {
				looked++
				if _, err := os.Stat(filepath.Join(root, said)); err != nil {
					t.Errorf("%s names %s, which does not exist", page, said)
				}
			}
		}
	}
	if looked < 200 {
		t.Errorf("only %d names were found", looked)
	}
}

// Operators compare executors on one page: each kind has its row there.
func TestEveryExecutorIsDocumented(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for dir, p := range list(t, nil, "./executors/...") {
		if dir == "./executors/fake" {
			continue
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.CONST {
					continue
				}
				for _, s := range g.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && isKind(v.Type) && len(v.Values) == 1 {
						if kind, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value); err == nil && v.Names[0].Name != "Auto" {
							kinds[kind] = true
						}
					}
				}
			}
		}
	}
	if len(kinds) < 5 {
		t.Fatalf("found only %q", slices.Sorted(maps.Keys(kinds)))
	}
	const page = "docs/isolation.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for kind := range kinds {
		if !strings.Contains(string(text), "\n| `"+kind+"` |") {
			t.Errorf("%s has no row for the executor %s", page, kind)
		}
	}
}

// isKind tells whether a constant is of type Kind or executors.Kind.
func isKind(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "Kind"
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && x.Name == "executors" && e.Sel.Name == "Kind"
	}
	return false
}
