package workspaces_test

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/assembly"
)

// Every function of these packages that calls git on the host is run next to attacks that try to run a program there, or to lie:
// a new one fails here until it is tried, too.
func TestHostileGit(t *testing.T) {
	t.Parallel()
	calls := newHostCalls()
	t.Run("tricks", func(t *testing.T) {
		for name, try := range map[string]func(*testing.T, *hostCalls){
			"without walls": noTrickRuns, "lies": noLieIsBelieved, "from a sandbox": noAttackRuns,
			"to another disk": noTrickTravels, "from a machine": noTrickBorrows,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				try(t, calls)
			})
		}
	})
	if f := flag.Lookup("test.run"); f != nil && strings.Contains(f.Value.String(), "/") {
		return // only some of them were tried
	}
	all, missed := calls.missed(t)
	for name, why := range triedElsewhere {
		if !slices.Contains(all, name) {
			t.Errorf("%s is no more: the list is to forget it (%s)", name, why)
		}
		missed = slices.DeleteFunc(missed, func(m string) bool { return m == name })
	}
	for _, name := range missed {
		t.Errorf("%s calls git on the host, and no trick was tried beside it", name)
	}
}

// triedElsewhere are calls that these tests do not make, and why that is no gap.
var triedElsewhere = map[string]string{
	"snapshot/loop.packSnaps":            "it takes 500 snapshots: the call itself is made in partPaths",
	"snapshot/read.storeSmall":           "it takes 32 MiB of small files: it is the call of snapshot/read.write",
	"merge/rebase.emptyCommit":           "an empty tree in a scratch repository, as snapshot/timeline.emptyTree makes it",
	"git/disk.HoldsTrash":                "it is asked of clones that failed: names of refs, as git/refs.HiddenRefs asks for them",
	"snapshot/restore.StillAs":           "it asks for the size of a file that is large",
	"ingest/left.savedAlready":           "only where work was fetched in between: trees of two commits",
	"snapshot/patch.Patch":               "git runs in the goroutine of gitReader, which is tried: every trick's patch is read",
	"sandboxgit/alternates.packTogether": "it takes 50 packs: they are joined in a scratch repository over a folder of the server's own",
}

// aboveGit are folders whose code runs no git of its own, or is about other things than one workspace's repository and has tests of its own.
var aboveGit = []string{"assembly", "checks", "disk", "forge", "reviews"}

// hostCalls records which functions that work on workspaces called git on the host: it is their log, which receives each call in the
// goroutine that makes it.
type hostCalls struct {
	mu   sync.Mutex
	made map[string]bool // "folder/file.go:line" of every function on the way to a call
}

func newHostCalls() *hostCalls { return &hostCalls{made: make(map[string]bool)} }

// hear makes this the log of cfg.
func (c *hostCalls) hear(cfg *assembly.Config) { cfg.Log = slog.New(c) }

func (c *hostCalls) Enabled(context.Context, slog.Level) bool { return true }

func (c *hostCalls) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *hostCalls) WithGroup(string) slog.Handler { return c }

func (c *hostCalls) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "git" {
		return nil
	}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		f, more := frames.Next()
		if _, in, ok := strings.Cut(f.Function, "/workspaces/"); ok { // such as git.(*Repo).Fetch
			folder, _, _ := strings.Cut(in, ".")
			c.made[fmt.Sprintf("%s/%s:%d", folder, filepath.Base(f.File), f.Line)] = true
		}
		if !more {
			return nil
		}
	}
}

// missed lists the functions whose source calls git on the host, and those of them that were not run.
func (c *hostCalls) missed(t *testing.T) (all, missed []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := make(map[string][]int)
	for at := range c.made {
		name, line, _ := strings.Cut(at, ":")
		var n int
		_, err := fmt.Sscan(line, &n)
		wstest.Must(t, err)
		lines[name] = append(lines[name], n)
	}
	sources, err := filepath.Glob("*/*.go")
	wstest.Must(t, err)
	sources = slices.DeleteFunc(sources, func(name string) bool { return slices.Contains(aboveGit, filepath.Dir(name)) })
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		wstest.Must(t, err)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || returnsCall(fn) || !callsGit(fn.Body) {
				continue
			}
			all = append(all, strings.TrimSuffix(name, ".go")+"."+fn.Name.Name)
			from, to := set.Position(fn.Pos()).Line, set.Position(fn.End()).Line
			if !slices.ContainsFunc(lines[name], func(n int) bool { return from <= n && n <= to }) {
				missed = append(missed, all[len(all)-1])
			}
		}
	}
	return all, missed
}

// returnsCall reports whether a function only builds a Call.
func returnsCall(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil {
		return false
	}
	t, ok := fn.Type.Results.List[0].Type.(*ast.SelectorExpr)
	return ok && t.Sel.Name == "Call"
}

// callsGit reports whether a function calls git on the host: it fills in a hostgit.Call, or calls git or a scratch repository.
func callsGit(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if t, ok := n.Type.(*ast.SelectorExpr); ok && t.Sel.Name == "Call" {
				found = true
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Run", "Text", "OK", "Scratch", "ScratchOver", "Quarantine"}, called.Sel.Name) {
				break
			}
			switch on := called.X.(type) {
			case *ast.SelectorExpr:
				found = found || on.Sel.Name == "git" || strings.EqualFold(on.Sel.Name, "scratch")
			case *ast.Ident:
				found = found || on.Name == "git" || on.Name == "scratch"
			}
		}
		return !found
	})
	return found
}
