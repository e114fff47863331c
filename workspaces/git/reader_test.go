package git

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// plainRepo is a Repo that reads repositories and knows no projects.
func plainRepo(tb testing.TB) *Repo {
	tb.Helper()
	program, err := exec.LookPath("git")
	must(tb, err)
	return &Repo{git: hostgit.New(hostgit.Config{Path: program, Env: os.Getenv})}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// run calls git like a user.
func run(tb testing.TB, dir, input string, args ...string) string {
	tb.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Stdin = dir, strings.NewReader(input)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com")
	out, err := c.CombinedOutput()
	if err != nil {
		tb.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// history is a stream for git fast-import: n commits on a branch from where it is now, some of them merges, each of which changes some files.
func history(rng *rand.Rand, branch, from string, n, width int) string {
	var b strings.Builder
	names := []string{"a.txt", "deep/b.txt", "deep/er/c d.txt", "deep/er/caf\xe9", "deep-er/x", "deep.txt", "z/y/x/w", "run", "*", "src"}
	for i := range n {
		fmt.Fprintf(&b, "commit %s\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata <<.\nnumber %d\n.\n", branch, i+1, 1_700_000_000+i*60+rng.IntN(600), i)
		if i == 0 && from != "" {
			fmt.Fprintf(&b, "from %s\n", from)
		}
		if i > 5 && rng.IntN(9) == 0 {
			fmt.Fprintf(&b, "merge :%d\n", i-1-rng.IntN(3))
		}
		for range 1 + rng.IntN(3) {
			name := names[rng.IntN(len(names))]
			if rng.IntN(2) == 0 || name == "src" && width > 20 {
				name = fmt.Sprintf("src/d%d/f%d.go", rng.IntN(width), rng.IntN(width))
			}
			if rng.IntN(8) == 0 {
				fmt.Fprintf(&b, "D %s\n", quoted(name))
				continue
			}
			mode := []string{"100644", "100644", "100755", "120000"}[rng.IntN(4)]
			fmt.Fprintf(&b, "M %s inline %s\n", mode, quoted(name))
			text := strings.Repeat(fmt.Sprintf("line of %s\n", name), rng.IntN(200)) + fmt.Sprint(rng.Uint64())
			fmt.Fprintf(&b, "data %d\n%s\n", len(text), text)
		}
		if rng.IntN(20) == 0 {
			fmt.Fprintf(&b, "M 160000 %040x module\n", rng.Uint64())
		}
		b.WriteString("\n")
	}
	return b.String()
}

func quoted(name string) string {
	return `"` + strings.ReplaceAll(name, "\xe9", `\351`) + `"`
}

// sampleRepo is a repository with commits in packs, with short and long chains of deltas, and loose ones; with packed and loose refs of all kinds.
func sampleRepo(t *testing.T, seed uint64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := filepath.Join(t.TempDir(), "repo.git")
	run(t, "", "", "init", "-q", "--bare", "-b", "main", dir)
	load := func(text string) {
		run(t, dir, text, "-c", "fastimport.unpackLimit=40", "fast-import", "--quiet", "--force")
	}
	load(history(rng, "refs/heads/main", "", 150, 8))
	run(t, dir, "", "repack", "-adfq", "--depth=200", "--window=50")
	load(history(rng, "refs/heads/side", "refs/heads/main~10", 60, 8))
	run(t, dir, "", "repack", "-dq")
	run(t, dir, "", "tag", "-m", "a tag", "v1", "main~3")
	run(t, dir, "", "tag", "-m", "of a tag", "v2", "v1")
	run(t, dir, "", "tag", "-m", "of a tree", "tree", "main^{tree}")
	run(t, dir, "", "update-ref", "refs/remotes/origin/main", "main~4")
	run(t, dir, "", "pack-refs", "--all")
	load(history(rng, "refs/heads/near", "refs/heads/main", 5, 8))
	load(history(rng, "refs/heads/deep/er", "refs/heads/main~2", 9, 8))
	load(history(rng, "refs/heads/main", "refs/heads/main^0", 3, 8)) // loose beside packed
	run(t, dir, "", "update-ref", "refs/heads/fork-g"+run(t, dir, "", "rev-parse", "main")[:9]+"-x", "main~1")
	if seed%2 == 1 { // what git takes refs/heads/odd for, too
		run(t, dir, "", "update-ref", "refs/heads/refs/heads/odd", "main~1")
		run(t, dir, "", "update-ref", "refs/tags/refs/heads/packedodd", "main~5")
	}
	run(t, dir, "", "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	run(t, dir, "", "symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere")
	return dir
}

// twin is the same repository, which names an extension without meaning: a reader leaves it to the program.
func twin(t *testing.T, gitDir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "twin.git")
	must(t, exec.Command("cp", "-a", gitDir, to).Run())
	run(t, to, "", "config", "core.repositoryformatversion", "1")
	run(t, to, "", "config", "extensions.noop", "true")
	if _, err := inProcess(t.Context(), to, func(*reader) (int, error) { return 0, nil }); err == nil {
		t.Fatal("a repository with an extension is read in this process")
	}
	return to
}

func refNames(t *testing.T, dir string) []string {
	t.Helper()
	return strings.Fields(run(t, dir, "", "for-each-ref", "--format=%(refname)"))
}

// sameCommits compares what names stand for.
func sameCommits(t *testing.T, s *Repo, dir, other string, names []string) (here int) {
	t.Helper()
	for _, name := range names {
		want, werr := s.CommitOf(t.Context(), other, name)
		got, err := s.CommitOf(t.Context(), dir, name)
		if got != want || (err == nil) != (werr == nil) {
			t.Errorf("%q is %q, %v; git says %q, %v", name, got, err, want, werr)
		}
		if _, err := inProcess(t.Context(), dir, func(r *reader) (string, error) { return r.commitOf(t.Context(), name) }); err == nil {
			here++
		}
	}
	return here
}

// Reading in this process gives the same results as git's program.
func TestReaderAgrees(t *testing.T) {
	t.Parallel()
	s := plainRepo(t)
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 2))
			dir := sampleRepo(t, seed)
			other := twin(t, dir)
			agree(t, s, rng, dir, other)

			// Refs that are none, or that somebody has written by hand.
			main := run(t, dir, "", "rev-parse", "main")
			for name, text := range map[string]string{"empty": "", "junk": "what\n", "more": main + " more\n", "short": main[:39], "upper": strings.ToUpper(main) + "\n",
				"nowhere": strings.Repeat("ab", 20) + "\n", "loop": "ref: refs/heads/loop\n", "out": "ref: ../../config\n", "blank": "ref:refs/heads/main\n", "newline": main + "\n\n"} {
				for _, at := range [...]string{dir, other} {
					must(t, os.WriteFile(filepath.Join(at, "refs/heads", name), []byte(text), 0o644))
				}
			}
			for _, at := range [...]string{dir, other} {
				must(t, os.Symlink("refs/heads/near", filepath.Join(at, "refs/heads/link")))
				must(t, os.Symlink("../../../../nothing", filepath.Join(at, "refs/heads/away")))
				must(t, os.Symlink("near", filepath.Join(at, "refs/heads/beside")))
				must(t, os.MkdirAll(filepath.Join(at, "refs/heads/side"), 0o755)) // a folder where a packed ref is
				must(t, os.MkdirAll(filepath.Join(at, "refs/heads/hollow/inside"), 0o755))
			}
			sameCommits(t, s, dir, other, []string{"refs/heads/empty", "refs/heads/junk", "refs/heads/more", "refs/heads/short", "refs/heads/upper", "refs/heads/nowhere", "refs/heads/loop",
				"refs/heads/out", "refs/heads/blank", "refs/heads/newline", "refs/heads/link", "refs/heads/away", "refs/heads/beside", "refs/heads/side", "refs/heads/hollow", "refs/heads/hollow/inside"})
			must(t, syscall.Mkfifo(filepath.Join(dir, "refs/heads/pipe"), 0o644))
			if _, err := inProcess(t.Context(), dir, func(r *reader) (string, error) { return r.commitOf(t.Context(), "refs/heads/pipe") }); err == nil {
				t.Error("a pipe is read as a ref")
			}
		})
	}
}

