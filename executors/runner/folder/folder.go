// Package folder works on the git repositories of folders that a machine's owner allows: it bundles their branches for the server, lets
// workspaces share their objects, copies ignored files into a workspace, and puts a workspace's branch into the owner's repository.
//
// The server is not trusted: every path is resolved and checked against the owner's policy, and so is every part of a repository - its git
// folder, its objects and its alternates - because a planted .git file or link must not lead to another repository. Branches are read
// and packed in a scratch repository (hostgit.Scratch), so that a repository's config, hooks, filters or replacements have no effect. What a
// workspace made is untrusted: it arrives as a pack from inside its sandbox and is checked in quarantine before it is added to the
// repository.
//
// The package starts no goroutine. Safe for concurrent use.
package folder

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/locks"
)

// Config configures Folders.
type Config struct {
	Dir     string                  // a folder of ours for temporary files, made if missing
	Allowed func(path string) error // whether the owner allows a path; the callee also resolves links in it
	GitPath string                  // default: git of PATH, looked up at each use: it may be installed later
	Log     *slog.Logger
}

// Folders works on repositories in allowed folders.
type Folders struct {
	cfg   Config
	locks locks.Keyed // by git dir: one writer at a time
}

// New makes Folders. It starts nothing.
func New(cfg Config) (*Folders, error) {
	if cfg.Allowed == nil || !filepath.IsAbs(cfg.Dir) {
		return nil, errors.New("executors/runner/folder: Allowed and an absolute Dir are needed")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Folders{cfg: cfg}, nil
}

// Limits of what is done for a server.
const (
	maxRefs     = 20_000 // branches and tags that are reported
	maxCommits  = 20_000 // commits a server may name
	maxTips     = 1_000  // commits of the repository that are reported to it
	quickTime   = time.Minute
	packTime    = 2 * time.Hour
	maxWalk     = 256 << 20 // bytes of a list of commits
	maxBorrowed = 20        // alternates of a repository
)

// git finds the program.
func (f *Folders) git() (*hostgit.Git, error) {
	path := f.cfg.GitPath
	if path == "" {
		var err error
		if path, err = exec.LookPath("git"); err != nil {
			return nil, fault.Wrap(err, fault.Unavailable, "git_missing", "git was not found on the machine. Install it there, then try again.")
		}
	}
	return hostgit.New(hostgit.Config{Path: path, StateDir: f.cfg.Dir, Env: os.Getenv}), nil
}

// lock admits one writer of a repository at a time. Call the returned func to unlock.
func (f *Folders) lock(gitDir string) (unlock func()) { return f.locks.Lock(gitDir) }

// repo is the repository of an allowed folder.
type repo struct {
	git     *hostgit.Git
	path    string            // the folder, resolved
	headDir string            // the git dir whose HEAD is the folder's
	gitDir  string            // the common git dir, resolved
	bare    bool              // it has no files
	objects []executors.Mount // object folders, its own first: their paths, and the names git knows them by
	shallow bool              // it is shallow
	partial bool              // it is a partial clone
}

func outside(what string) error {
	return fault.New(fault.Forbidden, wire.CodeOutside, "%s outside the folders the machine's owner allows. They can allow it in the machine's file, or with --folder.", what)
}

func notRepository(err error) error {
	return fault.Wrap(err, fault.Invalid, "folder_not_a_repository", "The folder is no git repository that git can open. Run git init there and make a first commit, or choose another one.")
}

// open finds the repository at a path and checks that all its parts are allowed.
func (f *Folders) open(ctx context.Context, path string) (repo, error) {
	if len(path) > 4096 || !filepath.IsAbs(path) || strings.ContainsAny(path, "\x00\n") {
		return repo{}, fault.New(fault.Invalid, "folder_invalid", "Name a folder by its full path.")
	}
	path = filepath.Clean(path)
	if err := f.cfg.Allowed(path); err != nil { // by its given name first: a caller must not be able to probe for paths outside
		return repo{}, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return repo{}, fault.Wrap(err, fault.NotFound, "folder_missing", "The folder no longer exists.")
	}
	if err := f.cfg.Allowed(real); err != nil {
		return repo{}, err
	}
	if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
		return repo{}, notRepository(err)
	}
	r := repo{path: real}
	if r.git, err = f.git(); err != nil {
		return repo{}, err
	}
	out, err := r.git.Text(ctx, hostgit.Call{Discover: true, Dir: real, Timeout: quickTime,
		Args: []string{"rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--is-shallow-repository", "--absolute-git-dir", "--git-common-dir"}})
	if err != nil {
		return repo{}, notRepository(err)
	}
	l := strings.Split(out, "\n")
	if len(l) != 5 || l[0] != "true" && l[1] == "true" {
		return repo{}, notRepository(nil)
	}
	r.bare, r.shallow = l[0] == "true", l[2] == "true"
	for _, d := range [...]struct {
		to   *string
		from string
	}{{&r.headDir, l[3]}, {&r.gitDir, l[4]}} {
		if *d.to, err = f.resolve(real, d.from); err != nil {
			return repo{}, err
		}
	}
	if r.objects, err = f.objectDirs(r.gitDir); err != nil {
		return repo{}, err
	}
	for _, o := range r.objects {
		promised, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(o.Source), "pack", "*.promisor"))
		r.partial = r.partial || len(promised) > 0
	}
	return r, nil
}

