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

// Work that is merged elsewhere, on the forge its project came from: where that is, what would go there, and what came of it.

// Origin is where a project's repository came from, without credentials; "" for nowhere, or a folder.
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
	// What stands in a repository's config may be an agent's: it is an address or nothing.
	r, err := git.ParseRemote(raw, slices.DeleteFunc(slices.Clone(s.cfg.Protocols), func(p string) bool { return p == "file" }))
	if err != nil {
		return "", nil //nolint:nilerr // a folder, or what no server of ours asks
	}
	return r.URL, nil
}

// Ahead is what a workspace's branch has that its base has not.
type Ahead struct {
	Branch   string
	Head     string   // "" = the branch is gone
	Target   string   // the branch it would be merged into
	Subjects []string // of the commits, the newest first, at most 50
}

// Ahead tells what the workspace's branch has that its base has not.
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

// MergedThere says what was merged where.
type MergedThere struct {
	Base    string // the branch there
	Head    string // of the branch, as it was merged
	Commit  string // what the base got: merge, squash, or the last of what was rebased; "" = it was not told
	Text    string // for the timeline
	ActorID string // who merged it from here; "" = somebody there
	Data    map[string]any
}

// MergedThere fetches the base and marks the workspace as merged, whatever form its commits took: what was merged is the new base of its
// changes, as after a merge here. It may be told of the same merge again, and then adds nothing.
func (s *Service) MergedThere(ctx context.Context, workspaceID string, m MergedThere) error {
	if !git.IsCommitID(m.Head) || m.Commit != "" && !git.IsCommitID(m.Commit) {
		return fault.New(fault.Unavailable, "forge_answer_wrong", "The forge named something as merged that is no commit.")
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
	if _, _, err := s.repo.StepBase(ctx, p, target); err != nil { // it stays behind, and says so where it is asked for
		s.cfg.Log.InfoContext(ctx, "base not brought up to date after a merge elsewhere", "workspace_id", w.ID, "error", git.Reason(err))
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
		return fmt.Errorf("noting the merge: %w", err)
	}
	if !again {
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: m.ActorID, Kind: "merge", Text: m.Text, Data: m.Data})
	}
	s.records.PublishProject(ctx, p)
	s.ingest.ProjectMoved(ctx, p)
	return nil
}

// mergedPart is the last commit of the workspace's branch that was part of what was merged; "" when that cannot be told from here.
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
