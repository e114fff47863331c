package tasks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/tools"
)

// Bounds of an import.
const (
	MaxImport             = 16 << 20 // bytes
	maxImportRows         = 5000
	maxImportDependencies = 20_000
	maxImportLine         = 1 << 20
)

// Issue is a task as beads writes it, one a line: the fields that both trackers know.
type Issue struct {
	ID           string            `json:"id"`
	Title        string            `json:"title"`
	Description  string            `json:"description,omitempty"`
	Design       string            `json:"design,omitempty"`
	Acceptance   string            `json:"acceptance_criteria,omitempty"`
	Notes        string            `json:"notes,omitempty"`
	Status       string            `json:"status"`
	Priority     int               `json:"priority"`
	Type         string            `json:"issue_type"`
	Assignee     string            `json:"assignee,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	CreatedBy    string            `json:"created_by,omitempty"`
	UpdatedAt    time.Time         `json:"updated_at"`
	ClosedAt     *time.Time        `json:"closed_at,omitempty"`
	CloseReason  string            `json:"close_reason,omitempty"`
	ExternalRef  *string           `json:"external_ref,omitempty"`
	Metadata     map[string]any    `json:"metadata,omitempty"`
	Labels       []string          `json:"labels,omitempty"`
	Dependencies []IssueDependency `json:"dependencies,omitempty"`
}

// IssueDependency is what an issue of beads depends on.
type IssueDependency struct {
	IssueID     string    `json:"issue_id"`
	DependsOnID string    `json:"depends_on_id"`
	Type        string    `json:"type"`
	CreatedAt   time.Time `json:"created_at"`
}

// metadataUID is the name under which an export remembers which task a line is.
const metadataUID = "parawork"

// IssueOf writes a task as beads does.
func IssueOf(t Task) Issue {
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	i := Issue{ID: t.ID, Title: t.Title, Description: t.Description, Status: string(t.Status), Priority: t.Priority, Type: t.Type, Assignee: t.Assignee, CreatedAt: at(t.CreatedAt),
		CreatedBy: t.CreatedBy, UpdatedAt: at(t.UpdatedAt), CloseReason: t.Reason, Labels: t.Labels}
	if t.ClosedAt != 0 {
		closed := at(t.ClosedAt)
		i.ClosedAt = &closed
	}
	if t.ExternalRef != "" {
		i.ExternalRef = &t.ExternalRef
	}
	return i
}

// Export writes all tasks of a project, closed ones included, one a line. Errors: project_not_found.
func (s *Service) Export(ctx context.Context, who Who, projectID string, to io.Writer) error {
	projectID, err := s.project(ctx, who, projectID)
	if err != nil {
		return err
	}
	out := json.NewEncoder(to)
	out.SetEscapeHTML(false)
	q := Query{TeamID: who.TeamID, ProjectID: projectID, Statuses: Statuses, Page: page.Page{Limit: page.MaxLimit}}
	for {
		rows, err := s.cfg.Store.FindTasks(ctx, q)
		if err != nil {
			return err
		}
		items, next := page.Cut(q.Page, rows, func(t Task) page.Key { return page.Key{At: Order(t.Priority, t.Num), ID: t.UID} })
		uids := make([]string, len(items))
		for i, t := range items {
			uids[i] = t.UID
		}
		deps, err := s.cfg.Store.Dependencies(ctx, uids)
		if err != nil {
			return err
		}
		for _, t := range items {
			i := IssueOf(t)
			i.Metadata = map[string]any{metadataUID: t.UID}
			if t.Parent != "" {
				i.Dependencies = append(i.Dependencies, IssueDependency{IssueID: t.ID, DependsOnID: t.Parent, Type: string(ParentChild), CreatedAt: i.CreatedAt})
			}
			for _, d := range deps {
				if d.TaskID == t.UID {
					i.Dependencies = append(i.Dependencies, IssueDependency{IssueID: t.ID, DependsOnID: d.Other.ID, Type: string(d.Type), CreatedAt: i.CreatedAt})
				}
			}
			if err := out.Encode(i); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		q.Page.Cursor = next
	}
}

// Imported is what an import did.
type Imported struct {
	Created int `json:"created"`
	Updated int `json:"updated"`
	Skipped int `json:"skipped"` // lines that are no issues, such as tombstones
}

// line is an issue with where it stood.
type line struct {
	num int
	Issue
	uid, parent string
}

func badLine(num int, format string, args ...any) error {
	return fault.New(fault.Invalid, "import_invalid", "Line %d: %s Nothing was imported.", num, fmt.Sprintf(format, args...)).With("line", num)
}

// Import adds issues of beads to a project in one transaction: all of them or, where a line is wrong, none. A line that was imported
// before, or that an export of this project wrote, changes that task. Errors: import_invalid with details.line, project_not_found,
// tasks_full.
func (s *Service) Import(ctx context.Context, who Who, projectID string, jsonl []byte) (Imported, error) {
	done, _, err := s.ImportNamed(ctx, who, projectID, jsonl)
	return done, err
}

// ImportNamed is Import, and returns the IDs of the tasks in the order of their lines.
func (s *Service) ImportNamed(ctx context.Context, who Who, projectID string, jsonl []byte) (done Imported, ids []string, err error) {
	projectID, err = s.project(ctx, who, projectID)
	if err != nil {
		return Imported{}, nil, err
	}
	lines, skipped, err := parseLines(jsonl)
	if err != nil {
		return Imported{}, nil, err
	}
	var texts []*string
	for i := range lines {
		l := &lines[i]
		texts = append(texts, &l.Title, &l.Description, &l.Design, &l.Acceptance, &l.Notes, &l.CloseReason)
	}
	if err := tools.Hide(ctx, s.cfg.Secrets, who.TeamID, texts...); err != nil {
		return Imported{}, nil, err
	}
	if err := s.room(ctx, projectID, len(lines)); err != nil {
		return Imported{}, nil, err
	}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		done, ids = Imported{Skipped: skipped}, nil
		byID := map[string]string{}
		for i := range lines {
			l := &lines[i]
			t, created, err := s.importOne(ctx, who, projectID, *l)
			if err == nil {
				err = s.changed(ctx, t)
			}
			if err != nil {
				return err
			}
			l.uid, byID[l.ID], ids = t.UID, t.UID, append(ids, t.ID)
			if created {
				done.Created++
			} else {
				done.Updated++
			}
		}
		return s.importDependencies(ctx, who, projectID, lines, byID)
	})
	if err != nil {
		return Imported{}, nil, err
	}
	s.publish(ctx, who.TeamID, s.now(), projectID)
	return done, ids, nil
}

// parseLines reads the lines, and checks each by itself.
func parseLines(jsonl []byte) (lines []line, skipped int, err error) {
	if len(jsonl) > MaxImport {
		return nil, 0, fault.New(fault.TooLarge, "import_too_large", "The import is larger than %d MiB. Split it.", MaxImport>>20)
	}
	seen := map[string]int{}
	dependencies := 0
	in := bufio.NewScanner(bytes.NewReader(jsonl))
	in.Buffer(nil, maxImportLine)
	for num := 1; in.Scan(); num++ {
		raw := bytes.TrimSpace(in.Bytes())
		if len(raw) == 0 {
			continue
		}
		l := line{num: num}
		if err := json.Unmarshal(raw, &l.Issue); err != nil {
			return nil, 0, badLine(num, "It is not an issue in JSON: %.200s.", err)
		}
		if l.Status == "tombstone" || l.ID == "" && l.Title == "" {
			skipped++
			continue
		}
		if before := seen[l.ID]; before != 0 || l.ID == "" {
			return nil, 0, badLine(num, "Its id %.80q is missing, or that of line %d too.", l.ID, before)
		}
		seen[l.ID] = num
		if len(lines) == maxImportRows {
			return nil, 0, fault.New(fault.TooLarge, "import_too_large", "The import has more than %d issues. Split it.", maxImportRows)
		}
		if len(l.Dependencies) > MaxDependencies {
			return nil, 0, badLine(num, "It has more than %d dependencies.", MaxDependencies)
		}
		if dependencies += len(l.Dependencies); dependencies > maxImportDependencies {
			return nil, 0, fault.New(fault.TooLarge, "import_too_large", "The import has more than %d dependencies in all. Split it.", maxImportDependencies)
		}
		t := Task{}
		l.fill(&t)
		if err := t.check(); err != nil {
			return nil, 0, badLine(num, "%s", fault.Words(err, "It cannot be read."))
		}
		lines = append(lines, l)
	}
	if err := in.Err(); err != nil {
		return nil, 0, fault.New(fault.TooLarge, "import_too_large", "A line is longer than %d MiB.", maxImportLine>>20)
	}
	return lines, skipped, nil
}

// fill sets what an issue says of a task.
func (l line) fill(t *Task) {
	t.Title, t.Description, t.Priority, t.Type = l.Title, Describe(l.Description, l.Design, l.Acceptance, l.Notes), l.Priority, l.Type
	t.Labels = slices.Clone(l.Labels)
	if !slices.Contains(Types, t.Type) { // beads has more types, and custom ones
		if t.Type != "" {
			t.Labels = append(t.Labels, t.Type)
		}
		t.Type = Types[0]
	}
	t.Status, t.Reason, t.ClosedAt = StatusOf(l.Status), "", 0
	if t.Status == Closed {
		t.Reason, t.ClosedAt = l.CloseReason, l.UpdatedAt.UnixMilli()
		if l.ClosedAt != nil {
			t.ClosedAt = l.ClosedAt.UnixMilli()
		}
		t.ClosedAt = max(t.ClosedAt, 1)
	}
	if l.ExternalRef != nil {
		t.ExternalRef = *l.ExternalRef
	}
}

// StatusOf maps a status of beads to one of ours.
func StatusOf(of string) Status {
	switch of {
	case "closed":
		return Closed
	case "in_progress", "hooked":
		return InProgress
	case "blocked", "deferred":
		return Blocked
	case "", "open", "pinned":
		return Open
	}
	return Status(of)
}

// Describe joins the texts that beads keeps apart.
func Describe(description, design, acceptance, notes string) string {
	var parts []string
	for _, p := range [][2]string{{"", description}, {"Design", design}, {"Acceptance criteria", acceptance}, {"Notes", notes}} {
		text := strings.TrimSpace(p[1])
		if text == "" {
			continue
		}
		if p[0] != "" {
			text = "## " + p[0] + "\n\n" + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n\n")
}

// importOne creates or changes the task of a line.
func (s *Service) importOne(ctx context.Context, who Who, projectID string, l line) (Task, bool, error) {
	t, found, err := s.known(ctx, projectID, l)
	if err != nil {
		return t, false, err
	}
	now := s.now()
	if found {
		was := t.Status
		l.fill(&t)
		t.reopened(was, t.Status, now)
		if err := t.check(); err != nil {
			return t, false, badLine(l.num, "%s", fault.Words(err, "It cannot be read."))
		}
		t.UpdatedAt = now
		t.Version++
		return t, false, s.cfg.Store.UpdateTask(ctx, t)
	}
	t = Task{UID: id.New("tsk"), TeamID: who.TeamID, ProjectID: projectID, ExternalID: l.ID, CreatedBy: who.UserID, CreatedAt: now, UpdatedAt: now, Version: 1, Files: []string{}}
	if at := l.CreatedAt.UnixMilli(); at > 0 && at < now {
		t.CreatedAt = at
	}
	l.fill(&t)
	if err := t.check(); err != nil {
		return t, false, badLine(l.num, "%s", fault.Words(err, "It cannot be read."))
	}
	t, err = s.cfg.Store.InsertTask(ctx, t)
	return t, true, err
}

// known finds the task that a line is about.
func (s *Service) known(ctx context.Context, projectID string, l line) (Task, bool, error) {
	if uid, ok := l.Metadata[metadataUID].(string); ok {
		t, err := s.cfg.Store.Task(ctx, uid)
		if err == nil && t.ProjectID == projectID {
			return t, true, nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return t, false, err
		}
	}
	t, err := s.cfg.Store.TaskByExternal(ctx, projectID, l.ID)
	if fault.Is(err, fault.NotFound) {
		return Task{}, false, nil
	}
	return t, err == nil, err
}

// importDependencies stores what the issues depend on, and checks that there is no cycle.
func (s *Service) importDependencies(ctx context.Context, who Who, projectID string, lines []line, byID map[string]string) error {
	now := s.now()
	touched := make([]string, 0, len(lines))
	for _, l := range lines {
		touched = append(touched, l.uid)
		t, err := s.cfg.Store.Task(ctx, l.uid)
		if err != nil {
			return err
		}
		for _, d := range l.Dependencies {
			on, ok := byID[d.DependsOnID]
			if !ok {
				other, err := s.cfg.Store.TaskByExternal(ctx, projectID, d.DependsOnID)
				if fault.Is(err, fault.NotFound) {
					return badLine(l.num, "It depends on %.80q, which is neither in the import nor in the project.", d.DependsOnID)
				}
				if err != nil {
					return err
				}
				on = other.UID
			}
			as := Relation(d.Type)
			if !slices.Contains(Relations, as) { // beads has more of them
				as = Related
			}
			if on == t.UID {
				return badLine(l.num, "It depends on itself.")
			}
			var err error
			if as == ParentChild {
				t.ParentUID = on
				err = s.cfg.Store.UpdateTask(ctx, t)
			} else {
				err = s.cfg.Store.PutDependency(ctx, who.TeamID, who.UserID, now, Dependency{TaskID: t.UID, DependsOn: on, Type: as})
			}
			if err != nil {
				return err
			}
		}
	}
	if cycle, err := s.acyclicProject(ctx, projectID); err != nil {
		for _, l := range lines {
			if slices.Contains(cycle, l.uid) {
				return badLine(l.num, "%s", fault.Words(err, "It is part of a cycle."))
			}
		}
		return err
	}
	waiting, err := s.waitingFor(ctx, touched)
	if err != nil {
		return err
	}
	return s.cfg.Store.Recount(ctx, append(touched, waiting...))
}

// waitingFor are the tasks that some tasks block.
func (s *Service) waitingFor(ctx context.Context, uids []string) (out []string, err error) {
	for part := range slices.Chunk(uids, 500) {
		deps, err := s.cfg.Store.Dependents(ctx, part)
		if err != nil {
			return nil, err
		}
		for _, d := range deps {
			if d.Type == Blocks {
				out = append(out, d.TaskID)
			}
		}
	}
	return out, nil
}
