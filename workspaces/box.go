package workspaces

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/id"
)

// boxOutput bounds what a git call in a sandbox may print.
const boxOutput = 64 << 20

// Sandbox runs git where the agent works: whatever the agent's hooks, filters and nested repositories run, they run there and not
// on the host. What a box answers is checked before it is used outside.
type Sandbox struct {
	do        func(ctx context.Context, c executors.BoxCommand) (executors.BoxResult, error)
	Workspace Workspace
	limit     time.Duration
	env       map[string]string // of every call
	like      string            // a name as the repository gives them: of its length
	gitDir    string            // the worktree's own git dir, as the box sees it
	index     string            // the temporary index

	secrets SecretFiles // what no commit may hold
	all     bool        // what is committed is everything: of it they are left out

	leave bool // the sandbox is about to end or to stand still: it is told nothing more
}

// openBox makes the sandbox if need be and a temporary index that holds HEAD, so that the agent's own is not disturbed.
func (s *Service) openBox(ctx context.Context, w Workspace) (*Sandbox, error) {
	places, _, err := s.Rooms()
	if err != nil {
		return nil, err
	}
	if err := places.Ensure(ctx, w.ID); err != nil {
		return nil, err
	}
	return s.OpenSandboxWith(ctx, w, func(ctx context.Context, c executors.BoxCommand) (executors.BoxResult, error) {
		return places.RunInBox(ctx, w.ID, c)
	})
}

// OpenSandboxWith is openBox for a place that is there, in which do runs commands.
func (s *Service) OpenSandboxWith(ctx context.Context, w Workspace, do func(context.Context, executors.BoxCommand) (executors.BoxResult, error)) (*Sandbox, error) {
	b := &Sandbox{do: do, Workspace: w, limit: s.cfg.BoxTimeout, env: map[string]string{"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "false",
		"GIT_PAGER": "cat", "GIT_LITERAL_PATHSPECS": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}}
	out, err := b.Git(ctx, nil, "rev-parse", "--absolute-git-dir", "--show-prefix")
	if err != nil {
		return nil, SandboxFault(err, "worktree_unreadable", "Opening the worktree")
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 2 || !path.IsAbs(lines[0]) || lines[1] != "" {
		return nil, fault.New(fault.Conflict, "worktree_unreadable",
			"The workspace's folder is no longer the top of its git worktree. Restore its .git file in the terminal.")
	}
	b.gitDir = lines[0]
	return b, nil
}

// head returns the commit the worktree is at and the branch it is on, "" when detached.
func (b *Sandbox) head(ctx context.Context) (commit, branch string, err error) {
	out, err := b.Git(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return "", "", SandboxFault(err, "worktree_unreadable", "Reading the worktree's commit")
	}
	if commit = strings.TrimSpace(out); !IsCommitID(commit) {
		return "", "", fmt.Errorf("box: HEAD is %q", commit)
	}
	b.like = commit
	out, err = b.Git(ctx, nil, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && boxCode(err) != 1 {
		return "", "", SandboxFault(err, "worktree_unreadable", "Reading the worktree's branch")
	}
	branch, _ = strings.CutPrefix(strings.TrimSuffix(out, "\n"), HeadsPrefix)
	return commit, branch, nil
}

// underWay are the operations of git that leave a worktree between two states, by the file that marks them.
var underWay = [...]struct{ file, name, cure string }{
	{"MERGE_HEAD", "merge", "git merge --continue, or git merge --abort"},
	{"rebase-merge", "rebase", "git rebase --continue, or git rebase --abort"},
	{"rebase-apply", "rebase", "git rebase --continue, or git rebase --abort"},
	{"CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --continue, or --abort"},
	{"REVERT_HEAD", "revert", "git revert --continue, or --abort"},
}

// operation names the merge, rebase or the like that is under way in the worktree, "" when there is none.
func (b *Sandbox) operation(ctx context.Context) (string, error) {
	r, err := b.run(ctx, executors.BoxCommand{Argv: []string{"ls", "-A", "--", b.gitDir}})
	if err != nil {
		return "", err
	}
	names := strings.Split(string(r.Stdout), "\n")
	for _, op := range underWay {
		if slices.Contains(names, op.file) {
			return op.name, nil
		}
	}
	return "", nil
}

const CodeUnderWay = "operation_in_progress"

// Idle refuses while a merge, rebase or the like is under way in the worktree.
func (b *Sandbox) Idle(ctx context.Context) error {
	name, err := b.operation(ctx)
	if err != nil {
		return err
	}
	for _, op := range underWay {
		if op.name == name {
			return fault.New(fault.Conflict, CodeUnderWay, "A %s is under way in the workspace. Finish it in the terminal first: %s.", op.name, op.cure)
		}
	}
	return nil
}

// fresh makes the temporary index: HEAD, with what the real index knows of the files, so that only changed ones are read.
func (b *Sandbox) fresh(ctx context.Context) error {
	b.newIndex()
	if _, err := b.Git(ctx, nil, "read-tree", "--reset", "--index-output="+b.index, "HEAD"); err == nil {
		return nil
	}
	// The real index may be broken or locked: do without it.
	_, err := b.indexGit(ctx, nil, "read-tree", "HEAD")
	return SandboxFault(err, "worktree_unreadable", "Reading the worktree's commit")
}

// newIndex names the temporary index.
func (b *Sandbox) newIndex() {
	if b.index == "" {
		b.index = path.Join(b.gitDir, id.New("parawork")+".index")
	}
}

// sh runs a script of ours; args are $1 and so on.
func (b *Sandbox) sh(ctx context.Context, script string, args ...string) (string, error) {
	r, err := b.run(ctx, executors.BoxCommand{Argv: append([]string{"sh", "-c", script, "sh"}, args...)})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return "", SandboxFault(&boxError{sub: "sh", result: r}, "worktree_unreadable", "Working in the workspace's folder")
	}
	return string(r.Stdout), nil
}

// close removes the temporary index.
func (b *Sandbox) close(ctx context.Context) {
	if b.index == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	_, _ = b.run(ctx, executors.BoxCommand{Argv: []string{"rm", "-f", "--", b.index, b.index + ".lock"}})
}

// keepForced adds to the temporary index what was added by hand although it is ignored: nothing else would find it.
func (b *Sandbox) keepForced(ctx context.Context) error {
	out, err := b.Git(ctx, nil, "diff-index", "--cached", "--no-renames", "--diff-filter=A", "--name-only", "-z", "--ignore-submodules=all", "HEAD")
	if err != nil || out == "" {
		return SandboxFault(err, "worktree_unreadable", "Reading what is staged")
	}
	_, err = b.indexGit(ctx, []byte(out), "update-index", "--add", "--remove", "-z", "--stdin")
	return SandboxFault(err, "worktree_unreadable", "Reading what is staged")
}

// Git runs git in the box with the agent's own index.
func (b *Sandbox) Git(ctx context.Context, stdin []byte, args ...string) (string, error) {
	return b.gitEnv(ctx, nil, stdin, args...)
}

// indexGit runs git in the box with the temporary index.
func (b *Sandbox) indexGit(ctx context.Context, stdin []byte, args ...string) (string, error) {
	return b.gitEnv(ctx, map[string]string{"GIT_INDEX_FILE": b.index}, stdin, args...)
}

func (b *Sandbox) gitEnv(ctx context.Context, env map[string]string, stdin []byte, args ...string) (string, error) {
	r, err := b.run(ctx, executors.BoxCommand{Argv: b.argv(args...), Env: env, Stdin: stdin})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return string(r.Stdout), &boxError{sub: args[0], result: r}
	}
	return string(r.Stdout), nil
}

