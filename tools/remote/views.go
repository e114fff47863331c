package remote

import (
	"fmt"
	"strings"
	"time"
)

// What tools read of the API's objects, and show in the same names.
type (
	project struct {
		ID            string `json:"id"`
		Name          string `json:"name"`
		DefaultBranch string `json:"default_branch"`
		State         string `json:"state"`
		StateReason   string `json:"state_reason,omitempty"`
		Workspaces    int    `json:"workspaces"`
	}
	attention struct {
		Reason    string `json:"reason"`
		Text      string `json:"text"`
		SessionID string `json:"session_id,omitempty"`
	}
	workspace struct {
		ID          string     `json:"id"`
		Key         string     `json:"key"`
		Name        string     `json:"name"`
		ProjectID   string     `json:"project_id"`
		ProjectName string     `json:"project_name"`
		Branch      string     `json:"branch"`
		Base        string     `json:"base"`
		Executor    string     `json:"executor"`
		State       string     `json:"state"`
		StateReason string     `json:"state_reason,omitempty"`
		Attention   *attention `json:"attention,omitempty"`
		Agents      struct {
			State   string `json:"state"`
			Running int    `json:"running"`
		} `json:"agents"`
		Changes struct {
			Files     int `json:"files"`
			Additions int `json:"additions"`
			Deletions int `json:"deletions"`
		} `json:"changes"`
		Checks *struct {
			State string `json:"state"`
		} `json:"checks,omitempty"`
		MergedAt  *int64 `json:"merged_at,omitempty"`
		RunID     string `json:"run_id,omitempty"`
		CostNano  *int64 `json:"cost_nano,omitempty"`
		CreatedAt int64  `json:"created_at"`
	}
	option struct {
		ID          string `json:"id"`
		Label       string `json:"label"`
		Description string `json:"description,omitempty"`
		Role        string `json:"role"`
	}
	question struct {
		ID       string   `json:"id"`
		Kind     string   `json:"kind"`
		Title    string   `json:"title"`
		Detail   string   `json:"detail,omitempty"`
		Options  []option `json:"options"`
		Multi    bool     `json:"multi"`
		FreeText bool     `json:"free_text"`
		State    string   `json:"state"`
		Answer   string   `json:"answer,omitempty"`
	}
	session struct {
		ID          string     `json:"id"`
		WorkspaceID string     `json:"workspace_id"`
		Agent       string     `json:"agent"`
		State       string     `json:"state"`
		StateReason string     `json:"state_reason,omitempty"`
		Title       string     `json:"title,omitempty"`
		Prompt      string     `json:"prompt,omitempty"`
		Attention   *attention `json:"attention,omitempty"`
		Question    *question  `json:"question,omitempty"`
		StartedAt   int64      `json:"started_at"`
		EndedAt     *int64     `json:"ended_at,omitempty"`
		ExitCode    *int       `json:"exit_code,omitempty"`
		CanResume   bool       `json:"can_resume"`
	}
	attempt struct {
		ID        string     `json:"id"`
		Name      string     `json:"name"`
		Agent     string     `json:"agent"`
		State     string     `json:"state"`
		Reason    string     `json:"reason,omitempty"`
		Workspace *workspace `json:"workspace"`
		Session   *session   `json:"session"`
	}
	run struct {
		ID       string    `json:"id"`
		Name     string    `json:"name"`
		Kept     *string   `json:"kept"`
		Attempts []attempt `json:"attempts"`
	}
	change struct {
		Path      string `json:"path"`
		OldPath   string `json:"old_path,omitempty"`
		Status    string `json:"status"`
		Binary    bool   `json:"binary,omitempty"`
		Additions int    `json:"additions"`
		Deletions int    `json:"deletions"`
	}
	checkRun struct {
		ID       string `json:"id"`
		State    string `json:"state"`
		Reason   string `json:"reason,omitempty"`
		ExitCode *int64 `json:"exit_code"`
	}
	checkItem struct {
		Check struct {
			ID       string `json:"id"`
			Name     string `json:"name"`
			Required bool   `json:"required"`
		} `json:"check"`
		State string    `json:"state"`
		Run   *checkRun `json:"run"`
	}
	checks struct {
		State string      `json:"state"`
		Items []checkItem `json:"items"`
	}
	conflict struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	}
	mergeResult struct {
		Merged    bool       `json:"merged"`
		DryRun    bool       `json:"dry_run"`
		Blocked   string     `json:"blocked,omitempty"`
		Strategy  string     `json:"strategy"`
		Base      string     `json:"base"`
		Commit    string     `json:"commit,omitempty"`
		UpToDate  bool       `json:"up_to_date"`
		Commits   int        `json:"commits"`
		Files     int        `json:"files"`
		Conflicts []conflict `json:"conflicts"`
		Warnings  []string   `json:"warnings"`
	}
	page[T any] struct {
		Items      []T    `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}
)

// Bounds of texts that people and agents write, where a tool repeats them.
const (
	shortText = 300
	longText  = 4000
)

func (w workspace) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q (%s): %s", w.Key, cut(w.Name, shortText), w.ProjectName, w.State)
	if w.StateReason != "" {
		fmt.Fprintf(&b, " (%s)", cut(w.StateReason, shortText))
	}
	if w.Agents.State != "" && w.Agents.State != "none" {
		fmt.Fprintf(&b, ", agents %s", w.Agents.State)
	}
	if w.Changes.Files > 0 {
		fmt.Fprintf(&b, ", %d files +%d -%d", w.Changes.Files, w.Changes.Additions, w.Changes.Deletions)
	}
	if w.Checks != nil && w.Checks.State != "" && w.Checks.State != "none" {
		fmt.Fprintf(&b, ", checks %s", w.Checks.State)
	}
	if w.MergedAt != nil {
		b.WriteString(", merged")
	}
	if w.Attention != nil && w.Attention.Reason != "" {
		fmt.Fprintf(&b, "; needs attention: %s %s", w.Attention.Reason, cut(w.Attention.Text, shortText))
	}
	return b.String()
}

// bounded cuts what others wrote.
func (w workspace) bounded() workspace {
	w.Name, w.StateReason = cut(w.Name, shortText), cut(w.StateReason, shortText)
	if w.Attention != nil {
		if w.Attention.Reason == "" {
			w.Attention = nil
		} else {
			w.Attention.Text = cut(w.Attention.Text, shortText)
		}
	}
	return w
}

func (s session) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", s.ID, s.Agent, s.State)
	if s.StateReason != "" {
		fmt.Fprintf(&b, " (%s)", cut(s.StateReason, shortText))
	}
	if s.EndedAt != nil {
		fmt.Fprintf(&b, ", ended %s", clock(*s.EndedAt))
	}
	if s.ExitCode != nil {
		fmt.Fprintf(&b, " with exit code %d", *s.ExitCode)
	}
	if s.Attention != nil && s.Attention.Reason != "" && s.Question == nil {
		fmt.Fprintf(&b, "; needs attention: %s %s", s.Attention.Reason, cut(s.Attention.Text, shortText))
	}
	if s.Question != nil {
		b.WriteString("\n" + s.Question.text())
	}
	return b.String()
}

func (s session) bounded(most int) session {
	s.Prompt, s.Title, s.StateReason = cut(s.Prompt, most), cut(s.Title, shortText), cut(s.StateReason, shortText)
	if s.Attention != nil {
		if s.Attention.Reason == "" {
			s.Attention = nil
		} else {
			s.Attention.Text = cut(s.Attention.Text, shortText)
		}
	}
	if s.Question != nil {
		q := s.Question.bounded()
		s.Question = &q
	}
	return s
}

func (q question) bounded() question {
	q.Title, q.Detail, q.Answer = cut(q.Title, shortText), cut(q.Detail, longText), cut(q.Answer, longText)
	for i := range q.Options {
		q.Options[i].Description = cut(q.Options[i].Description, shortText)
	}
	return q
}

func (q question) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Question %s (%s): %s", q.ID, q.Kind, cut(q.Title, shortText))
	if q.Detail != "" {
		b.WriteString("\n" + cut(q.Detail, longText))
	}
	for _, o := range q.Options {
		fmt.Fprintf(&b, "\n- option %s: %s", o.ID, cut(o.Label, shortText))
	}
	if q.FreeText {
		b.WriteString("\n- or a text")
	}
	return b.String()
}

func (r run) text() string {
	lines := []string{fmt.Sprintf("Run %s %q", r.ID, cut(r.Name, shortText))}
	for _, at := range r.Attempts {
		line := fmt.Sprintf("- %s: %s", at.Agent, at.State)
		if at.Reason != "" {
			line += " (" + cut(at.Reason, shortText) + ")"
		}
		if at.Workspace != nil {
			line += "; workspace " + at.Workspace.line()
		}
		if at.Session != nil {
			line += "; session " + at.Session.line()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (r run) bounded() run {
	r.Name = cut(r.Name, shortText)
	for i, at := range r.Attempts {
		r.Attempts[i].Reason = cut(at.Reason, shortText)
		if at.Workspace != nil {
			w := at.Workspace.bounded()
			r.Attempts[i].Workspace = &w
		}
		if at.Session != nil {
			s := at.Session.bounded(shortText)
			r.Attempts[i].Session = &s
		}
	}
	return r
}

func (c checks) text() string {
	lines := []string{"Checks: " + c.State}
	for _, it := range c.Items {
		line := fmt.Sprintf("- %s: %s", cut(it.Check.Name, shortText), it.State)
		if it.Run != nil {
			line += fmt.Sprintf(", run %s %s", it.Run.ID, it.Run.State)
			if it.Run.ExitCode != nil {
				line += fmt.Sprintf(", exit code %d", *it.Run.ExitCode)
			}
		}
		lines = append(lines, line)
	}
	if len(c.Items) == 0 {
		lines = append(lines, "The project has no checks.")
	}
	return strings.Join(lines, "\n")
}

// clock writes a time of the API.
func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// dollars writes an amount of nano-USD.
func dollars(nano int64) string { return fmt.Sprintf("$%.4f", float64(nano)/1e9) }

// lines joins the lines of a list; an empty one says so.
func lines[T any](items []T, none string, line func(T) string, next string) string {
	if len(items) == 0 {
		return none
	}
	var b strings.Builder
	for i, it := range items {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line(it))
	}
	if next != "" {
		b.WriteString("\nThere are more: pass next_cursor as cursor.\nnext_cursor: " + next)
	}
	return b.String()
}