// resolve resolves a part of a repository and checks that it is allowed.
func (f *Folders) resolve(from, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(from, path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", notRepository(err)
	}
	if f.part(real) != nil {
		return "", outside("Part of the folder's repository lies")
	}
	return real, nil
}

// part says whether a part of a repository may be used. An owner who allows a folder also allows the git folder in it, although a server
// cannot name it, as with all hidden folders.
func (f *Folders) part(real string) error {
	if at := strings.Index(real+"/", "/.git/"); at > 0 {
		real = real[:at]
	}
	return f.cfg.Allowed(real)
}

// objectDirs returns the object folders of a repository and its alternates, as git names them, when all of them are allowed.
func (f *Folders) objectDirs(gitDir string) ([]executors.Mount, error) {
	var out []executors.Mount
	seen := make(map[string]bool)
	for todo := []string{filepath.Join(gitDir, "objects")}; len(todo) > 0; todo = todo[1:] {
		dir := filepath.Clean(todo[0])
		if seen[dir] {
			continue
		}
		seen[dir] = true
		real, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) && len(out) > 0 {
			continue // git ignores a missing alternate
		}
		if err != nil {
			return nil, notRepository(err)
		}
		if f.part(real) != nil {
			return nil, outside("Objects of the folder's repository lie")
		}
		if fi, err := os.Stat(real); err != nil || !fi.IsDir() || !looksLikeObjects(real) {
			return nil, notRepository(err)
		}
		if out = append(out, executors.Mount{Source: real, Target: dir, ReadOnly: true}); len(out) > maxBorrowed {
			return nil, fault.New(fault.Unsupported, "folder_alternates_unsupported", "The folder's repository has more than %d alternates.", maxBorrowed)
		}
		b, err := readSmall(filepath.Join(real, "info", "alternates"))
		if err != nil {
			return nil, notRepository(err)
		}
		for l := range strings.SplitSeq(string(b), "\n") {
			if l = strings.TrimSuffix(l, "\r"); l == "" || l[0] == '#' {
				continue
			}
			if l[0] == '"' { // git's quoting: such an unusual name is not supported
				return nil, fault.New(fault.Unsupported, "folder_alternates_unsupported", "The folder's repository has an alternate with an unsupported name.")
			}
			if !filepath.IsAbs(l) {
				l = filepath.Join(real, l)
			}
			todo = append(todo, l)
		}
	}
	return out, nil
}

// objectsName matches git's names in an object folder.
var objectsName = regexp.MustCompile(`^([0-9a-f]{2}|pack|info|tmp_.*|incoming.*|bulk-.*|\..*|maintenance\.lock)$`)

// looksLikeObjects reports whether a folder contains what an object folder contains, and nothing else: sandboxes mount it as it is.
func looksLikeObjects(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !objectsName.MatchString(e.Name()) {
			return false
		}
	}
	fi, err := os.Lstat(filepath.Join(dir, "pack"))
	return err == nil && fi.IsDir() || len(entries) == 0
}

// maxSmall limits git's small files.
const maxSmall = 1 << 20

// readSmall reads a small regular file; nothing where there is none.
func readSmall(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxSmall {
		return nil, errors.Join(err, errors.New(filepath.Base(name)+" is no small file"))
	}
	return os.ReadFile(name)
}

// scratch makes a scratch repository over the repository's objects. Close it.
func (f *Folders) scratch(ctx context.Context, r repo) (*hostgit.Scratch, error) {
	d, err := r.git.Scratch(ctx, f.cfg.Dir, r.gitDir)
	if err != nil {
		return nil, gitFault(err, "Opening the folder's repository")
	}
	return d, nil
}

