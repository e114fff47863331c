package workspaces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/killpoint"
)

// Commit makes a commit of the chosen paths, or of everything that changed, on the workspace's branch with the person as its
// author. It is built beside the agent's index, which afterwards knows the committed paths and keeps everything else.
func (s *Service) Commit(ctx context.Context, actor accounts.Actor, workspaceID string, r CommitRequest) (Commit, error) {
	if err := checkCommit(r); err != nil {
		return Commit{}, err
	}
	w, p, release, err := s.Begin(ctx, workspaceID)
	if err != nil {
		return Commit{}, err
	}
	defer release()
	b, err := s.openBox(ctx, w)
	if err != nil {
		return Commit{}, err
	}
	defer b.close(ctx)
	maps.Copy(b.env, identity("AUTHOR", actor.User))
	maps.Copy(b.env, identity("COMMITTER", actor.User))
	if b.secrets, err = s.SecretFiles(ctx, w.ID); err != nil {
		return Commit{}, err
	}
	if b.secrets.Value([]byte(r.Message)) {
		return Commit{}, fault.New(fault.Invalid, "secret_in_message", "The message holds the value of a secret: everybody who has the repository would read it. Write it without.").With("field", "message")
	}
	b.all = len(r.Paths)+len(r.Parts.List) == 0 && !r.Staged

	head, branch, err := b.head(ctx)
	if err != nil {
		return Commit{}, err
	}
	if branch != w.Branch {
		return Commit{}, wrongBranch(w, branch)
	}
	if err := b.Idle(ctx); err != nil {
		return Commit{}, err
	}
	tree, index, err := s.commitFiles(ctx, actor, p, w, b, r)
	if err != nil {
		return Commit{}, err
	}
	commit, err := b.commitTree(ctx, tree, head, r.Message)
	if err != nil {
		return Commit{}, err
	}
	// The index is told first: a crash before the branch moves leaves work that is staged. The other way round it would leave an
	// index that takes the work back, unseen, with the agent's next commit.
	told := index.tell(ctx, commit, 1) == nil
	killpoint.Reach(killpoint.CommitStaged)
	if _, err := b.Git(ctx, nil, "update-ref", "--create-reflog", "-m", "commit (parawork): "+firstLine(r.Message), HeadsPrefix+branch, commit, head); err != nil {
		if told {
			if err := index.takeBack(context.WithoutCancel(ctx)); err != nil {
				s.cfg.Log.WarnContext(ctx, "index could not be taken back", "workspace_id", w.ID, "error", err)
			}
		}
		return Commit{}, SandboxFault(err, "branch_moved", "The branch moved on meanwhile; moving it to the new commit")
	}
	killpoint.Reach(killpoint.CommitMoved)
	if !told {
		if err := index.tell(ctx, "HEAD", indexTries); err != nil {
			s.cfg.Log.WarnContext(ctx, "index could not be refreshed after a commit", "workspace_id", w.ID, "error", err)
		}
	}
	if err := s.bringHome(ctx, p, w, b); err != nil {
		return Commit{}, err
	}
	made, err := s.readCommit(ctx, p, commit)
	if err != nil {
		return Commit{}, err
	}
	s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "commit",
		Text: "Committed " + Plural(made.Files, "file", "files") + ": " + made.Subject, Data: map[string]any{"commit": commit, "files": made.Files}})
	if _, err := s.Edit(context.WithoutCancel(ctx), w.ID, func(*Workspace) error { return nil }); err != nil {
		return Commit{}, err
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
		if err := checkPath(p); err != nil {
			return err
		}
	}
	return nil
}

// checkPath refuses what is no path below a worktree, and git's own folder.
func checkPath(p string) error {
	clean := strings.TrimSuffix(p, "/")
	if clean == "" || strings.ContainsRune(p, 0) || len(p) > 4096 || path.IsAbs(p) || path.Clean(clean) != clean || clean == ".." ||
		strings.HasPrefix(clean, "../") || slices.ContainsFunc(strings.Split(clean, "/"), func(s string) bool { return strings.EqualFold(s, ".git") }) {
		return fault.New(fault.Invalid, "path_invalid", "%q is not a path inside the workspace.", p)
	}
	return nil
}

