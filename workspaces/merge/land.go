package merge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// land makes the planned commit the base. If somebody's folder has the base checked out, folder and branch move together or not at all.
// errBaseMoved when the base is no longer where the plan started.
func (m *merger) land(ctx context.Context, res workspaces.MergeResult) error {
	unlock, err := m.s.locks.Repos.LockContext(ctx, m.p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	ref := git.HeadsPrefix + m.Target
	now, err := m.s.repo.CommitOf(ctx, m.p.GitDir, ref)
	if err != nil {
		return err
	}
	if now != "" && now != res.BaseCommit {
		return errBaseMoved
	}
	at, err := m.s.repo.CheckedOut(ctx, m.p.GitDir, ref)
	if err != nil {
		return err
	}
	// From here on the caller may leave: a landing must not stop halfway.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.s.cfg.GitTimeout)
	defer cancel()
	if at != nil {
		return m.landInFolder(ctx, *at, res)
	}
	edit := git.RefUpdate(ref, res.Commit, now)
	if now == "" {
		edit = git.RefCreate(ref, res.Commit)
	}
	if err := m.s.repo.UpdateRefs(ctx, m.p.GitDir, "merge "+m.Workspace.Key(), edit); err != nil {
		if moved, e := m.s.repo.CommitOf(ctx, m.p.GitDir, ref); e == nil && moved != now {
			return errBaseMoved
		}
		return git.GitFault(err, fault.Conflict, "merge_failed", "Moving "+m.Target)
	}
	return nil
}

// landInFolder fast-forwards a folder that has the base checked out. git rejects overwriting a local change.
func (m *merger) landInFolder(ctx context.Context, at git.Worktree, res workspaces.MergeResult) error {
	s := m.s
	if place := s.repo.PlaceName(ctx, m.p, at.Path); place != workspaces.CheckedOutElsewhere {
		return fault.New(fault.Conflict, "base_in_workspace", "%s is checked out in %s. Switch that workspace back to its own branch, then merge.", m.Target, place)
	}
	admin, err := git.AdminDir(m.p.GitDir, at.Path)
	if err != nil {
		return err
	}
	if admin == "" {
		admin = m.p.GitDir // the repository's main folder
	}
	// The config may have options for every merge into a branch, such as --squash, after which the branch would not move.
	plain, err := s.NoFilters(ctx, admin, "branch."+m.Target+".mergeOptions")
	if err != nil {
		return err
	}
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: admin, WorkTree: at.Path, Env: plain, Config: []string{"merge.autoStash=false"},
		Args: []string{"merge", "--ff-only", "--no-stat", "--quiet", "--no-verify-signatures", "--no-autostash", "--no-overwrite-ignore", res.Commit}})
	now, e := s.repo.CommitOf(ctx, m.p.GitDir, git.HeadsPrefix+m.Target)
	switch {
	case e == nil && now == res.Commit:
		return nil // the branch moved; a later step failed
	case e == nil && now != res.BaseCommit:
		return errBaseMoved
	case err == nil && e == nil:
		return fault.New(fault.Conflict, "base_folder_failed", "git did not move %s, which is checked out in the project's own folder, although it reported no error. Look at that folder's git config.", m.Target)
	case err == nil:
		return e
	}
	if hostgit.ExitCode(err) > 0 {
		words := ""
		if g, ok := errors.AsType[*hostgit.Error](err); ok {
			words = g.Words()
		}
		if strings.Contains(words, "would be overwritten") {
			return fault.Wrap(err, fault.Conflict, "base_dirty",
				"%s is checked out in the project's own folder, and files there have local changes the merge would overwrite. Commit or stash them there, then merge again.\n%s",
				m.Target, strings.ReplaceAll(words, at.Path+"/", ""))
		}
	}
	return git.GitFault(err, fault.Conflict, "base_folder_failed", "Fast-forwarding the folder that has "+m.Target)
}

// IdentityEnv is an identity as environment entries.
func IdentityEnv(u accounts.User, roles ...string) []string {
	var env []string
	for _, r := range roles {
		for k, v := range sandboxgit.Identity(r, u) {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// NoFilters is an environment that switches off every content filter of a repository's config and its includes. Filters are programs, which
// agents without isolation may have written. They run in the sandbox, where git runs as usual. Settings named in also are emptied too.
func (s *Service) NoFilters(ctx context.Context, gitDir string, also ...string) ([]string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"config", "--name-only", "-z", "--get-regexp", `^filter\.`}})
	if err != nil && hostgit.ExitCode(err) != 1 {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the repository's config")
	}
	names := make(map[string]bool)
	for key := range strings.SplitSeq(out, "\x00") {
		if i := strings.LastIndexByte(key, '.'); i > len("filter") {
			names[key[:i]] = true
		}
	}
	// Use the environment: git splits -c at the first =, which a filter's name may contain.
	var env []string
	n := 0
	set := func(key, value string) {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, kv := range [...][2]string{{"process", ""}, {"smudge", ""}, {"clean", ""}, {"required", "false"}} {
			set(name+"."+kv[0], kv[1])
		}
	}
	for _, key := range also {
		set(key, "")
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n)), nil
}