// gitFault explains why git failed.
func gitFault(err error, doing string) error {
	if err == nil {
		return nil
	}
	if _, reported := errors.AsType[*fault.Error](err); reported {
		return err
	}
	if g, ok := errors.AsType[*hostgit.Error](err); ok {
		if strings.Contains(g.Stderr, "No space left") {
			return fault.Wrap(err, fault.DiskFull, "runner_disk_full", "The machine's disk is full.")
		}
		if w := g.Words(); w != "" {
			return fault.Wrap(err, fault.Unavailable, "folder_git_failed", "%s failed on the machine: %s", doing, w)
		}
	}
	return fault.Wrap(err, fault.Unavailable, "folder_git_failed", "%s failed on the machine.", doing)
}

// isCommitID reports whether s is the full name of an object.
func isCommitID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// Look describes a folder without reading its history: whether it is a repository, and its current branch.
func (f *Folders) Look(ctx context.Context, path string) (git bool, branch string) {
	r, err := f.open(ctx, path)
	if err != nil {
		return false, ""
	}
	at, err := r.git.Text(ctx, hostgit.Call{GitDir: r.headDir, Timeout: quickTime, Args: []string{"symbolic-ref", "--quiet", "HEAD"}})
	if err != nil {
		return true, ""
	}
	return true, strings.TrimPrefix(at, "refs/heads/")
}

// there returns those of the named commits that the repository has with their complete history: unreachable objects, which git gc may delete
// tomorrow, do not count.
func (f *Folders) there(ctx context.Context, r repo, ids []string) (map[string]bool, error) {
	has := make(map[string]bool)
	if len(ids) > maxCommits {
		ids = ids[:maxCommits]
	}
	var ask strings.Builder
	for _, id := range ids {
		if isCommitID(id) && !has[id] {
			has[id] = true
			ask.WriteString(id + "\n")
		}
	}
	if ask.Len() == 0 {
		return has, nil
	}
	d, err := f.scratch(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	out, err := d.Run(ctx, hostgit.Call{Stdin: strings.NewReader(ask.String()), Max: maxWalk, Timeout: quickTime, Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}})
	if err != nil {
		return nil, gitFault(err, "Reading the folder's repository")
	}
	clear(has)
	ask.Reset()
	for l := range strings.Lines(string(out)) {
		if id, kind, _ := strings.Cut(strings.TrimSpace(l), " "); kind == "commit" {
			has[id] = true
			ask.WriteString(id + "\n")
		}
	}
	if len(has) == 0 {
		return has, nil
	}
	tips, err := f.tips(ctx, r, maxRefs)
	if err != nil {
		return nil, err
	}
	for _, id := range tips {
		ask.WriteString("^" + id + "\n")
	}
	loose, err := d.Run(ctx, hostgit.Call{Stdin: strings.NewReader(ask.String()), Max: maxWalk, Timeout: quickTime, Args: []string{"rev-list", "--stdin"}})
	if err != nil {
		f.cfg.Log.InfoContext(ctx, "commits a server named have no complete history", "folder", r.path, "error", err)
		return map[string]bool{}, nil
	}
	for l := range strings.Lines(string(loose)) {
		delete(has, strings.TrimSpace(l))
	}
	return has, nil
}

// tips returns the commits that refs of the repository name, the newest first.
func (f *Folders) tips(ctx context.Context, r repo, n int) ([]string, error) {
	out, err := r.git.Run(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Args: []string{"for-each-ref", "--sort=-creatordate",
		"--format=%(if)%(*objectname)%(then)%(*objecttype) %(*objectname)%(else)%(objecttype) %(objectname)%(end)"}})
	if err != nil {
		return nil, gitFault(err, "Reading the folder's branches")
	}
	var ids []string
	seen := make(map[string]bool)
	add := func(id string) {
		if isCommitID(id) && !seen[id] && len(ids) < n {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	if head, err := r.git.Text(ctx, hostgit.Call{GitDir: r.headDir, Timeout: quickTime, Args: []string{"rev-parse", "--verify", "--quiet", "HEAD^{commit}"}}); err == nil {
		add(head)
	}
	for l := range strings.Lines(string(out)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(l), "commit "); ok {
			add(id)
		}
	}
	return ids, nil
}
