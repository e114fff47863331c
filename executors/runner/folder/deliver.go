package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// Delivery is a workspace's branch on its way into the owner's repository.
type Delivery struct {
	Path        string // the folder
	WorkspaceID string
	Branch      string // the workspace's branch, and its name in the repository
	// Run runs a command in the workspace's sandbox, in its worktree: whatever an agent did to its git dir affects only git inside the
	// sandbox.
	Run func(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error)
}

// Limits of a delivery.
const (
	maxDelivery       = 2 << 30 // bytes of the pack
	maxDeliveryBlob   = 1 << 30 // bytes of one file
	maxDeliveryMemory = 3 << 30 // bytes git may allocate to check it
	deliveryTime      = 10 * time.Minute
	maxNames          = 50 // names that are tried where the owner has a branch of that name
)

// Deliver puts a branch of a workspace into the folder's repository. It runs none of the agent's hooks, filters or settings, and touches no
// file of the owner's: it creates the branch, or advances it. It leaves a branch that the owner has changed or checked out as it is: then it
// delivers the work under another name, which the result says. If it is interrupted it can run again.
func (f *Folders) Deliver(ctx context.Context, d Delivery) (wire.Delivered, error) {
	if err := checkID(d.WorkspaceID); err != nil {
		return wire.Delivered{}, err
	}
	r, err := f.open(ctx, d.Path)
	if err != nil {
		return wire.Delivered{}, err
	}
	if d.Branch == "" || d.Branch == "HEAD" || d.Branch[0] == '-' || len(d.Branch) > 250 || strings.ContainsRune(d.Branch, 0) {
		return wire.Delivered{}, fault.New(fault.Invalid, "branch_invalid", "The branch has a name git does not accept.")
	}
	if ok, err := r.git.OK(ctx, hostgit.Call{Args: []string{"check-ref-format", "refs/heads/" + d.Branch}}); err != nil || !ok {
		return wire.Delivered{}, fault.Wrap(err, fault.Invalid, "branch_invalid", "The branch has a name git does not accept.")
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	defer f.lock(r.gitDir)()
	tip, err := d.tip(ctx)
	if err != nil {
		return wire.Delivered{}, err
	}
	if err := f.take(ctx, r, d, tip); err != nil {
		return wire.Delivered{}, err
	}
	return f.place(ctx, r, d, tip)
}

// tip asks the sandbox for the commit of its branch.
func (d Delivery) tip(ctx context.Context) (string, error) {
	out, err := d.git(ctx, "", nil, "rev-parse", "--verify", "--quiet", "refs/heads/"+d.Branch+"^{commit}")
	if id := strings.TrimSpace(out); err == nil && isCommitID(id) {
		return id, nil
	}
	if err != nil && !fault.Is(err, fault.Conflict) {
		return "", err
	}
	return "", fault.Wrap(err, fault.Conflict, "branch_missing", "The workspace no longer has the branch %q.", hostgit.Clean(d.Branch))
}

// errSandboxGit says that git failed in the sandbox.
func errSandboxGit(sub string, r executors.SandboxResult) error {
	return fault.New(fault.Conflict, "sandbox_git_failed", "git %s failed in the workspace: %s", sub, hostgit.Words(string(r.Stderr)))
}

// git runs git in the sandbox. Its output goes to the writer, or is returned.
func (d Delivery) git(ctx context.Context, stdin string, to io.Writer, args ...string) (string, error) {
	c := executors.SandboxCommand{Argv: append([]string{"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...),
		Env:   map[string]string{"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"},
		Stdin: []byte(stdin), TimeoutMs: deliveryTime.Milliseconds(), MaxOutput: 1 << 20}
	if to != nil {
		c.Stdout, c.MaxOutput = to, maxDelivery+1<<20
	}
	res, err := d.Run(ctx, c)
	if err != nil {
		return "", err
	}
	if res.ExitCode != 0 {
		return "", errSandboxGit(args[0], res)
	}
	return string(res.Stdout), nil
}

// take makes the sandbox pack the commits the repository lacks, checks the pack in quarantine, and adds it to the repository.
func (f *Folders) take(ctx context.Context, r repo, d Delivery, tip string) error {
	has, err := f.there(ctx, r, []string{tip})
	if err != nil || has[tip] {
		return err
	}
	known, err := f.tips(ctx, r, maxTips)
	if err != nil {
		return err
	}
	out, err := d.git(ctx, strings.Join(known, "\n")+"\n", nil, "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return err
	}
	ask := tip + "\n"
	ours := make(map[string]bool, len(known))
	for _, id := range known {
		ours[id] = true
	}
	for l := range strings.Lines(out) {
		if id, kind, _ := strings.Cut(strings.TrimSpace(l), " "); kind == "commit" && ours[id] {
			ask += "^" + id + "\n"
			delete(ours, id)
		}
	}
	in, err := r.git.Quarantine(ctx, f.cfg.Dir, r.gitDir)
	if err != nil {
		return gitFault(err, "Taking the branch")
	}
	defer func() { _ = in.Close() }()
	limits := hostgit.QuarantineLimits{Bytes: maxDelivery, Blob: maxDeliveryBlob, Memory: maxDeliveryMemory, Time: deliveryTime}
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	broken := &noted{w: pw}
	go func() { // owned by this call: ends with the sandbox's command, which is bounded
		_, err := d.git(ctx, ask, broken, "pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q")
		_ = pw.Close()
		done <- err
	}()
	err = in.Take(ctx, pr, limits)
	_ = pr.Close()
	if packed := <-done; packed != nil && broken.err == nil { // otherwise the receiver stopped reading first
		return packed
	}
	if err == nil {
		err = in.Check(ctx, map[string]bool{tip: true}, limits)
	}
	if errors.Is(err, hostgit.ErrRefused) {
		return fault.Wrap(err, fault.Conflict, "commits_refused", "The commits the workspace sent were rejected: %s. The repository is unchanged.",
			strings.TrimSuffix(strings.TrimPrefix(err.Error(), hostgit.ErrRefused.Error()+": "), "."))
	}
	if err == nil {
		err = in.Keep()
	}
	return gitFault(err, "Taking the branch")
}

// place points a branch at the commit.
func (f *Folders) place(ctx context.Context, r repo, d Delivery, tip string) (wire.Delivered, error) {
	busy, err := checkedOut(ctx, r)
	if err != nil {
		return wire.Delivered{}, err
	}
	for n := 1; n <= maxNames; n++ {
		name := d.Branch
		if n > 1 {
			name = fmt.Sprintf("%s-%d", d.Branch, n)
		}
		head, mark := "refs/heads/"+name, deliveredRefs(d.WorkspaceID)+name
		at, err := r.commitOf(ctx, head)
		if err != nil {
			return wire.Delivered{}, err
		}
		if at == tip {
			return wire.Delivered{Branch: name, Commit: tip}, nil
		}
		if busy[head] {
			continue
		}
		old := at
		if at == "" {
			old = strings.Repeat("0", len(tip))
		} else {
			was, err := r.commitOf(ctx, mark)
			if err != nil {
				return wire.Delivered{}, err
			}
			ours := was == at // nobody has changed it since
			if !ours {
				if ours, err = r.git.OK(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Args: []string{"merge-base", "--is-ancestor", at, tip}}); err != nil {
					return wire.Delivered{}, gitFault(err, "Comparing the branch with the repository's")
				}
			}
			if !ours {
				continue
			}
		}
		set := fmt.Sprintf("update %s %s %s\nupdate %s %s\n", head, tip, old, mark, tip)
		if err := f.updateRefs(ctx, r, "delivered from "+d.WorkspaceID, set); err != nil {
			return wire.Delivered{}, err
		}
		f.cfg.Log.InfoContext(ctx, "branch delivered", "folder", r.path, "branch", name, "commit", tip, "workspace_id", d.WorkspaceID)
		return wire.Delivered{Branch: name, Commit: tip}, nil
	}
	return wire.Delivered{}, fault.New(fault.Conflict, "branch_taken", "The repository already has %d branches of this name. Delete some, then deliver again.", maxNames)
}

// commitOf returns the commit a ref names, "" when there is none.
func (r repo) commitOf(ctx context.Context, name string) (string, error) {
	out, err := r.git.Text(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Args: []string{"rev-parse", "--verify", "--quiet", name + "^{commit}"}})
	if hostgit.ExitCode(err) == 1 {
		return "", nil
	}
	return out, gitFault(err, "Reading the folder's branches")
}

// checkedOut returns the branches checked out in the repository's worktrees: moving such a branch would make its files appear changed.
func checkedOut(ctx context.Context, r repo) (map[string]bool, error) {
	out, err := r.git.Run(ctx, hostgit.Call{GitDir: r.gitDir, Timeout: quickTime, Args: []string{"worktree", "list", "--porcelain", "-z"}})
	if err != nil {
		return nil, gitFault(err, "Reading the folder's worktrees")
	}
	busy := make(map[string]bool)
	for l := range strings.SplitSeq(string(out), "\x00") {
		if name, ok := strings.CutPrefix(l, "branch "); ok {
			busy[name] = true
		}
	}
	return busy, nil
}

// noted remembers that a write failed.
type noted struct {
	w   io.Writer
	err error
}

func (n *noted) Write(p []byte) (int, error) {
	k, err := n.w.Write(p)
	if err != nil {
		n.err = err
	}
	return k, err
}