// agree compares everything that is read of a repository.
func agree(t *testing.T, s *Repo, rng *rand.Rand, dir, other string) {
	t.Helper()
	ctx := t.Context()
	refs := refNames(t, dir)
	commits := strings.Fields(run(t, dir, "", "rev-list", "--all"))
	root := run(t, dir, "", "rev-list", "--max-parents=0", "main")
	main := commits[0]
	names := append([]string{"HEAD", "refs/heads/none", "refs/heads/none/below", "refs/heads/main/below", "refs/heads/odd", "refs/heads/packedodd", "refs/heads/x-g" + main[:8], "refs/remotes/origin", "refs/heads/-x",
		"refs/heads/a..b", "refs/heads/main^1", "refs/heads/main^{tree}", "refs/heads/main@{0}", "main", "@", "refs/heads/", "refs/bisect/bad", "refs/../config", "refs/heads/../heads/main",
		"", "-q", strings.Repeat("0", 40), strings.Repeat("ab", 20), strings.Repeat("ab", 32), strings.ToUpper(main), main + "^2", root + "^1", run(t, dir, "", "rev-parse", "main^{tree}"),
		run(t, dir, "", "rev-parse", "v2"), run(t, dir, "", "rev-parse", "v2") + "^1", run(t, dir, "", "rev-parse", "main:run"), main[:12], "HEAD^1", "FETCH_HEAD", "objects", "config"}, refs...)
	for range 40 {
		c := commits[rng.IntN(len(commits))]
		names = append(names, c, c+"^1")
	}
	if here := sameCommits(t, s, dir, other, names); here < len(names)/2 {
		t.Errorf("only %d of %d names are read in this process", here, len(names))
	}

	p, q := workspaces.Project{GitDir: dir}, workspaces.Project{GitDir: other}
	forked := 0
	near := strings.Fields(run(t, dir, "", "rev-list", "-n40", "main", "near", "deep/er"))
	for range 60 {
		a, b := near[rng.IntN(len(near))], near[rng.IntN(len(near))]
		ahead, behind, err := s.AheadBehind(ctx, dir, a, b)
		wahead, wbehind, werr := s.AheadBehind(ctx, other, a, b)
		if ahead != wahead || behind != wbehind || err != nil || werr != nil {
			t.Errorf("%s and %s: %d, %d, %v; git says %d, %d, %v", a, b, ahead, behind, err, wahead, wbehind, werr)
		}
		in, err := s.Contains(ctx, dir, a, b)
		if want, werr := s.Contains(ctx, other, a, b); in != want || err != nil || werr != nil {
			t.Errorf("%s contains %s: %v, %v; git says %v, %v", a, b, in, err, want, werr)
		}
		base, err := s.mergeBase(ctx, dir, a, b)
		want, werr := s.mergeBase(ctx, other, a, b)
		if err != nil || werr != nil {
			t.Errorf("%s and %s: %v, %v", a, b, err, werr)
		}
		if base != want && !strings.Contains(run(t, dir, "", "merge-base", "--all", a, b), base) {
			t.Errorf("%s and %s meet at %s; git says %s", a, b, base, want)
		}
		if _, err := inProcess(ctx, dir, func(r *reader) (fork, error) { return r.fork(ctx, a, b) }); err == nil {
			forked++
		}
	}
	if forked == 0 {
		t.Error("no two commits are compared in this process")
	}

	advertised := 0
	for range 40 {
		c := commits[rng.IntN(len(commits))]
		advertised += sameCommit(t, s, dir, other, c)
	}
	if advertised < 20 {
		t.Errorf("only %d of 40 commits are read in this process", advertised)
	}

	listed := 0
	for range 25 {
		c := commits[rng.IntN(len(commits))]
		tree, err := s.TreeOf(ctx, p, c)
		if want, werr := s.TreeOf(ctx, q, c); tree != want || err != nil || werr != nil {
			t.Errorf("the tree of %s is %s, %v; git says %s, %v", c, tree, err, want, werr)
		}
		all := strings.Split(strings.TrimSuffix(run(t, dir, "", "ls-tree", "-r", "-t", "-z", "--name-only", c), "\x00"), "\x00")
		paths := []string{"none", "a.txt/none", "deep*"}
		for range rng.IntN(9) {
			paths = append(paths, all[rng.IntN(len(all))])
		}
		for _, id := range [...]string{c, tree} {
			listed += sameFiles(t, s, dir, id, paths, false)
		}
		for _, folder := range []string{"deep", "src/d1", "none", "run", "module", "z/y/x/w", "deep/er", "deep/", "/deep", "."} {
			listed += sameFiles(t, s, dir, c, []string{folder}, true)
		}
		got, err := s.TreeFiles(ctx, p, c, paths)
		if want, werr := s.TreeFiles(ctx, q, c, paths); !reflect.DeepEqual(got, want) || (err == nil) != (werr == nil) {
			t.Errorf("%q in %s: %v, %v; git says %v, %v", paths, c, got, err, want, werr)
		}
	}
	if listed < 100 {
		t.Errorf("only %d lists of files are made in this process", listed)
	}
}

