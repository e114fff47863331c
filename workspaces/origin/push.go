package origin

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Push pushes the workspace's branch, or the local base, to the project's remote, with the actor's own credential for its host, else the
// project's or the team's. It runs in a scratch repository, so no config, hook or attribute of the repository applies. Errors: no_remote,
// push_rejected, push_failed, branch_protected.
func (s *Service) Push(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.PushRequest) (workspaces.PushResult, error) {
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return workspaces.PushResult{}, err
	}
	err = s.ingest.FetchCommits(ctx, p, w)
	var target string
	if err == nil {
		target, err = s.repo.BranchTarget(ctx, p, w.Base)
	}
	release() // a push may take long, and needs no lock on the workspace
	if err != nil {
		return workspaces.PushResult{}, err
	}
	from := w.Branch
	if r.Base {
		if r.Force || r.Branch != "" && r.Branch != target {
			return workspaces.PushResult{}, fault.New(fault.Invalid, "branch_protected", "%s is pushed as it is, to its own name, and never by force.", target)
		}
		from = target
	}
	r.Branch = cmp.Or(r.Branch, from)
	if err := s.repo.CheckBranch(ctx, r.Branch); err != nil {
		return workspaces.PushResult{}, err
	}
	if !r.Base && (r.Branch == target || r.Branch == p.DefaultBranch) {
		return workspaces.PushResult{}, fault.New(fault.Invalid, "branch_protected", "A workspace's branch is not pushed onto %s. Merge it, then push %s.", r.Branch, r.Branch)
	}
	to, err := s.merging.PushRemote(ctx, p)
	if err != nil {
		return workspaces.PushResult{}, err
	}
	commit, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+from)
	if err != nil {
		return workspaces.PushResult{}, err
	}
	if commit == "" {
		return workspaces.PushResult{}, fault.New(fault.Conflict, "branch_missing", "The branch %s no longer exists.", from)
	}
	if err := s.noSecretsPushed(ctx, p, w, commit); err != nil {
		return workspaces.PushResult{}, err
	}
	cred, err := s.pushCredential(ctx, actor, p, to)
	if err != nil {
		return workspaces.PushResult{}, err
	}
	ctx, end, err := s.repo.BeginWork(ctx, p, w.ID, actor.User.ID, git.WorkPush)
	if err != nil {
		return workspaces.PushResult{}, err
	}
	defer end()
	res, err := s.push(ctx, p, to.URL, cred, commit, r)
	if err != nil {
		return workspaces.PushResult{}, err
	}
	failpoint.Reach(failpoint.PushSent)
	done := context.WithoutCancel(ctx)
	if err := s.repo.UpdateRefs(done, p.GitDir, "push", git.RefSet(git.OriginPrefix+r.Branch, commit)); err != nil {
		s.cfg.Log.WarnContext(done, "the pushed commit could not be recorded", "workspace_id", w.ID, "error", err)
	}
	// A failure to send notes must not fail a push that has landed.
	if res.Notes, err = s.sendNotes(ctx, actor, p, to.URL, cred, commit); err != nil {
		res.NotesProblem = git.Reason(git.GitFault(err, fault.Unavailable, "push_failed", "Sending the reports"))
	}
	if !res.UpToDate {
		s.records.Note(done, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "push", Text: fmt.Sprintf("Pushed %s to %s (%s)", from, hostgit.Clean(res.Remote), commit[:12]),
			Data: map[string]any{"branch": r.Branch, "commit": commit, "forced": res.Forced}})
	}
	s.records.PublishWorkspace(done, w)
	s.ingest.ProjectMoved(done, p)
	return res, nil
}

