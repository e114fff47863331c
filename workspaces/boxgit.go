package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// makePrivateGit makes the git dir a boxed workspace's agents use: what the linked worktree knows (HEAD, index, what is under way),
// the base's branches as those of a remote, and no objects of its own. It appears whole or not at all.
func (s *Service) makePrivateGit(ctx context.Context, p Project, w Workspace) error {
	failed := func(err error) error {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return fault.Wrap(err, fault.Unavailable, "box_failed", "The git folder of the workspace's sandbox could not be made: %s", Reason(err))
	}
	if err := os.Remove(s.ownerMark(w.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	admin := linkedDir(p, w)
	if admin == "" {
		return failed(errors.New("the repository does not know the worktree"))
	}
	told, err := s.boxTold(ctx, p, w)
	if err != nil {
		return failed(err)
	}
	refs, err := s.boxRefs(ctx, p, w, admin, told)
	if err != nil {
		return failed(err)
	}
	config, err := s.boxConfig(ctx, p, admin, w.Path)
	if err != nil {
		return failed(err)
	}
	from, err := s.madeFrom(ctx, p, refs, admin)
	if err != nil {
		return failed(err)
	}
	if err := s.lend(ctx, p, w, append(from, sortedValues(told)...)...); err != nil {
		return failed(err)
	}
	fresh, err := os.MkdirTemp(s.SandboxDir(w.ID), "new-git-")
	if err != nil {
		return DiskFault(err, "Preparing the workspace's sandbox")
	}
	if err := s.fillPrivateGit(ctx, p, fresh, admin, config, refs, true); err != nil {
		_ = os.RemoveAll(fresh)
		return failed(err)
	}
	if err := os.Rename(fresh, s.privateGit(w.ID)); err != nil {
		_ = os.RemoveAll(fresh)
		return failed(err)
	}
	home := s.readHome(w.ID) // of an earlier one: only how much was taken goes on
	if err := s.writeHome(w.ID, homeState{Bytes: home.Bytes}); err != nil {
		return failed(err)
	}
	return s.noteTold(w.ID, refs.told)
}

// fillPrivateGit fills a new folder. One that is here stands on the workspace's store, which it finds where the repository's objects would
// be; one for elsewhere gets objects of its own.
func (s *Service) fillPrivateGit(ctx context.Context, p Project, dir, admin, config string, refs boxRefs, here bool) error {
	for _, sub := range [...]string{"refs/heads", "refs/tags", "objects/info", "objects/pack", "info", "logs/refs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{"config": config, "packed-refs": refs.packed()}
	if here {
		files["objects/info/alternates"] = filepath.Join(p.GitDir, "objects") + "\n"
	}
	if log := refs.stashLog(); log != "" {
		files["logs/refs/stash"] = log
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	common, err := os.OpenRoot(p.GitDir)
	if err != nil {
		return err
	}
	defer common.Close()
	for _, name := range [...]string{"shallow", "info/exclude", "info/attributes"} {
		if err := copyPlain(common, to, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copying %s: %w", name, err)
		}
	}
	from, err := os.OpenRoot(admin)
	if err != nil {
		return err
	}
	defer from.Close()
	return copyAdmin(ctx, from, to)
}

// left out of what is copied of git's folder of the linked worktree: it says where that lies, or belongs to the host alone.
var notForBox = map[string]bool{"gitdir": true, "commondir": true, "config.worktree": true, "locked": true, "modules": true,
	"objects": true, "config": true, "packed-refs": true, "shallow": true, "hooks": true}

// copyAdmin copies the state of the worktree: HEAD, index, a merge or rebase under way, its log.
func copyAdmin(ctx context.Context, from, to *os.Root) error {
	return fs.WalkDir(from.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		top, _, _ := strings.Cut(name, "/")
		switch {
		case name == ".":
			return nil
		case notForBox[top] || strings.HasSuffix(name, ".lock"):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return to.MkdirAll(name, 0o755)
		case d.Type().IsRegular():
			return copyPlain(from, to, name)
		}
		return nil
	})
}

// maxPlain bounds one file copied into a private git dir: an index of some ten million files.
const maxPlain = 1 << 30

// copyPlain copies a regular file with its time, which git compares with those of the files.
func copyPlain(from, to *os.Root, name string) error {
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxPlain {
		return errors.Join(err, fmt.Errorf("%s is no file that could be copied", name))
	}
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, fi.Size())
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return to.Chtimes(name, fi.ModTime(), fi.ModTime())
}

// keptConfig are the settings of the repository that say how files and objects are kept. They start nothing.
var keptConfig = []string{"core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode", "core.autocrlf", "core.eol", "core.safecrlf",
	"core.trustctime", "core.checkstat", "core.sparsecheckout", "core.sparsecheckoutcone", "core.longpaths", "index.sparse", "index.version", "feature.manyfiles",
	"core.untrackedcache", "user.name", "user.email", "i18n.commitencoding", "merge.conflictstyle", "merge.renames", "diff.renames", "pull.rebase", "rebase.autosquash"}

// boxConfig is the private git dir's config: written by us, with what is harmless of the repository's. worktree says where the files
// are, "" = around the git dir.
func (s *Service) boxConfig(ctx context.Context, p Project, admin, worktree string) (string, error) {
	format, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-parse", "--show-object-format"}})
	if err != nil {
		return "", err
	}
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: admin, Args: []string{"config", "--list", "-z", "--show-scope"}})
	if err != nil {
		return "", err
	}
	values := make(map[string]string)
	f := strings.Split(string(out), "\x00")
	for ; len(f) >= 2; f = f[2:] {
		if f[0] != "local" && f[0] != "worktree" {
			continue
		}
		key, value, ok := strings.Cut(f[1], "\n")
		if !ok {
			value = "true"
		}
		values[key] = value
	}
	var b strings.Builder
	version := 0
	if format != "sha1" {
		version = 1
		fmt.Fprintf(&b, "[extensions]\n\tobjectformat = %s\n", format)
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogallrefupdates = true\n", version)
	if worktree != "" {
		fmt.Fprintf(&b, "\tworktree = %s\n", configValue(worktree))
	}
	for _, key := range keptConfig {
		if v, ok := values[key]; ok && len(v) < 1000 && !strings.ContainsRune(v, 0) {
			section, name, _ := strings.Cut(key, ".")
			fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, configValue(v))
		}
	}
	if url := s.publicRemote(p, values["remote.origin.url"]); url != "" {
		fmt.Fprintf(&b, "[remote \"origin\"]\n\turl = %s\n\tfetch = %s\n", configValue(url), fetchSpec)
	}
	return b.String(), nil
}