// sameCommit compares how a commit is read, and returns 1 when it is read in this process.
func sameCommit(t *testing.T, s *Repo, dir, other, c string) int {
	t.Helper()
	got, err := s.ReadCommit(t.Context(), workspaces.Project{GitDir: dir}, c)
	if want, werr := s.ReadCommit(t.Context(), workspaces.Project{GitDir: other}, c); !reflect.DeepEqual(got, want) || (err == nil) != (werr == nil) {
		t.Errorf("%s is %#v, %v; git says %#v, %v", c, got, err, want, werr)
	}
	if _, err := inProcess(t.Context(), dir, func(r *reader) (workspaces.Commit, error) { return r.logged(t.Context(), c) }); err != nil {
		return 0
	}
	return 1
}

// Commits of all kinds are read as in git log.
func TestReaderOfOddCommits(t *testing.T) {
	t.Parallel()
	s := plainRepo(t)
	dir := sampleRepo(t, 16)
	tree := run(t, dir, "", "rev-parse", "main^{tree}")
	blob := run(t, dir, "x", "hash-object", "-w", "--stdin")
	moded := run(t, dir, "100644 blob "+blob+"\ta\n100644 blob "+blob+"\tb\n120000 blob "+blob+"\tc\n160000 commit "+strings.Repeat("1", 40)+"\td\n", "mktree", "--missing")
	other := run(t, dir, "100755 blob "+blob+"\ta\n120000 blob "+blob+"\tb\n160000 commit "+strings.Repeat("1", 40)+"\tc\n160000 commit "+strings.Repeat("2", 40)+"\td\n", "mktree", "--missing")
	folder := run(t, dir, "040000 tree "+moded+"\ta\n040000 tree "+run(t, dir, "", "mktree")+"\tb\n", "mktree")
	author, end := "author A <a@example.com> 1700000000 +0100\n", "committer C <c@example.com> 1700000001 -0330\n"
	var ids []string
	written := func(text string) string {
		id := run(t, dir, text, "hash-object", "-w", "-t", "commit", "--literally", "--stdin")
		ids = append(ids, id)
		return id
	}
	plain := func(tree, message string, parents ...string) string {
		text := "tree " + tree + "\n"
		for _, p := range parents {
			text += "parent " + p + "\n"
		}
		return written(text + author + end + "\n" + message)
	}
	root := plain(moded, "root\n")
	second := plain(other, "modes and kinds\n", root)
	third := plain(folder, "folders\n", second)
	plain(moded, "and back\n", third)
	plain(moded, "to nothing\n", plain(run(t, dir, "", "mktree"), "nothing\n", root))
	plain(tree, "a merge\n", root, third)
	for _, message := range []string{"", "\n", "one line", "two\nlines\n\nbody\n", "\n\n  \n  indented \n more\t\n \t\n\n\n body \n\nmore\n\n", "caf\xe9 \xff\n\n\xfe\n", "tab\there\n", "cr\r\n\r\nbody\r\n",
		"nul\x00more\n", "v\vf\f\n\nx", "https://u:secret@example.com/x\n", "\u202egnp\n\n\u2028x", "subject\n\u00a0\nnot blank\n\n\u00a0\n"} {
		plain(tree, message, root)
	}
	for _, head := range []string{"author  A  <a@example.com> 1 +0000\n" + end, "author <a@example.com> 1 +0000\n" + end, "author A <> 1 +0000\n" + end, "author A <a b> 1 +0000\n" + end, "author A <a> b> 1 +0000\n" + end,
		"author A <a> 99999999999999999999 +0000\n" + end, "author A <a> -1 +0000\n" + end, "author A <a>\n" + end, "author caf\xe9 <a> 1 +0000\n" + end, end, end + author, author + end + "encoding ISO-8859-1\n",
		author + end + "encoding UTF-8\n", author + end + "gpgsig -----BEGIN\n encoding x\n \n -----END\n", author + "parent " + third + "\n" + end, author + author + end, "author A\tB <a> 1 +0000\n" + end} {
		written("tree " + tree + "\nparent " + root + "\n" + head + "\ncaf\xe9\n\nbody\n")
	}
	written("tree " + tree + "\n" + author + end)
	written("tree " + strings.Repeat("ab", 20) + "\n" + author + end + "\nno tree\n")
	plain(tree, "no parent\n", strings.Repeat("ab", 20))
	advertised, twins := 0, twin(t, dir)
	for _, id := range ids {
		advertised += sameCommit(t, s, dir, twins, id)
	}
	if advertised < 15 {
		t.Errorf("only %d of %d commits are read in this process", advertised, len(ids))
	}
}