// freeIn is how long an operation waits for one before it, such as a dry run of a merge nobody looks at any more.
const freeIn = 20 * time.Second

// Begin checks that a workspace can be worked with and takes it for one operation at a time.
func (s *Service) Begin(ctx context.Context, workspaceID string) (Workspace, Project, func(), error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return w, Project{}, nil, err
	}
	if w.DeletedAt != 0 || w.State != Ready && w.State != Paused {
		return w, Project{}, nil, fault.New(fault.Conflict, "workspace_not_ready", "%s is %s.", w.Key(), strings.ReplaceAll(stateWord(w), "_", " "))
	}
	soon, cancel := context.WithTimeout(ctx, freeIn)
	release, err := s.locks.Busy.LockContext(soon, workspaceID)
	cancel()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return w, Project{}, nil, context.Cause(ctx)
	default:
		return w, Project{}, nil, busyFault(w)
	}
	// Read again: what was true before the lock may have ended with the operation that held it.
	if w, err = s.store.Workspace(ctx, workspaceID); err == nil && (w.DeletedAt != 0 || w.State != Ready && w.State != Paused) {
		err = fault.New(fault.Conflict, "workspace_not_ready", "%s is %s.", w.Key(), stateWord(w))
	}
	var p Project
	if err == nil {
		p, err = s.store.Project(ctx, w.ProjectID)
	}
	if err != nil {
		release()
		return w, Project{}, nil, err
	}
	return w, p, release, nil
}

func busyFault(w Workspace) error {
	return fault.New(fault.Conflict, "workspace_busy", "Something else is being done with %s. Try again in a moment.", w.Key())
}

func wrongBranch(w Workspace, branch string) error {
	at := "no branch (detached HEAD)"
	if branch != "" {
		at = "the branch " + branch
	}
	return fault.New(fault.Conflict, "branch_switched", "The workspace's folder is on %s, not on %s. Switch back in the terminal: git switch %s.", at, w.Branch, w.Branch)
}

// resolved refuses while files have unresolved conflicts.
func (b *Sandbox) resolved(ctx context.Context) error {
	out, err := b.Git(ctx, nil, "ls-files", "--unmerged", "-z")
	if err != nil {
		return SandboxFault(err, "worktree_unreadable", "Reading the index")
	}
	if out != "" {
		return fault.New(fault.Conflict, "unresolved_conflicts", "The workspace has files with unresolved conflicts. Resolve them in the terminal first.")
	}
	return nil
}

// stage builds the tree of the commit: HEAD with the chosen paths as they are in the worktree.
func (b *Sandbox) stage(ctx context.Context, paths []string) (string, error) {
	if err := b.resolved(ctx); err != nil {
		return "", err
	}
	if err := b.fresh(ctx); err != nil {
		return "", err
	}
	if len(paths) == 0 {
		if err := b.keepForced(ctx); err != nil {
			return "", err
		}
		if _, err := b.indexGit(ctx, nil, "add", "--all"); err != nil {
			return "", SandboxFault(err, "commit_failed", "Collecting the changes")
		}
	} else if err := b.addPaths(ctx, paths); err != nil {
		return "", err
	}
	return b.changedTree(ctx)
}

// changedTree makes the tree of the temporary index, which must differ from that of HEAD.
func (b *Sandbox) changedTree(ctx context.Context) (string, error) {
	if err := b.withoutSecrets(ctx); err != nil {
		return "", err
	}
	tree, err := b.indexGit(ctx, nil, "write-tree")
	if err != nil {
		return "", SandboxFault(err, "commit_failed", "Writing the tree")
	}
	if tree = strings.TrimSpace(tree); !IsCommitID(tree) {
		return "", fmt.Errorf("box: write-tree answered %q", tree)
	}
	was, err := b.Git(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{tree}")
	if err != nil {
		return "", SandboxFault(err, "worktree_unreadable", "Reading the worktree's commit")
	}
	if strings.TrimSpace(was) == tree {
		return "", fault.New(fault.Conflict, "nothing_to_commit", "Nothing to commit: the chosen files are as they were in the last commit.")
	}
	return tree, nil
}

// withoutSecrets leaves secrets' files out of the temporary index when everything is committed, and else refuses those that were chosen.
func (b *Sandbox) withoutSecrets(ctx context.Context) error {
	index := func(args ...string) (string, error) { return b.indexGit(ctx, nil, args...) }
	if !b.all {
		if err := b.secrets.noSecret(index); err != nil {
			return err
		}
		return b.stagedValue(ctx, index)
	}
	names, was, err := b.secrets.staged(index)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return b.stagedValue(ctx, index)
	}
	var in strings.Builder
	for _, name := range names {
		if e := was[name]; e.is() {
			fmt.Fprintf(&in, "%s %s\t%s\x00", e.mode, e.oid, name)
		} else {
			fmt.Fprintf(&in, "0 %s\t%s\x00", strings.Repeat("0", len(b.like)), name)
		}
	}
	_, err = b.indexGit(ctx, []byte(in.String()), "update-index", "-z", "--index-info")
	if err != nil {
		return SandboxFault(err, "commit_failed", "Leaving out secrets' files")
	}
	return b.stagedValue(ctx, index)
}