// configValue quotes a value as git's config reads it.
func configValue(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(v) + `"`
}

// publicRemote is where the project comes from, when that can be reached from elsewhere and without what only the host has.
func (s *Service) publicRemote(p Project, origin string) string {
	if p.SourceKind == SourceURL {
		origin = p.Source
	}
	if origin == "" {
		return ""
	}
	r, err := ParseRemote(origin, []string{"https", "http", "ssh", "git"})
	if err != nil {
		return ""
	}
	return r.URL
}

// boxRefs are the refs a private git dir begins with.
type boxRefs struct {
	local map[string]string // branches, tags and stash of the workspace's own
	told  map[string]string // what the host tells of the repository: refs/remotes/origin/* and tags
	stash []string          // the oldest first
}

// maxTold bounds how many refs of the repository a sandbox is told.
const maxTold = 20_000

// boxRefs reads them from the repository.
func (s *Service) boxRefs(ctx context.Context, p Project, w Workspace, admin string, told map[string]string) (boxRefs, error) {
	r := boxRefs{local: make(map[string]string), told: told}
	heads := []string{w.Branch}
	if at, err := s.git.Text(ctx, hostgit.Call{GitDir: admin, Args: []string{"symbolic-ref", "--quiet", "HEAD"}}); err == nil {
		heads = append(heads, strings.TrimPrefix(at, HeadsPrefix))
	}
	for _, name := range heads {
		c, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+name)
		if err != nil {
			return r, err
		}
		if c != "" {
			r.local[HeadsPrefix+name] = c
		}
	}
	own, err := s.RefsBelow(ctx, p, AgentRefs(w.ID))
	if err != nil {
		return r, err
	}
	for name, c := range own {
		rest := strings.TrimPrefix(name, AgentRefs(w.ID))
		if strings.HasPrefix(rest, "stash/") {
			continue
		}
		if _, ok := r.local["refs/"+rest]; !ok {
			r.local["refs/"+rest] = c
		}
	}
	for i := 0; ; i++ {
		c, ok := own[fmt.Sprintf("%sstash/%d", AgentRefs(w.ID), i)]
		if !ok {
			break
		}
		r.stash = append([]string{c}, r.stash...) // the newest is number 0
	}
	if n := len(r.stash); n > 0 {
		r.local["refs/stash"] = r.stash[n-1]
	}
	return r, nil
}