// lsTree is what the program lists.
func lsTree(t testing.TB, s *Repo, dir, id string, paths []string, all bool) (out []hostgit.TreeFile, err error) {
	args := []string{"ls-tree", "-z", "-l", "--full-tree"}
	if all {
		args = append(args, "-r")
	}
	b, err := s.git.Run(t.Context(), hostgit.Call{GitDir: dir, Args: append(append(args, id, "--"), paths...)})
	for rec := range strings.SplitSeq(string(b), "\x00") {
		if rec != "" {
			f, err := TreeRecord(rec)
			must(t, err)
			out = append(out, f)
		}
	}
	return out, err
}

// sameFiles compares lists of files and their contents, and says 1 when the list was made in this process.
func sameFiles(t *testing.T, s *Repo, dir, id string, paths []string, all bool) int {
	t.Helper()
	ctx := t.Context()
	got, err := inProcess(ctx, dir, func(r *reader) ([]hostgit.TreeFile, error) { return r.files(ctx, id, paths, all) })
	if err != nil {
		return 0
	}
	want, werr := lsTree(t, s, dir, id, paths, all)
	if werr != nil || !slices.Equal(got, want) {
		t.Errorf("%q in %s, %v: %v; git says %v, %v", paths, id, all, got, want, werr)
	}
	for _, f := range got {
		if f.Mode == 0o040000 || f.Module() {
			continue
		}
		content, err := inProcess(ctx, dir, func(r *reader) ([][]byte, error) { return r.blobs(ctx, []hostgit.TreeFile{f}) })
		if err != nil {
			continue // its chain of deltas is long
		}
		var same bytes.Buffer
		_, err = s.git.Run(ctx, hostgit.Call{GitDir: dir, Args: []string{"cat-file", "blob", f.OID}, Stdout: &same})
		if err != nil || !bytes.Equal(content[0], same.Bytes()) {
			t.Errorf("%q of %s is another than git's: %v", f.Path, id, err)
		}
		break
	}
	return 1
}

