package sandboxgit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// MakePrivateGit makes the git dir that an isolated workspace's agents use: the state of the linked worktree (HEAD, index, an operation in
// progress), the base's branches as those of a remote, and no objects of its own. It appears complete or not at all.
func (s *Store) MakePrivateGit(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	failed := func(err error) error {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return fault.Wrap(err, fault.Unavailable, "sandbox_repository_failed", "The git folder of the workspace's sandbox could not be made: %s", git.Reason(err))
	}
	if err := os.Remove(s.OwnerMark(w.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	admin := git.LinkedDir(p, w)
	if admin == "" {
		return failed(errors.New("the repository does not know the worktree"))
	}
	advertised, err := s.advertised(ctx, p, w)
	if err != nil {
		return failed(err)
	}
	refs, err := s.SandboxRefs(ctx, p, w, admin, advertised)
	if err != nil {
		return failed(err)
	}
	config, err := s.SandboxConfig(ctx, p, admin, w.Path)
	if err != nil {
		return failed(err)
	}
	from, err := s.madeFrom(ctx, p, refs, admin)
	if err != nil {
		return failed(err)
	}
	if err := s.ShareObjects(ctx, p, w, append(from, slices.Sorted(maps.Values(advertised))...)...); err != nil {
		return failed(err)
	}
	fresh, err := os.MkdirTemp(s.SandboxDir(w.ID), "new-git-")
	if err != nil {
		return git.DiskFault(err, "Preparing the workspace's sandbox")
	}
	if err := s.FillPrivateGit(ctx, p, fresh, admin, config, refs, true); err != nil {
		_ = os.RemoveAll(fresh)
		return failed(err)
	}
	if err := os.Rename(fresh, s.PrivateGit(w.ID)); err != nil {
		_ = os.RemoveAll(fresh)
		return failed(err)
	}
	home := s.ReadSyncState(w.ID) // from an earlier one, only the count of fetched bytes is carried over
	if err := s.WriteSyncState(w.ID, SyncState{Bytes: home.Bytes}); err != nil {
		return failed(err)
	}
	return s.NoteAdvertised(w.ID, refs.Reported)
}

// FillPrivateGit fills a new git dir. A local one uses the workspace's object store, which is mounted in place of the repository's objects;
// a remote one gets its own objects.
func (s *Store) FillPrivateGit(ctx context.Context, p workspaces.Project, dir, admin, config string, refs SandboxRefNames, here bool) error {
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
		if err := git.CopyPlain(common, to, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// not copied from git's folder of the linked worktree: paths, and what belongs to the host alone.
var notForSandbox = map[string]bool{"gitdir": true, "commondir": true, "config.worktree": true, "locked": true, "modules": true,
	"objects": true, "config": true, "packed-refs": true, "shallow": true, "hooks": true}

// copyAdmin copies the state of the worktree: HEAD, index, a merge or rebase in progress, its reflog.
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
		case notForSandbox[top] || strings.HasSuffix(name, ".lock"):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return to.MkdirAll(name, 0o755)
		case d.Type().IsRegular():
			return git.CopyPlain(from, to, name)
		}
		return nil
	})
}

// keptConfig are the repository's settings about how files and objects are stored. They start no programs.
var keptConfig = []string{"core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode", "core.autocrlf", "core.eol", "core.safecrlf",
	"core.trustctime", "core.checkstat", "core.sparsecheckout", "core.sparsecheckoutcone", "core.longpaths", "index.sparse", "index.version", "feature.manyfiles",
	"core.untrackedcache", "user.name", "user.email", "i18n.commitencoding", "merge.conflictstyle", "merge.renames", "diff.renames", "pull.rebase", "rebase.autosquash"}

// SandboxConfig is the private git dir's config: written by the server, with harmless settings of the repository's. worktree says where the
// files are, "" = the git dir's parent.
func (s *Store) SandboxConfig(ctx context.Context, p workspaces.Project, admin, worktree string) (string, error) {
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
		fmt.Fprintf(&b, "[remote \"origin\"]\n\turl = %s\n\tfetch = %s\n", configValue(url), git.FetchSpec)
	}
	return b.String(), nil
}

// configValue quotes a value as git's config reads it.
func configValue(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(v) + `"`
}