// argv is the command line of a git call.
func (b *Sandbox) argv(args ...string) []string {
	return append([]string{"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
		"-c", "maintenance.auto=false", "-c", "core.quotePath=false", "-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false"}, args...)
}

func (b *Sandbox) run(ctx context.Context, c executors.BoxCommand) (executors.BoxResult, error) {
	env := make(map[string]string, len(b.env)+len(c.Env))
	for k, v := range b.env {
		env[k] = v
	}
	for k, v := range c.Env {
		env[k] = v
	}
	c.Env = env
	c.TimeoutMs = b.limit.Milliseconds()
	if c.MaxOutput == 0 {
		c.MaxOutput = boxOutput
	}
	r, err := b.do(ctx, c)
	if fault.Is(err, fault.Timeout) {
		err = fault.Wrap(err, fault.Timeout, "worktree_timeout", "git did not finish in the workspace within %s. A special file makes it wait forever, such as a FIFO named .gitignore: look for one in the terminal (find . -type p) and remove it.", b.limit)
	}
	return r, err
}

// identity is who git shall say made a commit.
func identity(role string, u accounts.User) map[string]string {
	name, email := cleanIdent(u.Name), cleanIdent(u.Email)
	if name == "" {
		name = "Parawork user"
	}
	if email == "" {
		email = "user@localhost"
	}
	return map[string]string{"GIT_" + role + "_NAME": name, "GIT_" + role + "_EMAIL": email}
}

// cleanIdent removes what git does not take in a name.
func cleanIdent(s string) string {
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

// boxError is a git call in the box that did not exit with 0.
type boxError struct {
	sub    string
	result executors.BoxResult
}

func (e *boxError) Error() string {
	if e.result.Signal != "" {
		return fmt.Sprintf("git %s was ended by %s", e.sub, e.result.Signal)
	}
	return fmt.Sprintf("git %s: exit %d: %s", e.sub, e.result.ExitCode, e.words())
}

func (e *boxError) words() string { return hostgit.Words(string(e.result.Stderr)) }

// command runs a program in the box that must succeed.
func (b *Sandbox) command(ctx context.Context, argv ...string) error {
	r, err := b.run(ctx, executors.BoxCommand{Argv: argv})
	if err == nil && r.ExitCode != 0 {
		err = &boxError{sub: argv[0], result: r}
	}
	return err
}