// Repositories of other kinds are read like the program reads them, or left to it.
func TestReaderOfOtherRepositories(t *testing.T) {
	t.Parallel()
	s := plainRepo(t)
	dir := sampleRepo(t, 8)
	main := run(t, dir, "", "rev-parse", "main")
	here := func(t *testing.T, gitDir string, names ...string) int {
		t.Helper()
		return sameCommits(t, s, gitDir, twin(t, gitDir), names)
	}

	t.Run("alternates", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "shared.git")
		run(t, "", "", "clone", "-q", "--shared", "--bare", dir, to)
		if n := here(t, to, "HEAD", "refs/heads/main", main, main+"^1", "refs/heads/none"); n != 1 {
			t.Errorf("%d names are read here, want 1: there is no such branch", n)
		}
		run(t, to, history(rand.New(rand.NewPCG(1, 1)), "refs/heads/own", "refs/heads/main", 4, 3), "fast-import", "--quiet")
		if n := here(t, to, "refs/heads/own", "refs/heads/main"); n != 1 {
			t.Errorf("%d names are read here, want 1: its own", n)
		}
		ours := run(t, to, "", "rev-parse", "own")
		if ahead, behind, err := s.AheadBehind(t.Context(), to, ours, main); ahead != 4 || behind != 0 || err != nil {
			t.Errorf("%d, %d, %v", ahead, behind, err)
		}
	})
	t.Run("shallow", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "shallow.git")
		run(t, "", "", "clone", "-q", "--bare", "--depth=2", "file://"+dir, to)
		cut := strings.Fields(run(t, to, "", "rev-list", "HEAD"))
		last := cut[len(cut)-1]
		if n := here(t, to, "HEAD", main, last, last+"^1", main+"^1"); n != 3 {
			t.Errorf("%d names are read here, want 3: those without parents", n)
		}
		if in, err := s.Contains(t.Context(), to, main, last); !in || err != nil {
			t.Error(in, err)
		}
	})
	t.Run("worktree", func(t *testing.T) {
		at := filepath.Join(t.TempDir(), "tree")
		run(t, dir, "", "worktree", "add", "-q", "--detach", at, "main~1")
		admin, err := AdminDir(dir, at)
		must(t, err)
		run(t, at, "", "update-ref", "refs/worktree/mine", "main~2")
		run(t, at, "", "update-ref", "refs/bisect/bad", "main~3")
		for _, name := range []string{"HEAD", "refs/heads/main", "refs/worktree/mine", "refs/bisect/bad", "refs/heads/none", main} {
			want := ""
			if name != "refs/heads/none" {
				want = run(t, at, "", "rev-parse", name)
			}
			if got, err := s.CommitOf(t.Context(), admin, name); got != want || err != nil {
				t.Errorf("%s of the worktree is %q, %v, want %q", name, got, err, want)
			}
			_, err := inProcess(t.Context(), admin, func(r *reader) (string, error) { return r.commitOf(t.Context(), name) })
			if private := strings.HasPrefix(name, "refs/worktree/") || strings.HasPrefix(name, "refs/bisect/"); (err == nil) == private {
				t.Errorf("%s is read in this process: %v", name, err)
			}
		}
		for _, text := range []string{"/etc\n", "../../..\n", "", "../..\n"} {
			must(t, os.WriteFile(filepath.Join(admin, "commondir"), []byte(text), 0o644))
			if _, err := inProcess(t.Context(), admin, func(r *reader) (string, error) { return r.commitOf(t.Context(), "HEAD") }); (err == nil) != (text == "../..\n") {
				t.Errorf("a worktree of %q is read in this process: %v", text, err)
			}
		}
	})
	t.Run("sha256", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "long.git")
		run(t, "", "", "init", "-q", "--bare", "-b", "main", "--object-format=sha256", to)
		run(t, to, history(rand.New(rand.NewPCG(1, 1)), "refs/heads/main", "", 3, 3), "fast-import", "--quiet")
		c := run(t, to, "", "rev-parse", "main")
		if got, err := s.CommitOf(t.Context(), to, "refs/heads/main"); got != c || err != nil {
			t.Error(got, err)
		}
		if got, err := s.CommitOf(t.Context(), to, c+"^1"); got != run(t, to, "", "rev-parse", "main^1") || err != nil {
			t.Error(got, err)
		}
	})
	t.Run("reftable", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "table.git")
		must(t, exec.Command("cp", "-a", dir, to).Run())
		must(t, os.Mkdir(filepath.Join(to, "reftable"), 0o755))
		if _, err := inProcess(t.Context(), to, func(*reader) (int, error) { return 0, nil }); err == nil {
			t.Error("reftables are read in this process")
		}
	})
	t.Run("replaced", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "replaced.git")
		must(t, exec.Command("cp", "-a", dir, to).Run())
		run(t, to, "", "replace", main, "main~3")
		must(t, os.WriteFile(filepath.Join(to, "info/grafts"), []byte(main+"\n"), 0o644))
		if n := here(t, to, "HEAD", main, main+"^1"); n != 3 {
			t.Errorf("%d names are read here", n)
		}
	})
	t.Run("missing", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "missing.git")
		must(t, exec.Command("cp", "-a", dir, to).Run())
		run(t, to, "", "repack", "-adq")
		c := run(t, to, "lost", "commit-tree", "main^{tree}", "-p", "main")
		run(t, to, "", "update-ref", "refs/heads/lost", c)
		must(t, os.Remove(filepath.Join(to, "objects", c[:2], c[2:])))
		here(t, to, "refs/heads/lost", c, c+"^1", main)
		must(t, os.RemoveAll(filepath.Join(to, "refs")))
		if c, err := s.CommitOf(t.Context(), to, "refs/heads/none"); err == nil {
			t.Errorf("%q of what is no repository any more", c)
		}
	})
	t.Run("none", func(t *testing.T) {
		if c, err := s.CommitOf(t.Context(), t.TempDir(), "refs/heads/main"); err == nil {
			t.Errorf("%q of a folder that is no repository", c)
		}
	})
}

