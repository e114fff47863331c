package tasks

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Limits of what belongs to a task.
const (
	MaxArtifacts = 100 // of a task
	maxFile      = 32 << 20
)

// DefaultFile is where tasks are written in a repository when nobody names another place.
const DefaultFile = ".parawork/tasks.jsonl"

// Attachment is an artifact that belongs to a task: one that somebody attached, or that the session that has the task saved meanwhile.
type Attachment struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Version     int    `json:"version"`
	MIME        string `json:"mime"`
	Size        int64  `json:"size"`
	WorkspaceID string `json:"workspace_id"`
	CreatedAt   int64  `json:"created_at"`
}

// Attachments keeps which artifacts belong to tasks.
type Attachments interface {
	// Attach has an artifact of the task's project belong to a task; fault.NotFound when who may see no such artifact.
	Attach(ctx context.Context, t Task, who Who, artifactID string, at int64) error
	// Detach ends that, also for an artifact that the task's session saved.
	Detach(ctx context.Context, t Task, who Who, artifactID string, at int64) error
	// Attachments returns up to n artifacts of a task that who may see, newest first.
	Attachments(ctx context.Context, t Task, who Who, n int) ([]Attachment, error)
	// KeepAttachments attaches what the task's session saved, before the task is given to somebody else.
	KeepAttachments(ctx context.Context, t Task, at int64) error
}

// Attach has artifacts of the project belong to a task. Errors: artifact_not_found, invalid_task.
func (s *Service) Attach(ctx context.Context, who Who, ref string, artifactIDs ...string) (Detail, error) {
	return s.attachments(ctx, who, ref, func(ctx context.Context, t Task) error {
		for _, one := range artifactIDs {
			if err := s.cfg.Store.Attach(ctx, t, who, one, s.now()); err != nil {
				return noArtifact(err)
			}
		}
		list, err := s.cfg.Store.Attachments(ctx, t, who, MaxArtifacts+1)
		if err == nil && len(list) > MaxArtifacts {
			err = invalid("artifact", "A task has at most %d artifacts.", MaxArtifacts)
		}
		return err
	})
}

// Detach has an artifact no longer belong to a task. Errors: artifact_not_found.
func (s *Service) Detach(ctx context.Context, who Who, ref, artifactID string) (Detail, error) {
	return s.attachments(ctx, who, ref, func(ctx context.Context, t Task) error {
		return noArtifact(s.cfg.Store.Detach(ctx, t, who, artifactID, s.now()))
	})
}

func noArtifact(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "artifact_not_found", "The project has no such artifact, or it is private. List the artifacts to see their ids.")
	}
	return err
}

func (s *Service) attachments(ctx context.Context, who Who, ref string, change func(context.Context, Task) error) (Detail, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return Detail{}, err
	}
	if err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error { return change(ctx, t) }); err != nil {
		return Detail{}, err
	}
	s.publish(ctx, t.TeamID, s.now(), t.UID)
	return s.detail(ctx, who, t.UID)
}

// Files writes files of workspaces. Paths lead nowhere else, and no link is followed out of the worktree.
type Files interface {
	Write(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string) (guest.FileInfo, error)
}

// Written is an export into a file of a workspace.
type Written struct {
	Path  string `json:"path"`
	Tasks int    `json:"tasks"`
	Size  int64  `json:"size"`
}

// ExportTo writes all tasks of a workspace's project into a file of the workspace, in the order of their numbers, so that a change of
// one task is a change of one line. It commits nothing. file "" is the one that the project names, or DefaultFile. Errors:
// invalid_task_settings, export_too_large.
func (s *Service) ExportTo(ctx context.Context, who Who, workspaceID, file string) (Written, error) {
	if s.cfg.Files == nil {
		return Written{}, fault.New(fault.Unsupported, "export_unsupported", "This server writes no tasks into workspaces.")
	}
	w, err := s.cfg.Projects.Workspace(ctx, workspaceID)
	if err != nil {
		return Written{}, err
	}
	if w.TeamID != who.TeamID || who.ProjectID != "" && w.ProjectID != who.ProjectID {
		return Written{}, fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace.")
	}
	if file == "" && s.cfg.FileOf != nil {
		if file, err = s.cfg.FileOf(ctx, w.ProjectID); err != nil {
			return Written{}, err
		}
	}
	if file == "" {
		file = DefaultFile
	}
	if err := CheckFile(file); err != nil {
		return Written{}, err
	}
	out := capped{most: maxFile}
	who.ProjectID = w.ProjectID
	if err := s.Export(ctx, who, w.ProjectID, &out); err != nil {
		return Written{}, err
	}
	lines := slices.Collect(strings.Lines(out.String()))
	slices.SortStableFunc(lines, func(a, b string) int { return int(min(max(numIn(a)-numIn(b), -1), 1)) })
	text := strings.Join(lines, "")
	_, err = s.cfg.Files.Write(ctx, w.ID, guest.EncodePath(file), strings.NewReader(text), "")
	return Written{Path: file, Tasks: len(lines), Size: int64(len(text))}, err
}

// CheckFile rejects a path for the tasks in a repository that leads out of it or into git's own folder.
func CheckFile(file string) error {
	bad := !utf8.ValidString(file) || len(file) > 200 || path.IsAbs(file) || path.Clean(file) != file || strings.ContainsAny(file, "\\:*?\"<>|") || strings.ContainsFunc(file, unicode.IsControl) || !strings.HasSuffix(file, ".jsonl")
	for part := range strings.SplitSeq(file, "/") {
		bad = bad || part == ".." || part == "." || strings.EqualFold(part, ".git")
	}
	if bad {
		return fault.New(fault.Invalid, "invalid_task_settings", "The file must be a path within the repository that ends in .jsonl, such as .parawork/tasks.jsonl.").With("field", "file")
	}
	return nil
}

// numIn is the number of the task that a line of an export is about: its id comes first.
func numIn(line string) int64 {
	key, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
	n, _ := numOf(key)
	return n
}