// boxTold is what a workspace's sandbox is told: the refs of the repository that the team may read, its own branch, and the branch its work
// is based on, that under its own name, too.
func (s *Service) boxTold(ctx context.Context, p Project, w Workspace) (map[string]string, error) {
	refs, err := s.repoRefs(ctx, p)
	if err != nil {
		return nil, err
	}
	hidden, err := s.hiddenBranches(ctx, p)
	if err != nil {
		return nil, err
	}
	target, err := s.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return nil, err
	}
	told := toldRefs(slices.DeleteFunc(refs, func(r repoRef) bool {
		return hidden.hide(r.name) && r.name != HeadsPrefix+w.Branch && r.name != HeadsPrefix+target
	}))
	if c, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+target); err == nil && c != "" && target != w.Branch {
		told[HeadsPrefix+target] = c
	}
	return told, nil
}

// repoRef is a branch or a tag of a repository, its own or a remote's.
type repoRef struct{ name, id string }

// repoRefs lists them.
func (s *Service) repoRefs(ctx context.Context, p Project) ([]repoRef, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", fmt.Sprintf("--count=%d", maxTold), "--format=%(objectname) %(symref) %(refname)",
		"refs/heads", "refs/remotes", "refs/tags"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	var refs []repoRef
	for _, l := range strings.Split(out, "\n") {
		if f := strings.SplitN(l, " ", 3); len(f) == 3 && f[1] == "" && IsCommitID(f[0]) {
			refs = append(refs, repoRef{f[2], f[0]})
		}
	}
	return refs, nil
}

// branchSet are names of branches.
type branchSet map[string]bool

