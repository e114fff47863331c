package arch_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a reader can hold in mind: a newcomer reads a package in an afternoon and a type in an hour.
const (
	mostFiles   = 35   // of a package, without tests and generated ones
	mostLines   = 6000 // of a package, likewise
	mostMethods = 80   // of a type
	mostAsked   = 9    // methods of an interface
	mostFolders = 21   // at the root: cluster is still to come
)

// tooLarge are the packages, types and interfaces beyond that, with what they have now: they may shrink and never grow. Lower a number when
// it fell; an entry that is not needed any more fails. Lines are rounded up to the next 200. "to be split" is no reason to stay.
var tooLarge = map[string]struct {
	has int
	why string
}{
	"files ./store":                          {65, "one file for each topic: all SQL is here"},
	"files ./guest/daemon":                   {38, "the guest is one daemon with one lifecycle; its parts are files"},
	"lines ./store":                          {9050, "one file for each topic: all SQL is here"},
	"methods ./sessions/screen.Screen":       {105, "a terminal is one state machine: what it holds changes together"},
	"methods ./executors/e2b/e2btest.Server": {98, "a stand-in: one method for each call of the real service"},
	"methods ./store.Accounts":               {94, "all SQL is in store: one method for each statement"},
	"methods ./testing/teststripe.Stripe":    {93, "a stand-in: one method for each call of the real service"},
	"methods ./guest/daemon.Daemon":          {86, "the guest is one daemon with one lifecycle; its parts are files"},
	"asked ./internal/cgroup.fsys":           {10, "what of the file system is used, for tests"},
}

// shape is what there is of each thing that has a bound.
type shape map[string]int

// measure counts what is in the packages.
func measure(t *testing.T, all map[string]pkg) map[string]shape {
	t.Helper()
	out := map[string]shape{"files": {}, "lines": {}, "methods": {}, "asked": {}}
	for path, p := range all {
		for _, name := range p.GoFiles {
			if strings.HasSuffix(name, ".gen.go") {
				continue
			}
			file := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			out["files"][path]++
			out["lines"][path] += bytes.Count(src, []byte("\n"))
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv != nil {
						out["methods"][path+"."+receiver(d.Recv.List[0].Type)]++
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if ts, ok := s.(*ast.TypeSpec); ok {
							if it, ok := ts.Type.(*ast.InterfaceType); ok {
								out["asked"][path+"."+ts.Name.Name] = methods(it)
							}
						}
					}
				}
			}
		}
	}
	return out
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// methods counts what an interface asks for by name; embedded ones are counted where they are declared.
func methods(it *ast.InterfaceType) (n int) {
	for _, m := range it.Methods.List {
		n += len(m.Names)
	}
	return n
}

// Packages, types and interfaces have bounds, and what is beyond them does not grow. `go test ./internal/arch -run Shape -v` prints the largest.
func TestShape(t *testing.T) {
	t.Parallel()
	most := map[string]int{"files": mostFiles, "lines": mostLines, "methods": mostMethods, "asked": mostAsked}
	seen := map[string]bool{}
	for what, counts := range measure(t, list(t, nil, "./...")) {
		names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
		for i, name := range names {
			if i < 5 {
				t.Logf("%-8s %6d  %s", what, counts[name], name)
			}
			key := what + " " + name
			seen[key] = true
			allowed, listed := tooLarge[key]
			switch n := counts[name]; {
			case n <= most[what] && listed:
				t.Errorf("%s has %d now, within the bound of %d: take it out of tooLarge", key, n, most[what])
			case n > most[what] && !listed:
				t.Errorf("%s has %d, more than %d: split it, or give it a reason in tooLarge", key, n, most[what])
			case listed && n > allowed.has:
				t.Errorf("%s has %d, more than the %d it had: what is too large does not grow", key, n, allowed.has)
			}
		}
	}
	for key := range tooLarge {
		if !seen[key] {
			t.Errorf("%s is in tooLarge and does not exist", key)
		}
	}
}

// The tree shows the design: few folders at the root. Later ones are agent, automations and cluster; nobody else adds one.
func TestRootFolders(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if name := e.Name(); e.IsDir() && !strings.HasPrefix(name, ".") && name != "bin" && name != "data" && name != "node_modules" { // these are made by building and running
			out = append(out, name)
		}
	}
	t.Logf("folders  %6d  %s", len(out), fmt.Sprint(out))
	if len(out) > mostFolders {
		t.Errorf("%d folders at the root, more than %d: %v", len(out), mostFolders, out)
	}
}
