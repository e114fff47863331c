package git

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// BenchmarkReader compares what is read in this process with the same from git's program, taken in turn, in a repository of some thousand
// commits in packs: program/here is how many times as long the program takes. A bound of the reader is where it no longer wins clearly.
func BenchmarkReader(b *testing.B) {
	s := plainRepo(b)
	dir := filepath.Join(b.TempDir(), "repo.git")
	run(b, "", "", "init", "-q", "--bare", "-b", "main", dir)
	rng := rand.New(rand.NewPCG(1, 1))
	run(b, dir, history(rng, "refs/heads/main", "", 4000, 60), "fast-import", "--quiet")
	run(b, dir, "", "repack", "-adfq")
	for i := range 10 { // packs as fetches leave them
		run(b, dir, history(rng, fmt.Sprintf("refs/heads/b%d", i), fmt.Sprintf("refs/heads/main~%d", 300*i), 100, 60), "fast-import", "--quiet")
	}
	var refs strings.Builder
	tip := run(b, dir, "", "rev-parse", "main")
	for i := range 3000 {
		fmt.Fprintf(&refs, "create refs/parawork/snapshots/wsp_%d/polls/2026-01-01 %s\n", i, tip)
	}
	run(b, dir, refs.String(), "update-ref", "--stdin")
	run(b, dir, "", "pack-refs", "--all")
	run(b, dir, "", "commit-graph", "write", "--reachable")
	line := tip
	for i := range 100 { // loose, without a merge
		line = run(b, dir, fmt.Sprint(i), "commit-tree", "main^{tree}", "-p", line)
		if i%20 == 0 {
			run(b, dir, "", "update-ref", fmt.Sprintf("refs/heads/line%d", i), line)
		}
	}
	run(b, dir, "", "update-ref", "refs/heads/line", line)
	files, err := lsTree(b, s, dir, tip, nil, true)
	must(b, err)

	compare := func(name string, here func(context.Context, *reader) error, args ...string) {
		inTurn(b, dir, name, here, func(ctx context.Context) error {
			_, err := s.git.Run(ctx, hostgit.Call{GitDir: dir, Args: args})
			return err
		})
	}
	commit := func(name string) {
		compare("ref "+name, func(ctx context.Context, r *reader) error { _, err := r.commitOf(ctx, name); return err }, "rev-parse", "--quiet", "--verify", name+"^{commit}")
	}
	commit("refs/heads/line")
	commit("refs/heads/main")
	commit(tip)
	commit(tip + "^1")
	commit(run(b, dir, "", "rev-parse", "main~3000"))
	compare("tree", func(ctx context.Context, r *reader) error { _, err := r.treeOf(ctx, tip); return err }, "rev-parse", "--verify", "--quiet", tip+"^{tree}")
	for _, id := range []string{run(b, dir, "", "rev-parse", "main~9"), line} {
		inTurn(b, dir, "log "+id[:4], func(ctx context.Context, r *reader) error { _, err := r.logged(ctx, id); return err }, func(ctx context.Context) error {
			_, err := s.ReadCommits(ctx, workspaces.Project{GitDir: dir}, "--no-walk", id, "--")
			return err
		})
	}
	for _, n := range []int{1, 7, 15} {
		back := run(b, dir, "", "rev-parse", fmt.Sprintf("%s~%d", line, n))
		forked := func(ctx context.Context, r *reader) error { _, err := r.fork(ctx, line, back); return err }
		compare(fmt.Sprintf("contains %d", n), forked, "merge-base", "--is-ancestor", back, line)
		compare(fmt.Sprintf("ahead %d", n), forked, "rev-list", "--left-right", "--count", line+"..."+back)
	}
	for _, n := range []int{1, 4, 8} {
		var paths []string
		for _, i := range rng.Perm(len(files))[:n] {
			paths = append(paths, files[i].Path)
		}
		compare(fmt.Sprintf("paths %d", n), func(ctx context.Context, r *reader) error { _, err := r.files(ctx, tip, paths, false); return err },
			append([]string{"ls-tree", "-z", "-l", "--full-tree", tip, "--"}, paths...)...)
	}
	compare("folder", func(ctx context.Context, r *reader) error {
		_, err := r.files(ctx, tip, []string{"src/d7"}, true)
		return err
	},
		"ls-tree", "-r", "-z", "-l", "--full-tree", tip, "--", "src/d7")
	for _, n := range []int{1, 8} {
		var some []hostgit.TreeFile
		var ask strings.Builder
		for _, i := range rng.Perm(len(files)) {
			if f := files[i]; !f.Module() && len(some) < n {
				some = append(some, f)
				ask.WriteString(f.OID + "\n")
			}
		}
		inTurn(b, dir, fmt.Sprintf("blobs %d", n), func(ctx context.Context, r *reader) error { _, err := r.blobs(ctx, some); return err }, func(ctx context.Context) error {
			_, err := s.git.Run(ctx, hostgit.Call{GitDir: dir, Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(ask.String())})
			return err
		})
	}
}

func inTurn(b *testing.B, dir, name string, here func(context.Context, *reader) error, there func(context.Context) error) {
	b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
		var ours, program time.Duration
		for b.Loop() {
			at := time.Now()
			_, err := inProcess(b.Context(), dir, func(r *reader) (int, error) { return 0, here(b.Context(), r) })
			ours += time.Since(at)
			must(b, err)
			at = time.Now()
			err = there(b.Context())
			program += time.Since(at)
			must(b, err)
		}
		b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "here-µs")
		b.ReportMetric(program.Seconds()/ours.Seconds(), "program/here")
		b.ReportMetric(0, "ns/op")
	})
}
