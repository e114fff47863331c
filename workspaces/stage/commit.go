package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Commit commits the chosen paths, or everything that changed, on the workspace's branch with the user as author. It builds the commit with
// a temporary index; the agent's index then gets the committed paths and retains everything else.
func (s *Service) Commit(ctx context.Context, actor accounts.Actor, workspaceID string, r CommitRequest) (workspaces.Commit, error) {
	if err := checkCommit(r); err != nil {
		return workspaces.Commit{}, err
	}
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return workspaces.Commit{}, err
	}
	defer release()
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return workspaces.Commit{}, err
	}
	defer b.Close(ctx)
	maps.Copy(b.Env, sandboxgit.Identity("AUTHOR", actor.User))
	maps.Copy(b.Env, sandboxgit.Identity("COMMITTER", actor.User))
	if b.Secrets, err = s.secretFiles.SecretFiles(ctx, w.ID); err != nil {
		return workspaces.Commit{}, err
	}
	if secretfiles.Value(b.Secrets, []byte(r.Message)) {
		return workspaces.Commit{}, fault.New(fault.Invalid, "secret_in_message", "The message contains the value of a secret: everybody who has the repository could read it. Write it without that.").With("field", "message")
	}
	b.All = len(r.Paths)+len(r.Parts.List) == 0 && !r.Staged

	head, branch, err := b.Head(ctx)
	if err != nil {
		return workspaces.Commit{}, err
	}
	if branch != w.Branch {
		return workspaces.Commit{}, WrongBranch(w, branch)
	}
	if err := b.Idle(ctx); err != nil {
		return workspaces.Commit{}, err
	}
	tree, index, err := s.commitFiles(ctx, actor, p, w, b, r)
	if err != nil {
		return workspaces.Commit{}, err
	}
	commit, err := b.CommitTree(ctx, tree, head, r.Message)
	if err != nil {
		return workspaces.Commit{}, err
	}
	// Update the index first: a crash before the branch moves leaves the work staged. The other way round, the agent's next commit would
	// silently revert the work.
	reported := index.update(ctx, commit, 1) == nil
	failpoint.Reach(failpoint.CommitStaged)
	if _, err := b.Git(ctx, nil, "update-ref", "--create-reflog", "-m", "commit (parawork): "+sandboxgit.FirstLine(r.Message), git.HeadsPrefix+branch, commit, head); err != nil {
		if reported {
			if err := index.takeBack(context.WithoutCancel(ctx)); err != nil {
				s.cfg.Log.WarnContext(ctx, "index could not be restored", "workspace_id", w.ID, "error", err)
			}
		}
		return workspaces.Commit{}, git.SandboxFault(err, "branch_moved", "The branch moved meanwhile; moving it to the new commit")
	}
	failpoint.Reach(failpoint.CommitMoved)
	if !reported {
		if err := index.update(ctx, "HEAD", IndexTries); err != nil {
			s.cfg.Log.WarnContext(ctx, "index could not be refreshed after a commit", "workspace_id", w.ID, "error", err)
		}
	}
	if err := s.sandboxes.FetchCommits(ctx, p, w, b); err != nil {
		return workspaces.Commit{}, err
	}
	made, err := s.repo.ReadCommit(ctx, p, commit)
	if err != nil {
		return workspaces.Commit{}, err
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "commit",
		Text: "Committed " + git.Plural(made.Files, "file", "files") + ": " + made.Subject, Data: map[string]any{"commit": commit, "files": made.Files}})
	if _, err := s.records.Edit(context.WithoutCancel(ctx), w.ID, func(*workspaces.Workspace) error { return nil }); err != nil {
		return workspaces.Commit{}, err
	}
	return made, nil
}

func checkCommit(r CommitRequest) error {
	ways := 0
	for _, way := range [...]bool{len(r.Paths) > 0, len(r.Parts.List) > 0, r.Staged} {
		if way {
			ways++
		}
	}
	switch {
	case ways > 1:
		return fault.New(fault.Invalid, "invalid_parameter", "Choose one of paths, parts and staged.").With("field", "parts")
	case strings.TrimSpace(r.Message) == "":
		return fault.New(fault.Invalid, "message_missing", "Say in a message what the commit does.")
	case len(r.Message) > 64<<10 || !utf8.ValidString(r.Message) || strings.ContainsRune(r.Message, 0):
		return fault.New(fault.Invalid, "message_invalid", "The message must be text of at most 64 KiB.")
	case len(r.Paths) > 100_000:
		return fault.New(fault.TooLarge, "too_many_paths", "More than 100,000 paths: leave them out to commit everything.")
	}
	for _, p := range r.Paths {
		if err := sandboxgit.CheckPath(p); err != nil {
			return err
		}
	}
	return nil
}

// WrongBranch is the error that the worktree is not on the workspace's branch.
func WrongBranch(w workspaces.Workspace, branch string) error {
	at := "no branch (detached HEAD)"
	if branch != "" {
		at = "the branch " + branch
	}
	return fault.New(fault.Conflict, "branch_switched", "The workspace's folder is on %s, not on %s. Switch back in the terminal: git switch %s.", at, w.Branch, w.Branch)
}

