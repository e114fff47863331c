package origin

import (
	"context"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/merge"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// notesRef is the ref of notes about merged work, for `git log --notes=parawork`.
const notesRef = "refs/notes/parawork"

// Annotate puts a note on the commit the workspace was merged as, replacing an older one. It returns the commit and the ref of the notes.
// Errors: not_merged.
func (s *Service) Annotate(ctx context.Context, actor accounts.Actor, workspaceID, text string) (commit, ref string, err error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return "", "", err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return "", "", err
	}
	if w.MergedCommit != "" {
		if commit, err = s.repo.CommitOf(ctx, p.GitDir, w.MergedCommit); err != nil {
			return "", "", err
		}
	}
	if commit == "" {
		return "", "", fault.New(fault.Conflict, "not_merged", "%s is not merged yet. Merge it first: the report is attached to the commit of the merge.", w.Key())
	}
	secrets, err := s.secretFiles.SecretFiles(ctx, w.ID)
	if err != nil {
		return "", "", err
	}
	text = secretfiles.Masked(secrets, text) // notes are sent to the remote
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return "", "", err
	}
	defer unlock()
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Env: merge.IdentityEnv(actor.User, "AUTHOR", "COMMITTER"), Stdin: strings.NewReader(text),
		Args: []string{"notes", "--ref=" + notesRef, "add", "--force", "--file=-", commit}})
	if err != nil {
		return "", "", git.GitFault(err, fault.Unavailable, "note_failed", "Attaching the report")
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "report.attached", Text: "Attached the report to " + commit[:12], Data: map[string]any{"commit": commit}})
	return commit, notesRef, nil
}