// Contents are handed over one after the other, by whoever reads them.
func TestReaderBlobs(t *testing.T) {
	t.Parallel()
	dir := sampleRepo(t, 10)
	s := plainRepo(t)
	all, err := lsTree(t, s, dir, "main", nil, true)
	must(t, err)
	all = slices.DeleteFunc(all, hostgit.TreeFile.Module)
	for _, n := range []int{0, 1, 3, len(all)} {
		var read int
		must(t, s.blobsOf(t.Context(), dir, all[:n], func(f hostgit.TreeFile, r io.Reader) error {
			b, err := io.ReadAll(r)
			if read++; int64(len(b)) != f.Size {
				t.Errorf("%q has %d bytes, want %d", f.Path, len(b), f.Size)
			}
			return err
		}))
		if read != n {
			t.Errorf("%d files are read, want %d", read, n)
		}
	}
	wrong := all[0]
	wrong.Size++
	if err := s.blobsOf(t.Context(), dir, []hostgit.TreeFile{wrong}, func(hostgit.TreeFile, io.Reader) error { return nil }); err == nil {
		t.Error("a file of another size is read")
	}
	if err := s.blobsOf(t.Context(), dir, all[:1], func(hostgit.TreeFile, io.Reader) error { return io.ErrShortWrite }); err != io.ErrShortWrite { //nolint:errorlint // itself
		t.Error(err)
	}
}