// publicRemote is the project's remote, if it is reachable from elsewhere without anything only the host has.
func (s *Store) publicRemote(p workspaces.Project, origin string) string {
	if p.SourceKind == workspaces.SourceURL {
		origin = p.Source
	}
	if origin == "" {
		return ""
	}
	r, err := git.ParseRemote(origin, []string{"https", "http", "ssh", "git"})
	if err != nil {
		return ""
	}
	return r.URL
}

// SandboxRefNames are the initial refs of a private git dir.
type SandboxRefNames struct {
	Local    map[string]string // branches, tags and stash of the workspace
	Reported map[string]string // advertised by the host: refs/remotes/origin/* and tags
	Stash    []string          // the oldest first
}

// maxAdvertised bounds how many of the repository's refs are advertised to a sandbox.
const maxAdvertised = 20_000

// SandboxRefs reads them from the repository.
func (s *Store) SandboxRefs(ctx context.Context, p workspaces.Project, w workspaces.Workspace, admin string, advertised map[string]string) (SandboxRefNames, error) {
	r := SandboxRefNames{Local: make(map[string]string), Reported: advertised}
	heads := []string{w.Branch}
	if at, err := s.git.Text(ctx, hostgit.Call{GitDir: admin, Args: []string{"symbolic-ref", "--quiet", "HEAD"}}); err == nil {
		heads = append(heads, strings.TrimPrefix(at, git.HeadsPrefix))
	}
	for _, name := range heads {
		c, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+name)
		if err != nil {
			return r, err
		}
		if c != "" {
			r.Local[git.HeadsPrefix+name] = c
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
		if _, ok := r.Local["refs/"+rest]; !ok {
			r.Local["refs/"+rest] = c
		}
	}
	for i := 0; ; i++ {
		c, ok := own[fmt.Sprintf("%sstash/%d", AgentRefs(w.ID), i)]
		if !ok {
			break
		}
		r.Stash = append([]string{c}, r.Stash...) // the newest is number 0
	}
	if n := len(r.Stash); n > 0 {
		r.Local["refs/stash"] = r.Stash[n-1]
	}
	return r, nil
}

// advertised are the refs advertised to a workspace's sandbox: those of the repository that the team may read, its own branch, and the
// branch its work is based on, the latter also under its local name.
func (s *Store) advertised(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (map[string]string, error) {
	refs, err := s.repoRefs(ctx, p)
	if err != nil {
		return nil, err
	}
	hidden, err := s.HiddenBranches(ctx, p)
	if err != nil {
		return nil, err
	}
	target, err := s.repo.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return nil, err
	}
	advertised := advertisedRefs(slices.DeleteFunc(refs, func(r repoRef) bool {
		return hidden.Hide(r.name) && r.name != git.HeadsPrefix+w.Branch && r.name != git.HeadsPrefix+target
	}))
	if c, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+target); err == nil && c != "" && target != w.Branch {
		advertised[git.HeadsPrefix+target] = c
	}
	return advertised, nil
}

// repoRef is a branch or a tag of a repository, its own or a remote's.
type repoRef struct{ name, id string }

// repoRefs lists them.
func (s *Store) repoRefs(ctx context.Context, p workspaces.Project) ([]repoRef, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", fmt.Sprintf("--count=%d", maxAdvertised), "--format=%(objectname) %(symref) %(refname)",
		"refs/heads", "refs/remotes", "refs/tags"}})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	var refs []repoRef
	for l := range strings.SplitSeq(out, "\n") {
		if f := strings.SplitN(l, " ", 3); len(f) == 3 && f[1] == "" && git.IsCommitID(f[0]) {
			refs = append(refs, repoRef{f[2], f[0]})
		}
	}
	return refs, nil
}

// branchSet is a set of branch names.
type branchSet map[string]bool

