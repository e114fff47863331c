package origin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Work that is merged on the forge its project came from: where that is, what would be merged there, and the result.

// Origin is the URL a project's repository came from, without credentials; "" for none, or a folder.
func (s *Service) Origin(ctx context.Context, projectID string) (string, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return "", err
	}
	raw := p.Source
	switch p.SourceKind {
	case workspaces.SourceURL:
	case workspaces.SourcePath:
		raw, err = s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"config", "--get", "remote.origin.url"}})
		if hostgit.ExitCode(err) == 1 {
			return "", nil
		}
		if err != nil {
			return "", git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the remote")
		}
	default:
		return "", nil
	}
	// An agent may have written the repository's config: accept a URL only.
	r, err := git.ParseRemote(raw, slices.DeleteFunc(slices.Clone(s.cfg.Protocols), func(p string) bool { return p == "file" }))
	if err != nil {
		return "", nil //nolint:nilerr // a folder, or what no server of ours asks
	}
	return r.URL, nil
}

// Ahead is what a workspace's branch has and its base lacks.
type Ahead struct {
	Branch   string
	Head     string   // "" = the branch no longer exists
	Target   string   // the branch it would merge into
	Subjects []string // of the commits, the newest first, at most 50
}

// Ahead returns what the workspace's branch has and its base lacks.
func (s *Service) Ahead(ctx context.Context, workspaceID string) (Ahead, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return Ahead{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return Ahead{}, err
	}
	out := Ahead{Branch: w.Branch, Subjects: []string{}}
	if out.Target, err = s.repo.BranchTarget(ctx, p, w.Base); err != nil {
		return out, err
	}
	if out.Head, err = s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch); err != nil || out.Head == "" {
		return out, err
	}
	args := []string{"log", "-z", "--format=%s", "--max-count=50", out.Head}
	for _, ref := range [...]string{git.HeadsPrefix + out.Target, git.OriginPrefix + out.Target} {
		c, err := s.repo.CommitOf(ctx, p.GitDir, ref)
		if err != nil {
			return out, err
		}
		if c != "" {
			args = append(args, "^"+c)
		}
	}
	if w.BaseCommit != "" {
		args = append(args, "^"+w.BaseCommit)
	}
	raw, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: append(args, "--")})
	if err != nil {
		return out, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branch")
	}
	for subject := range strings.SplitSeq(strings.ToValidUTF8(string(raw), "\uFFFD"), "\x00") {
		if subject = strings.TrimSpace(subject); subject != "" {
			out.Subjects = append(out.Subjects, subject)
		}
	}
	return out, nil
}

// MergedThere describes a merge on the forge.
type MergedThere struct {
	Base    string // the branch there
	Head    string // of the branch, when it was merged
	Commit  string // the commit on the base: merge, squash, or the last rebased one; "" = unknown
	Text    string // for the timeline
	ActorID string // who merged it from Parawork; "" = somebody on the forge
	Data    map[string]any
}

// MergedThere fetches the base and marks the workspace as merged, in whatever form its commits landed: the merged result is the new base of
// its changes, as after a local merge. It is idempotent.
func (s *Service) MergedThere(ctx context.Context, workspaceID string, m MergedThere) error {
	if !git.IsCommitID(m.Head) || m.Commit != "" && !git.IsCommitID(m.Commit) {
		return fault.New(fault.Unavailable, "forge_answer_wrong", "The Git host reported a merge with an invalid commit id.")
	}
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	if _, err := s.ingest.Fetch(ctx, &p); err != nil {
		return err
	}
	target, err := s.repo.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return err
	}
	if _, _, err := s.repo.StepBase(ctx, p, target); err != nil { // it stays behind the remote, and views of it say so
		s.cfg.Log.InfoContext(ctx, "base not brought up to date after a merge on the Git host", "workspace_id", w.ID, "error", git.Reason(err))
	}
	unlock, err := s.locks.Busy.LockContext(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer unlock()
	base := ""
	if m.Base == target {
		if base, err = s.mergedPart(ctx, p, w, m.Head); err != nil {
			return err
		}
	}
	if base != "" {
		if err := s.repo.UpdateRefs(ctx, p.GitDir, "merged "+w.Key(), git.RefSet(git.BaseRef(w.ID), base)); err != nil {
			s.cfg.Log.WarnContext(ctx, "base ref could not be moved", "workspace_id", w.ID, "error", err)
		}
	}
	commit := cmp.Or(m.Commit, m.Head)
	again := false
	_, err = s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error {
		again = w.MergedCommit == commit
		if !again {
			w.MergedAt = s.now()
		}
		w.MergedCommit = commit
		if base != "" {
			w.BaseCommit = base
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("recording the merge: %w", err)
	}
	if !again {
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: m.ActorID, Kind: "merge", Text: m.Text, Data: m.Data})
	}
	s.records.PublishProject(ctx, p)
	s.ingest.ProjectMoved(ctx, p)
	return nil
}

// mergedPart is the last commit of the workspace's branch that was part of the merge; "" when this server cannot tell.
func (s *Service) mergedPart(ctx context.Context, p workspaces.Project, w workspaces.Workspace, head string) (string, error) {
	tip, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
	if err != nil || tip == "" {
		return "", err
	}
	if there, err := s.repo.CommitOf(ctx, p.GitDir, head); err != nil || there == "" {
		return "", nil //nolint:nilerr // others pushed there what this repository never saw
	}
	part, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"merge-base", tip, head}})
	if hostgit.ExitCode(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with what was merged")
	}
	return part, nil
}