// hide reports whether a ref is one of these branches, or was made of what a machine that was away had of one (see nameLeft).
func (b branchSet) hide(ref string) bool {
	name, ok := strings.CutPrefix(ref, HeadsPrefix)
	if !ok {
		return false
	}
	for i := strings.Index(name, leftMark); i >= 0; {
		if b[name[:i]] {
			return true
		}
		next := strings.Index(name[i+1:], leftMark)
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return b[name]
}

// hiddenBranches are the branches of the repository that not everybody in the project's team may read: those of private workspaces, and of
// other teams' where an earlier version let two teams add one folder. The project's default branch is never one.
func (s *Service) hiddenBranches(ctx context.Context, p Project) (branchSet, error) {
	names, err := s.store.HiddenBranches(ctx, p.GitDir, p.TeamID)
	if err != nil {
		return nil, fmt.Errorf("listing private branches: %w", err)
	}
	hidden := make(branchSet, len(names))
	for _, n := range names {
		hidden[n] = n != p.DefaultBranch
	}
	return hidden, nil
}

// toldRefs are the repository's branches as those of the remote origin, and its tags. Where the repository knows what its own origin
// has, that is what origin has; what only the repository has is shown beside it.
func toldRefs(refs []repoRef) map[string]string {
	told := make(map[string]string)
	var heads [][2]string
	for _, r := range refs {
		if name, ok := strings.CutPrefix(r.name, HeadsPrefix); ok {
			heads = append(heads, [2]string{"refs/remotes/origin/" + name, r.id})
		} else {
			told[r.name] = r.id
		}
	}
	folders := make(map[string]bool) // names that are folders of others: git keeps no ref there
	for name := range told {
		for dir := path.Dir(name); dir != "refs"; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, h := range heads {
		if _, ok := told[h[0]]; ok || folders[h[0]] {
			continue
		}
		free := true
		for dir := path.Dir(h[0]); dir != "refs"; dir = path.Dir(dir) {
			if _, ok := told[dir]; ok {
				free = false
			}
		}
		if free {
			told[h[0]] = h[1]
		}
	}
	return told
}

// RefsBelow returns the refs whose names begin with prefix, which ends with a slash.
func (s *Service) RefsBelow(ctx context.Context, p Project, prefix string) (map[string]string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", strings.TrimSuffix(prefix, "/")}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the workspace's refs")
	}
	refs := make(map[string]string)
	for _, l := range strings.Split(out, "\n") {
		if id, name, ok := strings.Cut(l, " "); ok && IsCommitID(id) && strings.HasPrefix(name, prefix) {
			refs[name] = id
		}
	}
	return refs, nil
}

// packed is all of it as git keeps many refs in one file.
func (r boxRefs) packed() string {
	all := make(map[string]string, len(r.local)+len(r.told))
	for _, m := range [...]map[string]string{r.told, r.local} {
		for name, c := range m {
			all[name] = c
		}
	}
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n")
	for _, name := range sortedKeys(all) {
		b.WriteString(all[name] + " " + name + "\n")
	}
	return b.String()
}

// stashLog is the log in which git keeps the older stashes. An entry of the very beginning of time is one that git does not show.
func (r boxRefs) stashLog() string {
	var b strings.Builder
	was := strings.Repeat("0", 40)
	for _, c := range r.stash {
		if len(c) != len(was) {
			was = strings.Repeat("0", len(c))
		}
		fmt.Fprintf(&b, "%s %s Parawork <parawork@localhost> 1 +0000\tkept by Parawork\n", was, c)
		was = c
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// AgentRefs is where the repository keeps the branches, tags and stashes of a boxed workspace beside its own branch: refs/heads/x of
// the sandbox is heads/x below it.
func AgentRefs(workspaceID string) string { return "refs/parawork/agent/" + workspaceID + "/" }

// keepRefs is where the repository keeps commits that a boxed workspace no longer names.
func keepRefs(workspaceID string) string { return "refs/parawork/keep/" + workspaceID + "/" }

// indexRef keeps what was staged when a boxed workspace's sandbox ended.
func indexRef(workspaceID string) string { return "refs/parawork/index/" + workspaceID }

// toldFile remembers what a sandbox was told last of the repository's refs. It lies beside what the sandbox may write.
func (s *Service) toldFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "told")
}

// noteTold remembers what the sandbox was told.
func (s *Service) noteTold(workspaceID string, refs map[string]string) error {
	var b strings.Builder
	for _, name := range sortedKeys(refs) {
		b.WriteString(refs[name] + " " + name + "\n")
	}
	return writeOnce(s.toldFile(workspaceID), b.String())
}

// readTold reads what noteTold remembered.
func (s *Service) readTold(workspaceID string) map[string]string {
	refs := make(map[string]string)
	b, err := os.ReadFile(s.toldFile(workspaceID))
	if err != nil {
		return refs
	}
	for _, l := range strings.Split(string(b), "\n") {
		if id, name, ok := strings.Cut(l, " "); ok {
			refs[name] = id
		}
	}
	return refs
}
