package sandboxgit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// maxOutput bounds the output of a git call in a sandbox.
const maxOutput = 64 << 20

// Sandbox runs git where the agent works: the agent's hooks, filters and nested repositories run there and not on the host. Answers are
// checked before they are used outside.
type Sandbox struct {
	do        func(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error)
	Workspace workspaces.Workspace
	Limit     time.Duration
	Env       map[string]string // of every call
	Like      string            // an object id of the repository, for its length
	GitDir    string            // the worktree's private git dir, as the sandbox sees it
	Index     string            // the temporary index

	Secrets workspaces.SecretFiles // content that no commit may have
	All     bool                   // everything is committed: leave secrets out

	Leave bool // the sandbox is about to end or to be suspended: advertise nothing to it
}

// Open makes the sandbox if needed, and a temporary index with HEAD, so that the agent's own is not disturbed.
func (s *Store) Open(ctx context.Context, w workspaces.Workspace) (*Sandbox, error) {
	places, _, err := s.records.Connected()
	if err != nil {
		return nil, err
	}
	if err := places.Ensure(ctx, w.ID); err != nil {
		return nil, err
	}
	return s.OpenWith(ctx, w, func(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) {
		return places.RunInSandbox(ctx, w.ID, c)
	})
}

// OpenWith is Open for an existing sandbox, in which do runs commands.
func (s *Store) OpenWith(ctx context.Context, w workspaces.Workspace, do func(context.Context, executors.SandboxCommand) (executors.SandboxResult, error)) (*Sandbox, error) {
	b := &Sandbox{do: do, Workspace: w, Limit: s.cfg.SandboxTimeout, Env: map[string]string{"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "false",
		"GIT_PAGER": "cat", "GIT_LITERAL_PATHSPECS": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}}
	out, err := b.Git(ctx, nil, "rev-parse", "--absolute-git-dir", "--show-prefix")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Opening the worktree")
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 2 || !path.IsAbs(lines[0]) || lines[1] != "" {
		return nil, fault.New(fault.Conflict, "worktree_unreadable",
			"The workspace's folder is no longer the top of its git worktree. Restore its .git file in the terminal.")
	}
	b.GitDir = lines[0]
	return b, nil
}

// Head returns the commit the worktree is at and its branch, "" when detached.
func (b *Sandbox) Head(ctx context.Context) (commit, branch string, err error) {
	out, err := b.Git(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return "", "", git.SandboxFault(err, "worktree_unreadable", "Reading the worktree's commit")
	}
	if commit = strings.TrimSpace(out); !git.IsCommitID(commit) {
		return "", "", fmt.Errorf("sandbox: HEAD is %q", commit)
	}
	b.Like = commit
	out, err = b.Git(ctx, nil, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && git.ExitCode(err) != 1 {
		return "", "", git.SandboxFault(err, "worktree_unreadable", "Reading the worktree's branch")
	}
	branch, _ = strings.CutPrefix(strings.TrimSuffix(out, "\n"), git.HeadsPrefix)
	return commit, branch, nil
}

// UnderWay are the git operations that leave a worktree in an intermediate state, by their marker files.
var UnderWay = [...]struct{ File, Name, cure string }{
	{"MERGE_HEAD", "merge", "git merge --continue, or git merge --abort"},
	{"rebase-merge", "rebase", "git rebase --continue, or git rebase --abort"},
	{"rebase-apply", "rebase", "git rebase --continue, or git rebase --abort"},
	{"CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --continue, or --abort"},
	{"REVERT_HEAD", "revert", "git revert --continue, or --abort"},
}

// Operation names the merge, rebase or the like in progress in the worktree, "" when there is none.
func (b *Sandbox) Operation(ctx context.Context) (string, error) {
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: []string{"ls", "-A", "--", b.GitDir}})
	if err != nil {
		return "", err
	}
	names := strings.Split(string(r.Stdout), "\n")
	for _, op := range UnderWay {
		if slices.Contains(names, op.File) {
			return op.Name, nil
		}
	}
	return "", nil
}

// CodeUnderWay is the error code of an operation in progress in the worktree.
const CodeUnderWay = "operation_in_progress"

// Idle returns an error while a merge, rebase or the like is in progress in the worktree.
func (b *Sandbox) Idle(ctx context.Context) error {
	name, err := b.Operation(ctx)
	if err != nil {
		return err
	}
	for _, op := range UnderWay {
		if op.Name == name {
			return fault.New(fault.Conflict, CodeUnderWay, "A %s is in progress in the workspace. Finish it in the terminal first: %s.", op.Name, op.cure)
		}
	}
	return nil
}