// Hide reports whether a ref is one of these branches, or was made of an abandoned sandbox's work on one (see nameLeft).
func (b branchSet) Hide(ref string) bool {
	name, ok := strings.CutPrefix(ref, git.HeadsPrefix)
	if !ok {
		return false
	}
	for i := strings.Index(name, LeftMark); i >= 0; {
		if b[name[:i]] {
			return true
		}
		next := strings.Index(name[i+1:], LeftMark)
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return b[name]
}

// HiddenBranches are the branches of the repository that not everybody in the project's team may read: those of private workspaces, and of
// other teams' where an earlier version let two teams add one folder. The project's default branch is never one.
func (s *Store) HiddenBranches(ctx context.Context, p workspaces.Project) (branchSet, error) {
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

// advertisedRefs are the repository's branches as those of the remote origin, and its tags. If the repository knows its own origin's
// branches, those are used; branches that only the repository has are added.
func advertisedRefs(refs []repoRef) map[string]string {
	advertised := make(map[string]string)
	var heads [][2]string
	for _, r := range refs {
		if name, ok := strings.CutPrefix(r.name, git.HeadsPrefix); ok {
			heads = append(heads, [2]string{"refs/remotes/origin/" + name, r.id})
		} else {
			advertised[r.name] = r.id
		}
	}
	folders := make(map[string]bool) // names that are prefixes of others: git cannot store such a ref
	for name := range advertised {
		for dir := path.Dir(name); dir != "refs"; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, h := range heads {
		if _, ok := advertised[h[0]]; ok || folders[h[0]] {
			continue
		}
		free := true
		for dir := path.Dir(h[0]); dir != "refs"; dir = path.Dir(dir) {
			if _, ok := advertised[dir]; ok {
				free = false
			}
		}
		if free {
			advertised[h[0]] = h[1]
		}
	}
	return advertised
}

// RefsBelow returns the refs whose names start with prefix, which ends with a slash.
func (s *Store) RefsBelow(ctx context.Context, p workspaces.Project, prefix string) (map[string]string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", strings.TrimSuffix(prefix, "/")}})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the workspace's refs")
	}
	refs := make(map[string]string)
	for l := range strings.SplitSeq(out, "\n") {
		if id, name, ok := strings.Cut(l, " "); ok && git.IsCommitID(id) && strings.HasPrefix(name, prefix) {
			refs[name] = id
		}
	}
	return refs, nil
}

// packed is the content of a packed-refs file.
func (r SandboxRefNames) packed() string {
	all := make(map[string]string, len(r.Local)+len(r.Reported))
	for _, m := range [...]map[string]string{r.Reported, r.Local} {
		maps.Copy(all, m)
	}
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(all[name] + " " + name + "\n")
	}
	return b.String()
}

// stashLog is the reflog of older stashes. git does not show an entry at time 0.
func (r SandboxRefNames) stashLog() string {
	var b strings.Builder
	was := strings.Repeat("0", 40)
	for _, c := range r.Stash {
		if len(c) != len(was) {
			was = strings.Repeat("0", len(c))
		}
		fmt.Fprintf(&b, "%s %s Parawork <parawork@localhost> 1 +0000\tkept by Parawork\n", was, c)
		was = c
	}
	return b.String()
}

// AgentRefs is where the repository stores the branches, tags and stashes of an isolated workspace other than its own branch: refs/heads/x
// of the sandbox is heads/x below it.
func AgentRefs(workspaceID string) string { return "refs/parawork/agent/" + workspaceID + "/" }

// keepRefs is where the repository saves commits that an isolated workspace no longer names.
func keepRefs(workspaceID string) string { return "refs/parawork/keep/" + workspaceID + "/" }

// IndexRef stores what was staged when an isolated workspace's sandbox ended.
func IndexRef(workspaceID string) string { return "refs/parawork/index/" + workspaceID }

// advertisedFile stores which of the repository's refs were last advertised to a sandbox. It is outside of what the sandbox may write.
func (s *Store) advertisedFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "told")
}

// NoteAdvertised stores the advertised refs.
func (s *Store) NoteAdvertised(workspaceID string, refs map[string]string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		b.WriteString(refs[name] + " " + name + "\n")
	}
	return WriteOnce(s.advertisedFile(workspaceID), b.String())
}

// ReadAdvertised reads what NoteAdvertised stored.
func (s *Store) ReadAdvertised(workspaceID string) map[string]string {
	refs := make(map[string]string)
	b, err := os.ReadFile(s.advertisedFile(workspaceID))
	if err != nil {
		return refs
	}
	for l := range strings.SplitSeq(string(b), "\n") {
		if id, name, ok := strings.Cut(l, " "); ok {
			refs[name] = id
		}
	}
	return refs
}