// resolved returns an error while files have unresolved conflicts.
func resolved(ctx context.Context, b *sandboxgit.Sandbox) error {
	out, err := b.Git(ctx, nil, "ls-files", "--unmerged", "-z")
	if err != nil {
		return git.SandboxFault(err, "worktree_unreadable", "Reading the index")
	}
	if out != "" {
		return fault.New(fault.Conflict, "unresolved_conflicts", "The workspace has files with unresolved conflicts. Resolve them in the terminal first.")
	}
	return nil
}

// stage makes the tree of the commit: HEAD with the chosen paths as they are in the worktree.
func stage(ctx context.Context, b *sandboxgit.Sandbox, paths []string) (string, error) {
	if err := resolved(ctx, b); err != nil {
		return "", err
	}
	if err := b.Fresh(ctx); err != nil {
		return "", err
	}
	if len(paths) == 0 {
		if err := b.AddForced(ctx); err != nil {
			return "", err
		}
		if _, err := b.IndexGit(ctx, nil, "add", "--all"); err != nil {
			return "", git.SandboxFault(err, "commit_failed", "Collecting the changes")
		}
	} else if err := addPaths(ctx, b, paths); err != nil {
		return "", err
	}
	return changedTree(ctx, b)
}

// changedTree makes the tree of the temporary index, which must differ from that of HEAD.
func changedTree(ctx context.Context, b *sandboxgit.Sandbox) (string, error) {
	if err := b.WithoutSecrets(ctx); err != nil {
		return "", err
	}
	tree, err := b.IndexGit(ctx, nil, "write-tree")
	if err != nil {
		return "", git.SandboxFault(err, "commit_failed", "Writing the tree")
	}
	if tree = strings.TrimSpace(tree); !git.IsCommitID(tree) {
		return "", fmt.Errorf("sandbox: write-tree answered %q", tree)
	}
	was, err := b.Git(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{tree}")
	if err != nil {
		return "", git.SandboxFault(err, "worktree_unreadable", "Reading the worktree's commit")
	}
	if strings.TrimSpace(was) == tree {
		return "", fault.New(fault.Conflict, "nothing_to_commit", "Nothing to commit: the chosen files are as they were in the last commit.")
	}
	return tree, nil
}

// addPaths stages exactly the named paths. It accepts an ignored one that was staged manually.
func addPaths(ctx context.Context, b *sandboxgit.Sandbox, paths []string) error {
	var rest []string
	forced := make(map[string]bool)
	if out, err := b.Git(ctx, nil, "diff-index", "--cached", "--no-renames", "--diff-filter=A", "--name-only", "-z", "--ignore-submodules=all", "HEAD"); err == nil {
		for p := range strings.SplitSeq(out, "\x00") {
			forced[p] = true
		}
	}
	var staged bytes.Buffer
	for _, p := range paths {
		if forced[p] {
			staged.WriteString(p + "\x00")
		} else {
			rest = append(rest, p)
		}
	}
	if staged.Len() > 0 {
		if _, err := b.IndexGit(ctx, staged.Bytes(), "update-index", "--add", "--remove", "--replace", "-z", "--stdin"); err != nil {
			return git.SandboxFault(err, "commit_failed", "Collecting the changes")
		}
	}
	if len(rest) == 0 {
		return nil
	}
	_, err := b.IndexGit(ctx, []byte(strings.Join(rest, "\x00")+"\x00"), "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
	if e, ok := errors.AsType[*git.CommandError](err); ok {
		switch words := e.Words(); {
		case strings.Contains(words, "did not match any file"):
			return fault.Wrap(err, fault.Invalid, "path_unknown", "%s", strings.TrimPrefix(words, "fatal: "))
		case strings.Contains(words, "ignored by one of your .gitignore"):
			return fault.Wrap(err, fault.Invalid, "path_ignored", "%s", words)
		case strings.Contains(words, "beyond a symbolic link"), strings.Contains(words, "is in submodule"), strings.Contains(words, "outside repository"):
			return fault.Wrap(err, fault.Invalid, "path_invalid", "%s", strings.TrimPrefix(words, "fatal: "))
		}
	}
	return git.SandboxFault(err, "commit_failed", "Collecting the changes")
}

// IndexTries is how often the agent's index is tried, 200 ms apart.
const IndexTries = 10

// Refresh updates the agent's index for paths, or everything without any, to what a commit has; HEAD stays where it is. The agent's git may
// hold the index's lock for a moment.
func Refresh(ctx context.Context, b *sandboxgit.Sandbox, commit string, paths []string, tries int) error {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	stdin := []byte(strings.Join(paths, "\x00") + "\x00")
	var err error
	for try := range tries {
		if try > 0 {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return err
			}
		}
		_, err = b.Git(ctx, stdin, "reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", commit)
		if e, ok := errors.AsType[*git.CommandError](err); !ok || !strings.Contains(e.Words(), "index.lock") {
			return err
		}
	}
	return err
}