// Fresh makes the temporary index: HEAD, with the real index's stat data, so that only changed files are read.
func (b *Sandbox) Fresh(ctx context.Context) error {
	b.NewIndex()
	if _, err := b.Git(ctx, nil, "read-tree", "--reset", "--index-output="+b.Index, "HEAD"); err == nil {
		return nil
	}
	// The real index may be broken or locked: do without it.
	_, err := b.IndexGit(ctx, nil, "read-tree", "HEAD")
	return git.SandboxFault(err, "worktree_unreadable", "Reading the worktree's commit")
}

// NewIndex names the temporary index.
func (b *Sandbox) NewIndex() {
	if b.Index == "" {
		b.Index = path.Join(b.GitDir, id.New("parawork")+".index")
	}
}

// Sh runs one of the server's scripts; args are $1 and so on.
func (b *Sandbox) Sh(ctx context.Context, script string, args ...string) (string, error) {
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: append([]string{"sh", "-c", script, "sh"}, args...)})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return "", git.SandboxFault(&git.CommandError{Sub: "sh", Result: r}, "worktree_unreadable", "Working in the workspace's folder")
	}
	return string(r.Stdout), nil
}

// Close removes the temporary index.
func (b *Sandbox) Close(ctx context.Context) {
	if b.Index == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	_, _ = b.Run(ctx, executors.SandboxCommand{Argv: []string{"rm", "-f", "--", b.Index, b.Index + ".lock"}})
}

// AddForced adds files to the temporary index that were force-added although they are ignored: nothing else would find them.
func (b *Sandbox) AddForced(ctx context.Context) error {
	out, err := b.Git(ctx, nil, "diff-index", "--cached", "--no-renames", "--diff-filter=A", "--name-only", "-z", "--ignore-submodules=all", "HEAD")
	if err != nil || out == "" {
		return git.SandboxFault(err, "worktree_unreadable", "Reading what is staged")
	}
	_, err = b.IndexGit(ctx, []byte(out), "update-index", "--add", "--remove", "-z", "--stdin")
	return git.SandboxFault(err, "worktree_unreadable", "Reading what is staged")
}

// Git runs git in the sandbox with the agent's own index.
func (b *Sandbox) Git(ctx context.Context, stdin []byte, args ...string) (string, error) {
	return b.GitEnv(ctx, nil, stdin, args...)
}

// IndexGit runs git in the sandbox with the temporary index.
func (b *Sandbox) IndexGit(ctx context.Context, stdin []byte, args ...string) (string, error) {
	return b.GitEnv(ctx, map[string]string{"GIT_INDEX_FILE": b.Index}, stdin, args...)
}

// GitEnv runs git in the sandbox with additional environment.
func (b *Sandbox) GitEnv(ctx context.Context, env map[string]string, stdin []byte, args ...string) (string, error) {
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: b.Argv(args...), Env: env, Stdin: stdin})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return string(r.Stdout), &git.CommandError{Sub: args[0], Result: r}
	}
	return string(r.Stdout), nil
}

// Argv is the command line of a git call.
func (b *Sandbox) Argv(args ...string) []string {
	return append([]string{"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
		"-c", "maintenance.auto=false", "-c", "core.quotePath=false", "-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false"}, args...)
}

// Run runs a command in the sandbox with the usual limits. Error: worktree_timeout.
func (b *Sandbox) Run(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) {
	env := make(map[string]string, len(b.Env)+len(c.Env))
	maps.Copy(env, b.Env)
	maps.Copy(env, c.Env)
	c.Env = env
	c.TimeoutMs = b.Limit.Milliseconds()
	c.MaxOutput = cmp.Or(c.MaxOutput, maxOutput)
	r, err := b.do(ctx, c)
	if fault.Is(err, fault.Timeout) {
		err = fault.Wrap(err, fault.Timeout, "worktree_timeout", "git did not finish in the workspace within %s. A special file makes it wait forever, such as a FIFO named .gitignore: look for one in the terminal (find . -type p) and remove it.", b.Limit)
	}
	return r, err
}

// Identity is the author and committer of a commit.
func Identity(role string, u accounts.User) map[string]string {
	name, email := CleanIdent(u.Name), CleanIdent(u.Email)
	name = cmp.Or(name, "Parawork user")
	email = cmp.Or(email, "user@localhost")
	return map[string]string{"GIT_" + role + "_NAME": name, "GIT_" + role + "_EMAIL": email}
}

// CleanIdent removes characters git does not accept in a name.
func CleanIdent(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '<' || r == '>' || r < ' ' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if strings.Trim(s, " .,:;\"'\\") == "" {
		return ""
	}
	return strings.TrimSpace(s)
}

// Command runs a program in the sandbox that must succeed.
func (b *Sandbox) Command(ctx context.Context, argv ...string) error {
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: argv})
	if err == nil && r.ExitCode != 0 {
		err = &git.CommandError{Sub: argv[0], Result: r}
	}
	return err
}
