package git

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// MaxCommits is how many commits a list shows.
const MaxCommits = 500

const commitFormat = "--format=%H%x00%P%x00%an%x00%ae%x00%at%x00%s%x00%b"

// BranchTip is the head of the workspace's branch, or of the snapshot of its last archive or deletion; "" when there is neither.
func (s *Repo) BranchTip(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (string, error) {
	head, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+w.Branch)
	if err != nil || head != "" || w.Snapshot == nil {
		return head, err
	}
	return s.CommitOf(ctx, p.GitDir, w.Snapshot.HeadRef)
}

// UnmergedArgs are rev-list arguments for the commits of head that are neither in the base branch nor were merged into it in another form.
func (s *Repo) UnmergedArgs(ctx context.Context, p workspaces.Project, w workspaces.Workspace, head string) ([]string, error) {
	args := []string{head}
	target, err := s.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return nil, err
	}
	for _, name := range [...]string{HeadsPrefix + target, "refs/remotes/origin/" + target, BaseRef(w.ID)} {
		c, err := s.CommitOf(ctx, p.GitDir, name)
		if err != nil {
			return nil, err
		}
		if c != "" {
			args = append(args, "^"+c)
		}
	}
	return append(args, "--"), nil
}

// ReadCommit reads one commit.
func (s *Repo) ReadCommit(ctx context.Context, p workspaces.Project, commit string) (workspaces.Commit, error) {
	if c, err := inProcess(ctx, p.GitDir, func(r *reader) (workspaces.Commit, error) { return r.logged(ctx, commit) }); err == nil {
		return c, nil
	}
	list, err := s.ReadCommits(ctx, p, "--no-walk", commit, "--")
	if err == nil && len(list) != 1 {
		err = fault.New(fault.Internal, "commit_missing", "The commit %s cannot be read.", commit)
	}
	if err != nil {
		return workspaces.Commit{}, err
	}
	return list[0], nil
}

// ReadCommits reads commits and counts the files of each.
func (s *Repo) ReadCommits(ctx context.Context, p workspaces.Project, args ...string) ([]workspaces.Commit, error) {
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Config: []string{"log.showSignature=false", "i18n.logOutputEncoding=UTF-8"},
		Args: append([]string{"log", "-z", "--no-color", "--no-decorate", "--no-notes", "--no-mailmap", commitFormat}, args...)})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the commits")
	}
	commits := []workspaces.Commit{}
	var ids bytes.Buffer
	const fields = 7
	f := strings.Split(string(out), "\x00")
	for ; len(f) >= fields; f = f[fields:] {
		at, _ := strconv.ParseInt(f[4], 10, 64)
		commits = append(commits, workspaces.Commit{Commit: f[0], Parents: strings.Fields(f[1]), Author: hostgit.Clean(f[2]), Email: hostgit.Clean(f[3]),
			At: at * 1000, Subject: hostgit.Clean(f[5]), Body: strings.ToValidUTF8(strings.TrimSpace(f[6]), "\uFFFD")})
		ids.WriteString(f[0] + "\n")
	}
	if len(commits) == 0 {
		return commits, nil
	}
	out, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: &ids, Args: []string{"diff-tree", "--stdin", "--root", "-r", "-m", "--first-parent",
		"--no-renames", "--shortstat", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the commits")
	}
	files := make(map[string]int)
	at := ""
	for l := range strings.SplitSeq(string(out), "\n") {
		if id, _, _ := strings.Cut(l, " "); IsCommitID(id) {
			at = id
		} else if n, err := strconv.Atoi(id0(l)); err == nil && files[at] == 0 {
			files[at] = n
		}
	}
	for i := range commits {
		commits[i].Files = files[commits[i].Commit]
	}
	return commits, nil
}

func id0(l string) string {
	w, _, _ := strings.Cut(strings.TrimSpace(l), " ")
	return w
}