// noSecretsPushed rejects commits new to the remote that contain part of a secret.
func (s *Service) noSecretsPushed(ctx context.Context, p workspaces.Project, w workspaces.Workspace, commit string) error {
	there, err := s.sandboxes.RefsBelow(ctx, p, git.OriginPrefix)
	if err != nil {
		return err
	}
	scratch, err := s.repo.ScratchOf(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()
	revs := []string{commit}
	for _, id := range there {
		revs = append(revs, "^"+id)
	}
	return s.secretFiles.NoSecrets(ctx, w, scratch, "pushed", revs...)
}

// pushCredential is the credential of a push: the user's own for the host comes first. nil = none is needed or known.
func (s *Service) pushCredential(ctx context.Context, actor accounts.Actor, p workspaces.Project, to git.Remote) (*hostgit.Credential, error) {
	u, err := url.Parse(to.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, nil //nolint:nilerr // ssh's short form needs none
	}
	if s.cfg.Credentials != nil {
		c, ok, err := s.cfg.Credentials.CredentialFor(ctx, actor.User.ID, p.TeamID, p.ID, u.Host)
		if err != nil {
			return nil, err
		}
		if ok {
			return &hostgit.Credential{Host: c.Host, Username: c.Username, Token: c.Token}, nil
		}
	}
	return to.Credential(), nil
}

// push runs git push in a scratch repository.
func (s *Service) push(ctx context.Context, p workspaces.Project, to string, cred *hostgit.Credential, commit string, r workspaces.PushRequest) (workspaces.PushResult, error) {
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return workspaces.PushResult{}, git.GitFault(err, fault.Unavailable, "push_failed", "Preparing the push")
	}
	defer func() { _ = scratch.Close() }()
	args := []string{"push", "--porcelain", "--progress", "--no-verify", "--no-recurse-submodules", "--no-follow-tags", "--no-signed"}
	if r.Force {
		seen, err := s.repo.CommitOf(ctx, p.GitDir, git.OriginPrefix+r.Branch)
		if err != nil {
			return workspaces.PushResult{}, err
		}
		args = append(args, "--force-with-lease="+git.HeadsPrefix+r.Branch+":"+seen)
	}
	var words strings.Builder // the remote's own messages
	progress := s.repo.ProgressOf(ctx)
	out, err := scratch.Run(ctx, hostgit.Call{Network: true, Timeout: s.cfg.PushTimeout, Credential: cred, Args: append(args, "--", to, commit+":"+git.HeadsPrefix+r.Branch),
		Progress: func(line string) {
			if said, ok := strings.CutPrefix(line, "remote: "); ok && words.Len() < 4000 {
				words.WriteString(strings.TrimRight(said, " ") + "\n")
			}
			if progress != nil {
				progress(line)
			}
		}})
	res := workspaces.PushResult{Remote: to, Branch: r.Branch, Commit: commit, Words: strings.TrimSpace(words.String())}
	res.URL = offered(to, res.Words)
	flag, why := pushed(string(out))
	switch {
	case flag == '!':
		return res, pushRefused(r.Branch, why, res.Words)
	case err != nil && context.Cause(ctx) == workspaces.ErrCancelled: //nolint:errorlint // the cause itself
		return res, fault.New(fault.Conflict, "cancelled", "It was cancelled. If the remote had received everything by then, the branch is there nevertheless.")
	case err != nil:
		return res, git.GitFault(err, fault.Unavailable, "push_failed", "Pushing")
	}
	res.Created, res.UpToDate, res.Forced = flag == '*', flag == '=', flag == '+'
	return res, nil
}

// pushed parses git push --porcelain: the result of the one ref.
func pushed(out string) (flag byte, why string) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) == 3 && len(f[0]) == 1 {
			return f[0][0], f[2]
		}
	}
	return 0, ""
}

// pushRefused returns why the remote rejected the push.
func pushRefused(branch, why, words string) error {
	switch {
	case strings.Contains(why, "stale info"):
		return fault.New(fault.Conflict, "push_rejected", "%s on the remote is not where it was last seen. Nothing was pushed: fetch, look at what is there, then push again.", branch)
	case strings.Contains(why, "fetch first"), strings.Contains(why, "non-fast-forward"):
		return fault.New(fault.Conflict, "push_rejected", "%s on the remote has commits that this branch lacks. Nothing was pushed: fetch and look, then push with force to replace them.", branch).With("diverged", true)
	}
	text := hostgit.Clean(why)
	if words != "" {
		text += "\n" + words
	}
	return fault.New(fault.Conflict, "push_rejected", "The remote rejected %s: %s", branch, text)
}

var webPage = regexp.MustCompile(`https?://[^\s<>"']{1,500}`)

// offered is the first page on the remote's own host that its messages name, for example to open a pull request; "" = none.
func offered(to, words string) string {
	host := to
	if u, err := url.Parse(to); err == nil && u.Host != "" {
		host = u.Hostname()
	} else if m := git.ScpURL.FindStringSubmatch(to); m != nil {
		host = m[2]
	}
	for _, found := range webPage.FindAllString(words, 10) {
		if u, err := url.Parse(found); err == nil && strings.EqualFold(u.Hostname(), host) && u.User == nil {
			return u.String()
		}
	}
	return ""
}