// addPaths stages exactly the named paths. One that is ignored counts when it was staged by hand.
func (b *Sandbox) addPaths(ctx context.Context, paths []string) error {
	var rest []string
	forced := make(map[string]bool)
	if out, err := b.Git(ctx, nil, "diff-index", "--cached", "--no-renames", "--diff-filter=A", "--name-only", "-z", "--ignore-submodules=all", "HEAD"); err == nil {
		for _, p := range strings.Split(out, "\x00") {
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
		if _, err := b.indexGit(ctx, staged.Bytes(), "update-index", "--add", "--remove", "--replace", "-z", "--stdin"); err != nil {
			return SandboxFault(err, "commit_failed", "Collecting the changes")
		}
	}
	if len(rest) == 0 {
		return nil
	}
	_, err := b.indexGit(ctx, []byte(strings.Join(rest, "\x00")+"\x00"), "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
	if e, ok := errors.AsType[*boxError](err); ok {
		switch words := e.words(); {
		case strings.Contains(words, "did not match any file"):
			return fault.Wrap(err, fault.Invalid, "path_unknown", "%s", strings.TrimPrefix(words, "fatal: "))
		case strings.Contains(words, "ignored by one of your .gitignore"):
			return fault.Wrap(err, fault.Invalid, "path_ignored", "%s", words)
		case strings.Contains(words, "beyond a symbolic link"), strings.Contains(words, "is in submodule"), strings.Contains(words, "outside repository"):
			return fault.Wrap(err, fault.Invalid, "path_invalid", "%s", strings.TrimPrefix(words, "fatal: "))
		}
	}
	return SandboxFault(err, "commit_failed", "Collecting the changes")
}

// commitTree makes a commit object and returns its name.
func (b *Sandbox) commitTree(ctx context.Context, tree, parent, message string) (string, error) {
	out, err := b.Git(ctx, []byte(tidyMessage(message)), "commit-tree", "-p", parent, "-F", "-", tree)
	if err != nil {
		return "", SandboxFault(err, "commit_failed", "Making the commit")
	}
	if out = strings.TrimSpace(out); !IsCommitID(out) {
		return "", fmt.Errorf("box: commit-tree answered %q", out)
	}
	return out, nil
}

// indexTries is how often the agent's index is asked for, 200 ms apart.
const indexTries = 10

// refresh makes the agent's index know of paths, of everything without any, what a commit holds; HEAD stays where it is. The
// index may be held by a git of the agent's for a moment.
func (b *Sandbox) refresh(ctx context.Context, commit string, paths []string, tries int) error {
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
		if e, ok := errors.AsType[*boxError](err); !ok || !strings.Contains(e.words(), "index.lock") {
			return err
		}
	}
	return err
}

// tidyMessage ends a message with exactly one newline and gives it Unix line ends.
func tidyMessage(m string) string {
	return strings.TrimSpace(strings.ReplaceAll(m, "\r\n", "\n")) + "\n"
}

func firstLine(m string) string {
	l, _, _ := strings.Cut(strings.TrimSpace(m), "\n")
	if r := []rune(l); len(r) > 100 {
		l = string(r[:100])
	}
	return strings.TrimSpace(l)
}
